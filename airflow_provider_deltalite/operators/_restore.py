"""The operator that restores an older version of a table: `DeltaRestoreOperator`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from airflow_provider_deltalite.operators._commit import DeltaCommitOperator
from deltalite.requests import CommitRequest, OnRerun, RestoreRequest


class DeltaRestoreOperator(DeltaCommitOperator):
    """Restore a Delta table to an older version, or to a point in time.

    The task commits a new version with the rows, the schema, the partitioning and the properties of the older version.
    It copies and deletes no file, so a large table takes seconds. The versions in between stay in the history, and
    another restore can undo this one. A change data feed contains the removed and the restored rows.

    A restore does not reset the protocol, the ids of mapped columns, the values of identity columns, or the list of
    runs that have committed. It resets source offsets and the record of loaded files, so that the next load brings the
    removed rows again.

    The data files and deletion vectors of the older version must still exist. If a vacuum has deleted some, the task
    fails, lists the first of them, and names a later version that does not need them. If the table already equals the
    older version, the task only records the run, in a new version.

    ``audits`` examine the restored rows before the commit. If an audit does not pass, the table stays as it was.

    The task returns ``{table, operation, version, read_version, committed, skipped, app_id, txn_version, timestamp,
    metrics}``. The event of each outlet ``Asset`` contains the same values. ``metrics`` has delta-spark's names
    (``numRestoredFiles``, ``numRemovedFiles``, ``numOfFilesAfterRestore``, and their sizes). You can also give every
    parameter of ``SparkSubmitOperator`` except ``application_args`` and ``java_class``.

    :param table: The table's address: a local path, or a URI with a scheme. (templated)
    :param version: The version to restore. (templated)
    :param timestamp: A time in ISO 8601. A time without a time zone is read as UTC. The task restores the version that
        was the newest at this time. A time after the last commit means the last version. Give either this or
        ``version``. (templated)
    :param ignore_missing_files: Restore the version without the rows of missing files. ``metrics`` counts these files
        as ``numMissingFiles``. (templated)
    :param audits: Named checks of the restored table, which run before the commit, such as
        ``{"name": "amounts", "rows": "amount < 0"}``. ``max_change`` compares the table before and after the restore.
        If an audit does not pass, the task fails and commits nothing, or with ``"level": "warn"`` logs a warning.
        (templated)
    :param ask: How a person is asked about audits of level ``ask``: ``timeout`` (a timedelta), ``default`` (the
        decision after this time: ``publish`` or ``reject``), ``assigned_users`` and ``notifiers``, as in Airflow's
        ``HITLOperator``. By default, the task waits without a limit, and fails after a rejection.
    :param user_metadata: A text that the table's history shows with the commit. (templated)
    :param conflict_retries: How often the job replans the restore after another writer's commit. (templated)
    :param conflict_seconds: The job stops replanning this many seconds after its first attempt. (templated)
    :param single_writer: True confirms that nobody else writes to the table at the same time. Needed only on storage
        without atomic creation of a file; no effect elsewhere. (templated)
    :param on_rerun: Decides what a cleared task does if it has committed before. ``write`` (the default) restores
        again, also after later commits; ``skip`` keeps the commit. Retries never restore twice. (templated)
    :param idempotency_key: A text that names what the task writes. It identifies the commit instead of DAG run, task
        and map index. (templated)
    :param conn_id: The Spark connection.
    :param storage_conn_id: The Airflow connection that opens the table's storage on a worker. (templated)
    :param kwargs: Parameters of ``SparkSubmitOperator`` and ``BaseOperator``.
    """

    request_class: ClassVar[type[RestoreRequest]] = RestoreRequest
    job: ClassVar[str] = "restore"

    template_fields: Sequence[str] = (
        *DeltaCommitOperator.template_fields,
        "version",
        "timestamp",
        "ignore_missing_files",
        "audits",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {"audits": "json"}
    sql_structures: ClassVar[frozenset[str]] = frozenset({"audits"})

    def __init__(
        self,
        *,
        table: str,
        version: int | str | None = None,
        timestamp: str | None = None,
        ignore_missing_files: bool | str = False,
        audits: Sequence[Mapping[str, Any]] | None = None,
        ask: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(table=table, **kwargs)
        self.version = version
        self.timestamp = timestamp
        self.ignore_missing_files = ignore_missing_files
        self.audits = audits
        self.ask = ask

    def default_on_rerun(self, request: CommitRequest) -> OnRerun:  # noqa: ARG002  the base class has it
        """Return `write`: a cleared task restores again, because the table may have changed since."""
        return OnRerun.WRITE

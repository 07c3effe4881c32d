"""The operator that takes a table back to an older version: `DeltaRestoreOperator`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from airflow_provider_deltalite.operators._commit import DeltaCommitOperator
from deltalite.requests import CommitRequest, OnRerun, Request, RestoreRequest
from deltalite.storage.versioned_path import parse_moment_ms


class DeltaRestoreOperator(DeltaCommitOperator):
    """Make a Delta table what it was at an older version, or at a time.

    The task commits a new version that holds the rows, the schema, the partitioning and the properties of the older
    one. No file is copied or deleted, so a large table takes seconds, the versions in between stay in the history, and
    a restore can be undone by another one. What only ever grows does not go back: the protocol, the ids of mapped
    columns, the values of identity columns, and which runs have written. A change data feed shows the rows that go and
    those that come back.

    The data files of the older version, and its deletion vectors, must still be there; where a vacuum has taken them
    the task fails, lists the first of them and names a later version that does not need them. A table that is already
    as it was gets a version that only records the run. The task returns ``{table, operation, version, read_version,
    committed, skipped, app_id, txn_version, timestamp, metrics}``, where ``metrics`` has delta-spark's names
    (``numRestoredFiles``, ``numRemovedFiles``, ``numOfFilesAfterRestore``, and their sizes), and the event of each
    outlet ``Asset`` carries the same. Every parameter of ``SparkSubmitOperator`` can be given too, except those that
    make up the job itself.

    :param table: The table's address: a local path, or a URI with a scheme. (templated)
    :param version: The version to restore. (templated)
    :param timestamp: Restore the version that was the newest at this time: ISO 8601, in UTC where it names no zone. A
        time between the last commit and now means the last version. Give either this or ``version``. (templated)
    :param ignore_missing_files: Restore the version without the rows of files that are not there any more, and count
        these in ``metrics`` as ``numMissingFiles``. (templated)
    :param user_metadata: A text that the table's history shows beside the run. (templated)
    :param conflict_retries: How many times the same job plans the restore again when another writer commits meanwhile.
        (templated)
    :param conflict_seconds: The job plans nothing again later than so many seconds after its first attempt. (templated)
    :param single_writer: True says that nobody else writes to the table at the same time, and so accepts a storage that
        does not keep two writers apart; where it does, this makes no difference. (templated)
    :param on_rerun: What the task does when it is cleared after a commit; a retry always resumes. ``write`` (the
        default) restores again, whatever was written since; ``skip`` leaves the commit. (templated)
    :param idempotency_key: A text that names what the task writes. It identifies the commit in place of
        DAG run, task and map index. (templated)
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
    )

    def __init__(
        self,
        *,
        table: str,
        version: int | str | None = None,
        timestamp: str | None = None,
        ignore_missing_files: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(table=table, **kwargs)
        self.version = version
        self.timestamp = timestamp
        self.ignore_missing_files = ignore_missing_files

    def default_on_rerun(self, request: CommitRequest) -> OnRerun:  # noqa: ARG002  as the base class
        """A cleared task restores again: the table should be what it was."""
        return OnRerun.WRITE

    def _request(self) -> Request:
        """The request, whose time can be read."""
        request = super()._request()
        if isinstance(request, RestoreRequest) and request.timestamp is not None:
            parse_moment_ms(request.timestamp)
        return request

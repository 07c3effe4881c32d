"""The operator that deletes files that no version inside the retention needs: `DeltaVacuumOperator`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from airflow_provider_deltalite.operators._commit import DeltaCommitOperator
from deltalite.requests import CommitRequest, OnRerun, Request, VacuumRequest

if TYPE_CHECKING:
    from deltalite.results import OperationResult
    from deltalite.storage.log_store import LogStore


class DeltaVacuumOperator(DeltaCommitOperator):
    """Delete the files in a Delta table's folder that no version inside the retention needs.

    - The task deletes a removed file, its deletion vectors and its change files once
      ``delta.deletedFileRetentionDuration`` (default: 7 days) has passed since the removal.
    - The task deletes a file that no version names, for example of a killed job, once the file is older than the
      retention and older than one day. A younger file may belong to a running job.
    - The vacuum keeps links, tables inside the table, and files and folders whose names begin with ``_`` or ``.``. It
      still cleans up change files, folders of partition columns with such names, and temporary files of killed jobs.

    Time travel and change feeds work for every version that was current inside the retention. They may fail for older
    versions. A write can lose files if it takes longer than the retention, from its first file to its commit. Give such
    a table a longer retention.

    The table's history shows ``VACUUM START`` and ``VACUUM END``. ``VACUUM END`` contains the run identity. If an
    earlier attempt has committed it, a retry returns it. If the earlier attempt was killed, the retry deletes the
    remaining files. The task returns ``{table, operation, version, read_version, committed, skipped, app_id,
    txn_version, timestamp, metrics}``. The event of each outlet ``Asset`` contains the same values. You can also give
    every parameter of ``SparkSubmitOperator`` except ``application_args`` and ``java_class``.

    :param table: The table's address: a local path, or a URI with a scheme. (templated)
    :param retention_hours: Keep files that were removed less than this many hours ago. The default is the table's
        retention. A shorter time is rejected without ``confirm_short_retention``. (templated)
    :param confirm_short_retention: The table's name (the last part of its address), or its complete address. It
        confirms a ``retention_hours`` shorter than the table's retention. Queries, streams and time travel may then
        lose files that they need. (templated)
    :param dry_run: Delete and commit nothing. The job's log lists files, and the folders with the most data to delete.
        ``metrics`` has ``numFilesToDelete``, ``sizeOfDataToDelete`` and ``numDirectoriesToDelete``. (templated)
    :param mode: ``full`` lists the table's folder. ``lite`` reads only the commits since the last vacuum. It is fast
        for a large table, but does not find files that no version names. It is rejected if the log no longer has those
        commits. (templated)
    :param user_metadata: A text that the table's history shows with the commit. (templated)
    :param conflict_retries: How often the job replans the vacuum after a change of the table's protocol or metadata.
        (templated)
    :param conflict_seconds: The job stops replanning this many seconds after its first attempt. (templated)
    :param single_writer: True confirms that nobody else writes to the table at the same time. Needed only on storage
        without atomic creation of a file; no effect elsewhere. (templated)
    :param on_rerun: Decides what a cleared task does if it has committed before. ``write`` (the default) vacuums again;
        ``skip`` keeps the commit. (templated)
    :param idempotency_key: A text that names what the task writes. It identifies the commit instead of DAG run, task
        and map index. (templated)
    :param conn_id: The Spark connection.
    :param storage_conn_id: The Airflow connection that opens the table's storage on a worker. (templated)
    :param kwargs: Parameters of ``SparkSubmitOperator`` and ``BaseOperator``.
    """

    request_class: ClassVar[type[VacuumRequest]] = VacuumRequest
    job: ClassVar[str] = "vacuum"

    template_fields: Sequence[str] = (
        *DeltaCommitOperator.template_fields,
        "retention_hours",
        "confirm_short_retention",
        "dry_run_only",
        "mode",
    )

    def __init__(
        self,
        *,
        table: str,
        retention_hours: int | str | None = None,
        confirm_short_retention: str | None = None,
        dry_run: bool | str = False,
        mode: str = "full",
        **kwargs: Any,
    ) -> None:
        super().__init__(table=table, **kwargs)
        self.retention_hours = retention_hours
        self.confirm_short_retention = confirm_short_retention
        self.dry_run_only = dry_run  # not `dry_run`, because Airflow's operators have a method with this name
        self.mode = mode

    def request_parameters(self) -> dict[str, object]:
        """Return the request's fields."""
        return super().request_parameters() | {"dry_run": self.dry_run_only}

    def default_on_rerun(self, request: CommitRequest) -> OnRerun:  # noqa: ARG002  the base class has it
        """Return `write`: a cleared task vacuums again, because more files have passed the retention."""
        return OnRerun.WRITE

    def find_finished_run(self, store: LogStore, request: Request) -> OperationResult | None:
        """Return the last commit of an earlier task attempt. A dry run has none."""
        return None if cast("VacuumRequest", request).dry_run else super().find_finished_run(store, request)

    def log_result(self, result: OperationResult) -> None:
        """Log the metrics of the vacuum or of its dry run."""
        if result.committed or result.skipped:
            super().log_result(result)
        else:
            self.log.info("Finished the dry run of a vacuum of %s: %s", result.table, dict(result.metrics))

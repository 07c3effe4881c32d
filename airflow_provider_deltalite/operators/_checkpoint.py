"""The operator that writes a checkpoint: `DeltaCheckpointOperator`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_deltalite.operators._submit import DeltaSubmitOperator
from deltalite.requests import CheckpointRequest, Request

if TYPE_CHECKING:
    from deltalite.results import OperationResult
    from deltalite.storage.log_store import LogStore


class DeltaCheckpointOperator(DeltaSubmitOperator):
    """Write a checkpoint of a table's newest version, and delete expired files of its log.

    Writes of this package make checkpoints automatically, at the table's ``delta.checkpointInterval``. Use this task
    for tables that other engines write without checkpoints, and to make the log short before many readers use it. You
    can run it at any time: it makes no commit, and writes no checkpoint if the newest version has one. For more than a
    million files, Spark writes the checkpoint in parallel.

    The task returns ``{table, operation, version, read_version, committed, skipped, app_id, txn_version, timestamp,
    metrics}``. ``skipped`` is True if the checkpoint already existed. ``metrics`` counts the actions and files in the
    checkpoint, and the deleted files of the log.

    :param table: The table's address: a local path, or a URI with a scheme. (templated)
    :param log_cleanup: Delete expired files of the log, as ``delta.logRetentionDuration`` and
        ``delta.enableExpiredLogCleanup`` of the table allow. (templated)
    :param single_writer: True confirms that nobody else writes to the table at the same time. Needed only on storage
        without atomic creation of a file; no effect elsewhere. (templated)
    :param conn_id: The Spark connection.
    :param storage_conn_id: The Airflow connection that opens the table's storage on a worker. (templated)
    :param kwargs: Parameters of ``SparkSubmitOperator`` and ``BaseOperator``.
    """

    request_class: ClassVar[type[CheckpointRequest]] = CheckpointRequest
    job: ClassVar[str] = "checkpoint"

    template_fields: Sequence[str] = (*DeltaSubmitOperator.template_fields, "log_cleanup")

    def __init__(
        self,
        *,
        table: str,
        log_cleanup: bool = True,
        single_writer: bool = False,
        conn_id: str = "spark_default",
        storage_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            table=table, conn_id=conn_id, storage_conn_id=storage_conn_id, single_writer=single_writer, **kwargs
        )
        self.log_cleanup = log_cleanup

    def record_state_before_job(self, store: LogStore, request: Request) -> None:  # noqa: ARG002  the base class has it
        """Keep the newest version, and whether it has a checkpoint."""
        from deltalite import watch  # loads pyarrow, which DAG parsing must not load

        version = watch.latest_version(store)
        has_checkpoint = watch.find_checkpoint(store, from_version=version) is not None
        self.state_before_job = {"version": version, "has_checkpoint": has_checkpoint}

    def find_result_after_job(self, store: LogStore, request: Request, *, failed: bool) -> OperationResult | None:  # noqa: ARG002
        """Return the checkpoint of the newest version before the job, or of a later version.

        After a failed job, a checkpoint that existed before the job is not the job's result.
        """
        from deltalite import watch  # loads pyarrow, which DAG parsing must not load

        if failed and self.state_before_job["has_checkpoint"]:
            return None
        return watch.find_checkpoint(store, from_version=self.state_before_job["version"])

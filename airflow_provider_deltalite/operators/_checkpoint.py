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
    """Write the checkpoint of a table's newest version, and clean its log.

    Commits write checkpoints by themselves, at the table's ``delta.checkpointInterval``. This task is for tables that
    other engines write without any, and for a log that should be small before many readers come. A version that has
    its checkpoint is left as it is, so the task may run at any time and as often as one likes; nothing is committed.
    Above a million files Spark writes the checkpoint, in parallel.

    The task returns ``{table, operation, version, read_version, committed, skipped, app_id, txn_version, timestamp,
    metrics}``, where ``skipped`` says that the checkpoint was there, and ``metrics`` counts the actions and files in it
    and the files of the log that were deleted.

    :param table: The table's address: a local path, or a URI with a scheme. (templated)
    :param log_cleanup: Delete what has expired from the log, as far as ``delta.logRetentionDuration`` and
        ``delta.enableExpiredLogCleanup`` of the table allow. (templated)
    :param single_writer: True says that nobody else writes to the table at the same time, and so accepts a storage that
        cannot keep two writers apart. (templated)
    :param conn_id: The Spark connection.
    :param storage_conn_id: The Airflow connection that opens the table's storage on a worker. (templated)
    :param kwargs: Parameters of ``SparkSubmitOperator`` and ``BaseOperator``.
    """

    request_class: ClassVar[type[CheckpointRequest]] = CheckpointRequest
    job: ClassVar[str] = "checkpoint"

    _from_version: int  # the newest version when the task began, and whether it had its checkpoint then
    _was_there: bool

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

    def look(self, store: LogStore, request: Request) -> None:  # noqa: ARG002  as the base class
        """Remember the newest version, and whether its checkpoint is there."""
        from deltalite import watch  # loads pyarrow, which parsing a DAG must not

        self._from_version = watch.latest_version(store)
        self._was_there = watch.find_checkpoint(store, from_version=self._from_version) is not None

    def landed(self, store: LogStore, request: Request, *, failed: bool) -> OperationResult | None:  # noqa: ARG002
        """The checkpoint of the version that the task found, or of a newer one; it proves nothing if it was there."""
        from deltalite import watch  # loads pyarrow, which parsing a DAG must not

        return None if failed and self._was_there else watch.find_checkpoint(store, from_version=self._from_version)

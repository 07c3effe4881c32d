"""The base of the operators that can put rows into a quarantine table."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from airflow_provider_deltalite.operators._commit import DeltaCommitOperator
from deltalite.requests import CopyRequest, MergeRequest, Request, ScdRequest, WriteRequest

if TYPE_CHECKING:
    from deltalite.results import OperationResult
    from deltalite.storage.log_store import LogStore

RequestWithQuarantine = CopyRequest | WriteRequest | MergeRequest | ScdRequest


class DeltaQuarantineOperator(DeltaCommitOperator):
    """Run a request that may commit to a quarantine table before it commits to its table.

    :param kwargs: Parameters of ``DeltaCommitOperator``.
    """

    request_class: ClassVar[type[RequestWithQuarantine]]

    def addresses(self, request: Request) -> list[str]:
        """Return the addresses of the table and of the quarantine, and of the tables that audits refer to."""
        quarantine = cast("RequestWithQuarantine", request).quarantine
        return [*super().addresses(request), *([] if quarantine is None else [quarantine])]

    def find_result_after_job(self, store: LogStore, request: Request, *, failed: bool) -> OperationResult | None:
        """Return the commit of this DAG run, or a result without a commit if there is nothing new to load.

        After a failed job, only a commit is a result.
        """
        from airflow_provider_deltalite.incremental import find_finished_run

        result = find_finished_run(self, store, cast("RequestWithQuarantine", request), has_job_ended=True)
        return None if failed and result is not None and result.skip_reason else result

    def log_result(self, result: OperationResult) -> None:
        """Log the result, with a warning if rows went to the quarantine."""
        super().log_result(result)
        quarantine = result.quarantine
        if quarantine is not None and quarantine.rows:
            from deltalite.sizes import counted

            self.log.warning(
                "Quarantined %s in version %s of %s (run %s).",
                counted(quarantine.rows, "row"),
                quarantine.version,
                quarantine.table,
                result.app_id,
            )

"""Stands in for the log of a table in a task that maintains many tables. DAG parsing does not import this module.

The worker reads none of the logs: the job checks in the log of each table what the DAG run has committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from airflow_provider_deltalite.operators._table_log import TableLog
from deltalite.results import OperationResult, result_without_commit

if TYPE_CHECKING:
    from airflow_provider_deltalite.failures import FailedTable
    from airflow_provider_deltalite.outcome import JobReport
    from deltalite.errors import DeltaLiteError
    from deltalite.requests import MaintainRequest
    from deltalite.storage.log_store import LogStore


class LakeLog(TableLog):
    """The logs of the tables of a maintenance, which only the job reads."""

    def _open(self) -> LogStore | None:
        return None

    def find_result_after_job(self, job: JobReport, *, failed: bool) -> OperationResult | None:
        """Return the reported result of a job that succeeded, or else a result without rows; None for a failed job.

        The job did its work, so the loss of its report must not fail the task.
        """
        if failed:
            return None
        if job.result is not None:
            return job.result
        self._operator.log.warning(
            "The job succeeded, but its report did not reach this worker. The result has no rows."
        )
        request = cast("MaintainRequest", self._request)
        return result_without_commit(request.operation, request.table, None)

    def failed_table(self, error: DeltaLiteError | None) -> FailedTable | None:  # noqa: ARG002  the base class has it
        """Return None: the message of the failure names the failed tables."""
        return None

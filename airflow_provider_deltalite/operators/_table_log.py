"""The log of a task's table, as the worker reads it before and after the job. It decides whether the DAG run committed.

The worker may lack access to the table. Its check only saves a submission, because the job checks again. DAG parsing
does not import this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowException

from airflow_provider_deltalite.failures import FailedTable
from airflow_provider_deltalite.hooks.delta import DeltaHook
from deltalite import watch
from deltalite.errors import DeltaLiteError, StorageError, StoragePermissionError, UnsupportedStorageError
from deltalite.storage.locations import parse_location

if TYPE_CHECKING:
    from airflow_provider_deltalite.operators._submit import DeltaSubmitOperator
    from airflow_provider_deltalite.outcome import JobReport
    from deltalite.requests import Request
    from deltalite.results import OperationResult
    from deltalite.storage.log_store import LogStore

_LOG_NOT_READ = (
    "Could not read the log of %s on this worker: %s The job itself checks whether its DAG run has already committed."
)


class TableLog:
    """The log of the table of one request.

    `missing_table` is the address of the table if the table does not exist and the job needs it.

    Raises:
        UnsupportedStorageError: the worker cannot read the storage, and the table is local or the author gave a
            connection for the storage.
        AirflowNotFoundException: Airflow has no such connection, or its secrets backend did not answer.
        StorageError: the connection did not open the storage.
    """

    missing_table: str | None = None

    def __init__(self, operator: DeltaSubmitOperator, request: Request) -> None:
        self._operator = operator
        self._request = request
        self._store = self._open()

    def _open(self) -> LogStore | None:
        """Open the log. Return None if only Spark can read the storage."""
        conn_id, table = self._operator.storage_conn_id, self._request.table
        try:
            return DeltaHook(table, conn_id).get_conn()
        except UnsupportedStorageError as error:
            if conn_id is not None or parse_location(table).is_local:
                raise
            self._operator.log.warning(_LOG_NOT_READ, table, error)
            return None

    def restore_state(self, state_before_job: Mapping[str, Any] | None) -> None:
        """Use what the log showed before the job of a deferred task; None if the worker could not read the log."""
        if state_before_job is None:
            self._store = None
        else:
            self._operator.state_before_job = dict(state_before_job)

    @property
    def state_before_job(self) -> dict[str, Any] | None:
        """What the log showed before the job, as JSON values; None if this worker does not read the log."""
        return None if self._store is None else self._operator.state_before_job

    def find_earlier_result(self) -> OperationResult | None:
        """Return the result of an earlier task attempt; None if the log shows none.

        The method also records the state before the job, and a missing table. It returns None, after a warning, if this
        worker lacks the permission to read the log and the task has no `storage_conn_id`.
        """
        operator, store = self._operator, self._store
        if store is None:
            return None
        operator.state_before_job = {}
        try:
            operator.record_state_before_job(store, self._request)
            result = operator.find_finished_run(store, self._request)
            if result is None and operator.needs_table(self._request) and watch.latest_version(store) < 0:
                self.missing_table = self._request.table
        except StoragePermissionError as error:
            may_lack_permission = operator.storage_conn_id is None and not parse_location(store.root).is_local
            if not may_lack_permission:
                raise
            operator.log.warning(_LOG_NOT_READ, self._request.table, error)
            self._store = None
            return None
        return result

    def find_result_after_job(self, job: JobReport, *, failed: bool) -> OperationResult | None:
        """Return the result that the log shows; None if it shows none.

        :param job: The report of the job. If this worker cannot read the log, the reported result is returned.
        :param failed: Whether the job failed.
        """
        if self._store is None:
            return job.result
        return self._operator.find_result_after_job(self._store, self._request, failed=failed)

    def no_result_error(self) -> AirflowException:
        """Return the error for a job that succeeded although neither its output nor the log shows a result."""
        log = f"the log of {self._request.table}"
        reason = f"this worker cannot read {log}" if self._store is None else f"{log} does not show what this run did"
        return AirflowException(
            f"The job succeeded but returned no result, and {reason}. "
            "Read the driver's log. A retry is safe: it does only what this attempt has not committed."
        )

    def failed_table(self, error: DeltaLiteError | None) -> FailedTable | None:
        """Return the table and its newest version for the message of a failure; None if the message names no table.

        The version is None after a storage error, because the same storage would probably fail again.
        """
        version = None
        if self._store is not None and not isinstance(error, StorageError):
            with suppress(DeltaLiteError):
                version = watch.latest_version(self._store)
        return FailedTable(table=str(self._operator.table), version=version)

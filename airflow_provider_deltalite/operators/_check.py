"""The operator that checks a version of a table: `DeltaCheckOperator`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from airflow_provider_deltalite.operators._audits import log_audits
from airflow_provider_deltalite.operators._submit import DeltaSubmitOperator
from deltalite.requests import CheckRequest, Request

if TYPE_CHECKING:
    from deltalite.results import OperationResult
    from deltalite.storage.log_store import LogStore


class DeltaCheckOperator(DeltaSubmitOperator):
    """Run audits on a version of a table, which the task does not change.

    The audits are those of ``DeltaWriteOperator``. They examine all rows of the version. ``max_change`` compares the
    row counts of this version and of the previous one. Use this task for tables that other engines write, and for
    checks of several tables after all of them have been written. To check rows before others can read them, give
    ``audits`` to the operator that writes them.

    The task fails with ``AuditFailedError`` if an audit of level ``fail`` does not pass. Airflow does not retry this
    failure. A cleared task checks again.

    The task returns ``{table, operation, version, read_version, committed, skipped, app_id, txn_version, timestamp,
    metrics, audits}``. ``metrics`` has ``numAudits`` and ``numAuditsNotPassed``.

    :param table: The table's address: a local path, or a URI with a scheme. (templated)
    :param audits: Named checks of all rows. Each audit is a mapping with ``name``, a check and its limits, such as
        ``{"name": "no_orphans", "rows": "customer IS NULL", "max_share": 0.001}``. (templated)
    :param version: The version to check. By default, the newest version. (templated)
    :param timestamp: A time in ISO 8601. A time without a time zone is read as UTC. The task checks the version that
        was the newest at this time. (templated)
    :param single_writer: No effect, because the task writes nothing. (templated)
    :param conn_id: The Spark connection.
    :param storage_conn_id: The Airflow connection that opens the table's storage on a worker. (templated)
    :param kwargs: Parameters of ``SparkSubmitOperator`` and ``BaseOperator``.
    """

    request_class: ClassVar[type[CheckRequest]] = CheckRequest
    job: ClassVar[str] = "check"

    template_fields: Sequence[str] = (*DeltaSubmitOperator.template_fields, "audits", "version", "timestamp")
    template_fields_renderers: ClassVar[dict[str, str]] = {"audits": "json"}
    sql_structures: ClassVar[frozenset[str]] = frozenset({"audits"})

    def __init__(
        self,
        *,
        table: str,
        audits: Sequence[Mapping[str, Any]],
        version: int | str | None = None,
        timestamp: str | None = None,
        single_writer: bool = False,
        conn_id: str = "spark_default",
        storage_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            table=table, conn_id=conn_id, storage_conn_id=storage_conn_id, single_writer=single_writer, **kwargs
        )
        self.audits = audits
        self.version = version
        self.timestamp = timestamp

    def record_state_before_job(self, store: LogStore, request: Request) -> None:  # noqa: ARG002  the base class has it
        """Keep the newest version."""
        from deltalite import watch  # loads pyarrow, which DAG parsing must not load

        self.state_before_job = {"version": watch.latest_version(store)}

    def find_result_after_job(self, store: LogStore, request: Request, *, failed: bool) -> OperationResult | None:
        """Return the result of a job that succeeded and whose output this worker did not receive.

        All audits of level ``fail`` have passed. The log does not hold the measured values, so the result has none. If
        the request names neither a version nor a time, the result has the newest version before the job. The job may
        have checked a later one. If the request names a time, the result has no version.
        """
        from deltalite.results import check_result

        if failed:
            return None
        check = cast("CheckRequest", request)
        newest = self.state_before_job["version"] if check.timestamp is None else None
        return check_result(store.root, newest if check.version is None else check.version, None)

    def log_result(self, result: OperationResult) -> None:
        """Log the version and the results of its audits."""
        self.log.info("Checked version %s of %s.", result.version, result.table)
        log_audits(self.log, result)

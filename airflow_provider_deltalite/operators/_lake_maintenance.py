"""The operator that maintains many tables in one Spark application: `DeltaLakeMaintenanceOperator`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

from airflow.providers.common.compat.sdk import Asset, AssetAlias

from airflow_provider_deltalite.assets.delta import delta_asset
from airflow_provider_deltalite.operators._commit import DeltaCommitOperator
from airflow_provider_deltalite.parse_time import Constants
from deltalite.errors import InvalidRequestError
from deltalite.requests import DEFAULT_THRESHOLDS, CommitRequest, MaintainRequest, OnRerun, Request
from deltalite.requests.source_paths import split_address
from deltalite.storage.locations import parse_location
from deltalite.storage.versioned_path import refuse_version

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_deltalite.failures import FailedTable
    from airflow_provider_deltalite.operators._table_log import TableLog
    from deltalite.errors import DeltaLiteError
    from deltalite.results import OperationResult
    from deltalite.storage.log_store import LogStore


class DeltaLakeMaintenanceOperator(DeltaCommitOperator):
    """Maintain many Delta tables in one Spark application: optimize, checkpoint and vacuum where due.

    The job measures each table from its log, and runs only the steps that are due by the thresholds below. It maintains
    several tables at the same time, the ones with the largest gain first. The steps are those of
    ``DeltaOptimizeOperator``, ``DeltaCheckpointOperator`` and ``DeltaVacuumOperator``. An optimize clusters the rows of
    a clustered table.

    - One table's failure stops no other table. The task fails after all tables were tried, and the error names the
      failed tables. Airflow retries the task if a retry can succeed for at least one of them.
    - Each step commits once for each DAG run. If the job is killed, a retry continues, and reports the steps of the
      earlier attempt as ``done earlier``.
    - After ``max_seconds`` no further step starts. The remaining tables are ``not reached``, and the task succeeds. The
      next run begins with the largest gain again.

    The task returns ``{table, operation, version, read_version, committed, skipped, app_id, txn_version, timestamp,
    metrics, tables}``. ``version`` is None. ``metrics`` counts the tables by status (``numTables``,
    ``numFailedTables``, ``numChangedTables``, ``numNotReachedTables``, ``numDueTables``, ``numHealthyTables``) and the
    steps (``numOptimizedTables``, ``numCheckpoints``, ``numVacuumedTables``). ``tables`` has a row for each of at most
    300 tables, the failed and changed ones first: ``table``, ``status``, the measures ``before`` and ``after``, the
    ``steps`` with ``outcome`` and ``reason``, and the ``error``. A failed task has the same XCom.

    With ``catalog_schema``, each row also has the ``name`` in the catalog. Views and tables of other formats have the
    status ``skipped`` and a ``reason``, and ``numSkippedTables`` counts them.

    The event of each outlet ``Asset`` contains these values without ``tables``. An outlet ``AssetAlias`` gets an event
    for each changed table in ``tables``, with the row of the table. Tables without a row have no event, and the task
    logs a warning if ``numOmittedRows`` in ``metrics`` is not 0. You can also give every parameter of
    ``SparkSubmitOperator`` except ``application_args`` and ``java_class``.

    :param tables: The addresses of the tables. (templated)
    :param pattern: A pattern instead of ``tables``: an address with ``*``, ``?``, ``[ab]`` or ``{a,b}`` in its parts,
        or ``**`` for any number of folders outside of tables. ``s3://lake/*`` are the tables in a folder. Folders that
        are not tables are left out. (templated)
    :param catalog_schema: A schema of Spark's catalog instead of ``tables``, such as ``sales`` or ``catalog.sales``.
        The job maintains its Delta tables, and skips views and tables of other formats. The configuration of Spark sets
        up the catalog, such as a Hive metastore. (templated)
    :param dry_run: Only report the health of the tables: the measures, and the steps that are due. The task then
        succeeds even if a table cannot be read, and reports this table as failed. ``deltalite health`` does the same
        without Spark. (templated)
    :param optimize: Optimize the tables for which this is due. (templated)
    :param checkpoint: Write the checkpoints that are due. (templated)
    :param vacuum: Vacuum the tables for which this is due. (templated)
    :param target_file_size: The size of a packed file in bytes. The default is ``delta.targetFileSize`` of each table,
        or else 256 MiB. (templated)
    :param min_small_files: Optimize a table if the optimize would rewrite at least this many files. (templated)
    :param max_deleted_rows_ratio: Also optimize a table if the share of its soft-deleted rows exceeds this ratio. The
        optimize rewrites the files whose share exceeds it. (templated)
    :param checkpoint_after_commits: Write a checkpoint if readers read at least this many commits after the last one.
        The default is ``delta.checkpointInterval`` of each table. (templated)
    :param min_dead_bytes: Vacuum a table if its log names at least this many bytes of removed files whose retention has
        passed. (templated)
    :param vacuum_after_days: Also vacuum a table this many days after its last vacuum, or after its creation if it had
        none. A table without a commit since its last vacuum and without removed files to delete needs no vacuum.
        (templated)
    :param vacuum_mode: ``full`` lists the folders of a table. ``lite`` reads only its log, and becomes ``full`` if the
        log lacks commits since the last vacuum. Only ``full`` removes files that were never committed: those of killed
        jobs and of failed audits. (templated)
    :param parallelism: How many tables are maintained at the same time. (templated)
    :param max_seconds: No step starts after this many seconds. A step that has started continues to its end.
        (templated)
    :param max_bytes: The most bytes that the optimize steps of this run rewrite together. A step that needs more than
        the remaining bytes is ``not reached``. (templated)
    :param user_metadata: A text that the history of each changed table shows with the commits. (templated)
    :param conflict_retries: How often each step replans after another writer's commit. (templated)
    :param conflict_seconds: A step stops replanning this many seconds after its first attempt. (templated)
    :param single_writer: True confirms that nobody else writes to the tables at the same time. Needed only on storage
        without atomic creation of a file; no effect elsewhere. (templated)
    :param on_rerun: Decides what a cleared task does. ``write`` (the default) maintains the tables again; ``skip``
        keeps the steps that the DAG run has committed. (templated)
    :param idempotency_key: A text that names what the task does. It identifies the commits instead of DAG run, task and
        map index. (templated)
    :param conn_id: The Spark connection.
    :param storage_conn_id: Not used: only the job reads the tables. (templated)
    :param kwargs: Parameters of ``SparkSubmitOperator`` and ``BaseOperator``.
    """

    request_class: ClassVar[type[MaintainRequest]] = MaintainRequest
    job: ClassVar[str] = "maintain"
    omitted_parameters: ClassVar[frozenset[str]] = frozenset({"table", "partition_events"})

    template_fields: Sequence[str] = (
        *(name for name in DeltaCommitOperator.template_fields if name != "table"),
        "tables",
        "pattern",
        "catalog_schema",
        "dry_run_only",
        "optimize",
        "checkpoint",
        "vacuum",
        "target_file_size",
        "min_small_files",
        "max_deleted_rows_ratio",
        "checkpoint_after_commits",
        "min_dead_bytes",
        "vacuum_after_days",
        "vacuum_mode",
        "parallelism",
        "max_seconds",
        "max_bytes",
    )
    plain_texts: ClassVar[frozenset[str]] = DeltaCommitOperator.plain_texts | {"pattern", "catalog_schema"}

    def __init__(
        self,
        *,
        tables: Sequence[str] | None = None,
        pattern: str | None = None,
        catalog_schema: str | None = None,
        dry_run: bool | str = False,
        optimize: bool | str = DEFAULT_THRESHOLDS.optimize,
        checkpoint: bool | str = DEFAULT_THRESHOLDS.checkpoint,
        vacuum: bool | str = DEFAULT_THRESHOLDS.vacuum,
        target_file_size: int | str | None = DEFAULT_THRESHOLDS.target_file_size,
        min_small_files: int | str = DEFAULT_THRESHOLDS.min_small_files,
        max_deleted_rows_ratio: float | str = DEFAULT_THRESHOLDS.max_deleted_rows_ratio,
        checkpoint_after_commits: int | str | None = DEFAULT_THRESHOLDS.checkpoint_after_commits,
        min_dead_bytes: int | str = DEFAULT_THRESHOLDS.min_dead_bytes,
        vacuum_after_days: int | str = DEFAULT_THRESHOLDS.vacuum_after_days,
        vacuum_mode: str = "full",
        parallelism: int | str = 4,
        max_seconds: int | str | None = None,
        max_bytes: int | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(table="", **kwargs)  # the request names the table that stands for the lake
        self.tables = tables
        self.pattern = pattern
        self.catalog_schema = catalog_schema
        self.dry_run_only = dry_run  # not `dry_run`, because Airflow's operators have a method with this name
        self.optimize = optimize
        self.checkpoint = checkpoint
        self.vacuum = vacuum
        self.target_file_size = target_file_size
        self.min_small_files = min_small_files
        self.max_deleted_rows_ratio = max_deleted_rows_ratio
        self.checkpoint_after_commits = checkpoint_after_commits
        self.min_dead_bytes = min_dead_bytes
        self.vacuum_after_days = vacuum_after_days
        self.vacuum_mode = vacuum_mode
        self.parallelism = parallelism
        self.max_seconds = max_seconds
        self.max_bytes = max_bytes

    def request_parameters(self) -> dict[str, object]:
        """Return the request's fields."""
        return super().request_parameters() | {"dry_run": self.dry_run_only}

    def addresses(self, request: Request) -> list[str]:
        """Return the addresses of the tables, or of the folder at which the listing of the pattern begins.

        Only the job knows the addresses of the tables of a catalog.
        """
        request = cast("MaintainRequest", request)
        return list(request.tables) if request.pattern is None else [split_address(request.pattern)[0]]

    def check_constants(self, constants: Constants) -> None:
        """Reject wrong parameters when the DAG is parsed, as far as their values are known."""
        if self.partition_events is not None:
            raise InvalidRequestError(
                "partition_events is set, but a maintenance changes no rows of partitions.", remedy="Leave it out."
            )
        super().check_constants(constants)
        if not isinstance(self.tables, str) and not constants.is_unknown_at_parse_time(self.tables):
            for address in self.tables or ():
                if not constants.is_unknown_at_parse_time(address):
                    _check_address(address)
        if self.pattern is not None and not constants.is_unknown_at_parse_time(self.pattern):
            parse_location(split_address(self.pattern)[0])

    def _request(self) -> Request:
        request = super()._request()
        for address in cast("MaintainRequest", request).tables:
            _check_address(address)
        return request

    def open_log(self, request: Request) -> TableLog:
        """Return a stand-in for the logs of all tables. The worker reads none of them."""
        from airflow_provider_deltalite.operators._lake_log import LakeLog

        return LakeLog(self, request)

    def default_on_rerun(self, request: CommitRequest) -> OnRerun:  # noqa: ARG002  the base class has it
        """Return `write`: a cleared task maintains the tables again, from their newest versions."""
        return OnRerun.WRITE

    def find_finished_run(self, store: LogStore, request: Request) -> OperationResult | None:  # noqa: ARG002
        """Return None: the job finds the steps of earlier attempts in the logs of the tables."""
        return None

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]  # as in the base class
        """Run the job, and return its result. If tables failed, store the result as XCom before the task fails."""
        with self._storing_result_of_failure(context):
            return super().execute(context)

    def execute_complete(self, context: Context, **deferral: Any) -> dict[str, Any]:
        """Return the result of the job, after the task was deferred. Handle a failure as `execute` does."""
        with self._storing_result_of_failure(context):
            return super().execute_complete(context, **deferral)

    def log_result(self, result: OperationResult) -> None:
        """Log the counts. The job has logged a line for each table."""
        self.log.info("%s of %s: %s", result.operation, result.table, dict(result.metrics))

    @contextmanager
    def _storing_result_of_failure(self, context: Context) -> Iterator[None]:
        """If the block fails after the job has reported its result, store the result as XCom."""
        try:
            yield
        except Exception:  # The result says what the job did to each table.
            job = None if self.submission is None else self.submission.submitted_job
            if job is not None and job.result is not None and self.do_xcom_push:
                context["ti"].xcom_push(key="return_value", value=job.result.as_dict())
            raise

    def _describe_outlet_events(self, context: Context, result: OperationResult) -> None:
        """Put the counts on the events of assets, and add an event for each changed table to each alias."""
        counts = replace(result, tables=()).as_dict()
        omitted_rows = result.metrics.get("numOmittedRows", 0)
        if omitted_rows and any(isinstance(outlet, AssetAlias) for outlet in self.outlets):
            from deltalite.sizes import counted

            self.log.warning(
                "Sending asset events for the %s in the result only: the result omits %s. A changed table that it "
                "omits sends no event. Maintain fewer tables in a task to get all events.",
                counted(len(result.tables), "table"),
                counted(omitted_rows, "table"),
            )
        for outlet in self.outlets:
            if isinstance(outlet, Asset):
                context["outlet_events"][outlet].extra = counts
            elif isinstance(outlet, AssetAlias):
                for row in result.tables:
                    if row["status"] == "changed":
                        context["outlet_events"][outlet].add(delta_asset(row["table"]), extra=dict(row))

    def _failed_table(self, error: DeltaLiteError | None) -> FailedTable | None:  # noqa: ARG002  the base class has it
        """Return None: the message of the failure names the failed tables."""
        return None


def _check_address(address: object) -> None:
    refuse_version(str(address))
    parse_location(str(address))

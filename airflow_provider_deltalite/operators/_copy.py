"""The operator that loads each file of a folder once: `DeltaCopyOperator`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

from airflow_provider_deltalite.operators._quarantine import DeltaQuarantineOperator
from deltalite.requests import CopyRequest, Request

if TYPE_CHECKING:
    from deltalite.results import OperationResult
    from deltalite.storage.log_store import LogStore


class DeltaCopyOperator(DeltaQuarantineOperator):
    """Append the rows of those files of a folder that the table has not loaded, each file once.

    The commit with the rows also records their files. So a file is loaded once across runs, retries, renamed DAGs and
    concurrent runs. A restore of the table also restores this record, so the next run loads later files again. A file
    whose size, modification time or ETag has changed is loaded again. The first load creates the table.

    If no file is new, the task commits nothing: its result has ``skipped: true`` and ``skip_reason``. Otherwise the
    task returns ``{table, operation, version, read_version, committed, skipped, app_id, txn_version, timestamp,
    metrics}``. ``metrics`` has ``numLoadedFiles``, ``numLoadedBytes``, ``numSkippedFiles`` (loaded before),
    ``numRemainingFiles`` (left for later runs), ``minModificationTime`` and ``maxModificationTime`` (milliseconds UTC),
    and the metrics of a write. With a quarantine, ``metrics`` also has ``numQuarantinedRows`` and
    ``numUnreadableFiles``, and the result has ``quarantine``: ``{table, version, rows}``. The event of each outlet
    ``Asset`` contains the same values.

    You can also give every parameter of ``SparkSubmitOperator`` except ``application_args`` and ``java_class``.

    :param table: The table's address: a local path, or a URI with a scheme. (templated)
    :param source: The files: a mapping with ``format`` (``csv``, ``json``, ``parquet``, ``orc``, ``avro`` or ``text``),
        ``path`` (a folder with its subfolders, a file, or a pattern such as ``s3://landing/2026-*/``), and perhaps
        ``options`` and ``schema`` (Spark DDL). Without a schema, the first load infers the columns, and later loads
        read the files with the types of the table. Avro files need a schema. (templated)
    :param pattern: A pattern for names, such as ``*.csv``. A pattern with ``/`` applies to the path below the folder.
        (templated)
    :param file_names: The names of the files to load, relative to ``path``. A missing file is an error. (templated)
    :param query: A Spark SQL query on the view ``source`` that returns the rows. By default, all rows. (templated)
    :param query_params: Values for the markers ``:name`` in ``query``: texts, numbers, booleans or None. (templated)
    :param force: Load all matching files, also those loaded before. (templated)
    :param validate_only: Check types, NOT NULL and constraints of this many rows as a load does. Write and commit
        nothing. Only audits of level ``quarantine`` run. ``metrics`` then has ``numValidRows``. (templated)
    :param file_column: The name of a column that gets the address of the file of each row. (templated)
    :param merge_schema: Add columns that the table does not have. Without it, such a column fails the task, or its
        records or files go to ``quarantine``. (templated)
    :param max_files: The maximum number of files in one run, the oldest first. (templated)
    :param max_bytes: The maximum size of the files in one run, the oldest first. A run loads at least one file.
        (templated)
    :param partition_by: The partition columns of a new table, in order. (templated)
    :param properties: Table properties for a new table, such as ``{"delta.appendOnly": "true"}``. (templated)
    :param max_records_per_file: The maximum number of rows in a data file. (templated)
    :param optimize_write: Write fewer, larger files in each partition, at the cost of a shuffle. (templated)
    :param audits: Named checks of the new rows or of the table, which run on the written files before the commit, as in
        ``DeltaWriteOperator``. If an audit does not pass, the task fails, and the files count as not loaded. With
        ``"level": "warn"`` the task logs a warning instead, with ``"ask"`` a person decides, and with ``"quarantine"``
        the bad rows go to ``quarantine``. (templated)
    :param ask: How a person is asked about audits of level ``ask``: ``timeout`` (a timedelta), ``default`` (the
        decision after this time: ``publish`` or ``reject``), ``assigned_users`` and ``notifiers``, as in Airflow's
        ``HITLOperator``. By default, the task waits without a limit, and fails after a rejection.
    :param quarantine: The address of a Delta table for bad records and unreadable files. Without it, each of them fails
        the task. With it, the other records and files are loaded. The quarantine gets each CSV or JSON record that
        does not fit the schema, as ``file``, ``line``, ``reason`` and ``record``. Without ``merge_schema``, this
        includes records with a value in a column that the table lacks. The quarantine gets one row for each file that
        is damaged, incomplete or not in the format of the source, and for each Parquet or ORC file whose columns do not
        fit the table. It also gets the rows that audits of level ``quarantine`` reject. For CSV and JSON files, a
        quarantine needs ``schema`` in the source, or an existing table. (templated)
    :param max_bad_share: The largest share of bad records, and of unreadable files, in a run, from 0 to 1. Above it,
        the task fails and loads nothing. By default, half of them may be bad, or ten if that is more. (templated)
    :param user_metadata: A text that the table's history shows with the commit. (templated)
    :param conflict_retries: How often the job replans the load after a conflict with another writer's commit. With 0,
        only Airflow's retries repeat it. (templated)
    :param conflict_seconds: The job stops replanning this many seconds after its first attempt. (templated)
    :param single_writer: True confirms that nobody else writes to the table or to its quarantine at the same time.
        Needed only on storage without atomic creation of a file; no effect elsewhere. (templated)
    :param on_rerun: Decides what a cleared task does if it has committed before. ``skip`` (the default) keeps the
        commit; ``write`` loads the files that are new since then. (templated)
    :param idempotency_key: A text that names what the task writes. It identifies the commit instead of DAG run, task
        and map index. (templated)
    :param conn_id: The Spark connection.
    :param storage_conn_id: The Airflow connection that opens the table's storage on a worker. (templated)
    :param kwargs: Parameters of ``SparkSubmitOperator`` and ``BaseOperator``.
    """

    request_class: ClassVar[type[CopyRequest]] = CopyRequest
    job: ClassVar[str] = "copy_files"

    template_fields: Sequence[str] = (
        *DeltaQuarantineOperator.template_fields,
        "source",
        "pattern",
        "file_names",
        "query",
        "query_params",
        "force",
        "validate_only",
        "file_column",
        "merge_schema",
        "max_files",
        "max_bytes",
        "partition_by",
        "properties",
        "max_records_per_file",
        "optimize_write",
        "audits",
        "quarantine",
        "max_bad_share",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        "source": "json",
        "query": "sql",
        "query_params": "json",
        "properties": "json",
        "audits": "json",
    }
    sql_texts: ClassVar[frozenset[str]] = DeltaQuarantineOperator.sql_texts | {"query"}
    sql_structures: ClassVar[frozenset[str]] = frozenset({"audits"})

    def __init__(
        self,
        *,
        table: str,
        source: Mapping[str, Any],
        pattern: str | None = None,
        file_names: Sequence[str] | None = None,
        query: str | None = None,
        query_params: Mapping[str, Any] | None = None,
        force: bool = False,
        validate_only: int | None = None,
        file_column: str | None = None,
        merge_schema: bool = False,
        max_files: int | None = None,
        max_bytes: int | None = None,
        partition_by: Sequence[str] | None = None,
        properties: Mapping[str, str] | None = None,
        max_records_per_file: int | None = None,
        optimize_write: bool = False,
        audits: Sequence[Mapping[str, Any]] | None = None,
        ask: Mapping[str, Any] | None = None,
        quarantine: str | None = None,
        max_bad_share: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(table=table, **kwargs)
        self.source = source
        self.pattern = pattern
        self.file_names = file_names
        self.query = query
        self.query_params = query_params
        self.force = force
        self.validate_only = validate_only
        self.file_column = file_column
        self.merge_schema = merge_schema
        self.max_files = max_files
        self.max_bytes = max_bytes
        self.partition_by = partition_by
        self.properties = properties
        self.max_records_per_file = max_records_per_file
        self.optimize_write = optimize_write
        self.audits = audits
        self.ask = ask
        self.quarantine = quarantine
        self.max_bad_share = max_bad_share

    def find_result_after_job(self, store: LogStore, request: Request, *, failed: bool) -> OperationResult | None:
        """Return the commit of this DAG run.

        Without a commit, a job that succeeded has found no file to load, or only checked rows (``validate_only``). The
        log does not show this: the table may not exist yet, or a new file may have come after the job's listing.
        """
        result = super().find_result_after_job(store, request, failed=failed)
        return result if failed else result or self._result_without_commit(store, cast("CopyRequest", request))

    def _result_without_commit(self, store: LogStore, request: CopyRequest) -> OperationResult:
        """Return the result of a job that succeeded, made no commit, and whose output this worker did not receive."""
        from deltalite import watch  # loads pyarrow, which DAG parsing must not load
        from deltalite.results import result_without_commit

        newest_version = watch.latest_version(store)
        version = None if newest_version < 0 else newest_version
        if request.validate_only is not None:
            self.log.warning(
                "The job has checked rows, but its output did not reach this worker: their number is unknown."
            )
            return result_without_commit(request.operation, store.root, version)
        reason = (
            f"The job found no file in {request.source.path} to load. Its output did not reach this worker, but it "
            "succeeded, and the log of the table has no commit of this run."
        )
        result = result_without_commit(request.operation, store.root, version, run=request.identity, skipped=True)
        return replace(result, skip_reason=reason)

    def needs_table(self, request: Request) -> bool:  # noqa: ARG002  the base class has it
        """Return False, because the first load creates the table."""
        return False

"""The operator that writes rows: `DeltaWriteOperator`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

from airflow_provider_deltalite.operators._quarantine import DeltaQuarantineOperator
from airflow_provider_deltalite.operators._sources import (
    SOURCE_FIELDS,
    SOURCE_RENDERERS,
    delta_addresses,
    sources_by_view,
)
from deltalite.requests import CommitRequest, OnRerun, Request, WriteMode, WriteRequest


class DeltaWriteOperator(DeltaQuarantineOperator):
    """Write the rows of one or several sources to a Delta table, once for each DAG run.

    Each commit contains the run identity. A retry therefore finds the commit of an earlier attempt, returns it, and
    writes nothing. The task returns ``{table, operation, version, read_version, committed, skipped, app_id,
    txn_version, timestamp, metrics}``, and ``quarantine`` (``{table, version, rows}``) if it has one. The event of each
    outlet ``Asset`` contains the same values.

    You can also give every parameter of ``SparkSubmitOperator`` except ``application_args`` and ``java_class``.
    ``application`` names the job's script if Spark has its own copy, such as ``local:///...`` in a container image.
    Airflow stores rendered parameters, so put passwords into Spark's configuration and not into ``options``.

    :param table: The table's address: a local path, or a URI with a scheme. (templated)
    :param source: The input, which ``query`` reads as the view ``source``. It is a mapping with ``format``, and with
        ``path``, ``options`` and ``schema`` (Spark DDL) if the format needs them. Format ``delta`` takes
        ``version_as_of`` or ``timestamp_as_of``, and no ``schema``. For changed rows, it takes
        ``changes_from_version`` and ``changes_to_version``. Both are inclusive, and the default of
        ``changes_to_version`` is the newest version. ``incremental`` (True or a name) loads what is new in a Delta
        table since the last commit of this flow: appended rows, or changed rows with ``"read": "changes"``.
        ``max_versions`` and ``max_bytes`` limit a run. ``"on_gap": "reload"`` loads the complete table again if the
        next versions are lost. ``"on_change": "skip"`` leaves out commits that change rows. (templated)
    :param sources: Several inputs, by the names of their views. Give either this or ``source``. (templated)
    :param query: A Spark SQL query on the views that returns the rows. By default, all rows of ``source``. (templated)
    :param query_params: Values for the markers ``:name`` in ``query``: texts, numbers, booleans or None. Spark binds
        them as values, so they cannot change the query. (templated)
    :param deduplicate: Keep one row of the query for each key: ``{"keys": ["id"], "keep": "last", "order_by":
        "changed_at"}``. ``order_by`` is a Spark SQL expression or a list of them; ``keep`` is ``last`` (the default) or
        ``first``. Rows that are equal in all columns count as one. The task fails if different rows of a key have the
        same order. (templated)
    :param mode: ``append``; ``overwrite``; ``error``, which fails if the table exists; or ``ignore``, which writes
        no rows if the table exists. (templated)
    :param partition_by: The partition columns of a new table, in order. They must equal those of an existing table,
        unless ``overwrite_schema`` replaces them. (templated)
    :param replace_where: With ``overwrite``: a predicate. The write replaces the rows that satisfy it, and each new row
        must satisfy it. (templated)
    :param confirm_all_rows: True confirms a ``replace_where`` that is always true, such as ``1 = 1``. Without it, such
        a predicate is rejected. To overwrite the complete table, leave ``replace_where`` out. (templated)
    :param partition_overwrite: With ``overwrite``: ``static`` replaces all rows, ``dynamic`` only the partitions that
        receive rows. (templated)
    :param merge_schema: Add columns that the table does not have. In a table with
        ``delta.enableTypeWidening``, also widen columns to the types of the rows, such as ``INT`` to ``BIGINT``.
        (templated)
    :param overwrite_schema: With ``overwrite``: the rows define the table's new schema, and ``partition_by`` its new
        partitioning. ``[]`` removes the partitioning; without ``partition_by`` it stays. (templated)
    :param max_records_per_file: The maximum number of rows in a data file. (templated)
    :param optimize_write: Write fewer, larger files in each partition, at the cost of a shuffle. (templated)
    :param data_change: False says that an ``overwrite`` only rearranges rows, so that readers of changes ignore it.
        (templated)
    :param user_metadata: A text that the table's history shows with the commit. (templated)
    :param properties: Table properties, such as ``{"delta.appendOnly": "true"}``, for a new table or with
        ``overwrite_schema``. They may include constraints (``delta.constraints.<name>``: SQL) and table features
        (``delta.feature.<name>``: ``supported``). (templated)
    :param conflict_retries: How often the job replans the write after a conflict with another writer's commit. With 0,
        only Airflow's retries repeat it. The job computes the query again if the query reads the table itself, or if
        the rows must change (another schema, identity values). Otherwise it keeps the written files. (templated)
    :param conflict_seconds: The job stops replanning this many seconds after its first attempt. (templated)
    :param single_writer: True confirms that nobody else writes to the table or to its quarantine at the same time.
        Needed only on storage without atomic creation of a file; no effect elsewhere. (templated)
    :param on_rerun: Decides what a cleared task does if it has committed before. ``skip`` keeps the commit. ``write``
        writes again. ``replace`` replaces the run's earlier rows by the new rows (``append`` only). The default is
        ``write`` for ``overwrite``, and ``skip`` for other modes. Retries never write twice. (templated)
    :param idempotency_key: A text that names what the task writes, such as ``{{ task.source.path }}`` of a mapped task.
        It identifies the commit instead of DAG run, task and map index. (templated)
    :param out_of_order: With ``overwrite``: decides what the task does if runs of later data intervals have already
        changed rows that it may touch. The values are ``fail`` (the default after a clear), ``warn`` (the default of a
        first run) and ``allow``. Use ``allow`` for an overwrite that gives the same rows in any order. (templated)
    :param audits: Named checks of the new rows or of the table, which run on the written files before the commit. Each
        audit is a mapping with ``name``, a check and its limits, such as
        ``{"name": "no_orphans", "rows": "customer IS NULL", "max_share": 0.001}``. If an audit does not pass, the task
        fails and commits nothing, or with ``"level": "warn"`` logs a warning. With ``"level": "quarantine"``, the bad
        rows of a ``rows`` audit go to ``quarantine``, and the other rows are written. (templated)
    :param ask: How a person is asked about audits of level ``ask``: ``timeout`` (a timedelta), ``default`` (the
        decision after this time: ``publish`` or ``reject``), ``assigned_users`` and ``notifiers``, as in Airflow's
        ``HITLOperator``. By default, the task waits without a limit, and fails after a rejection.
    :param quarantine: The address of a Delta table for the rows that audits of level ``quarantine`` reject. It gets the
        name of the audit, the reason and the row as JSON. The first such row creates the table. (templated)
    :param conn_id: The Spark connection.
    :param storage_conn_id: The Airflow connection that opens the table's storage on a worker. (templated)
    :param kwargs: Parameters of ``SparkSubmitOperator`` and ``BaseOperator``.
    """

    request_class: ClassVar[type[WriteRequest]] = WriteRequest
    job: ClassVar[str] = "write"

    template_fields: Sequence[str] = (
        *DeltaQuarantineOperator.template_fields,
        *SOURCE_FIELDS,
        "mode",
        "partition_by",
        "replace_where",
        "confirm_all_rows",
        "partition_overwrite",
        "merge_schema",
        "overwrite_schema",
        "max_records_per_file",
        "optimize_write",
        "data_change",
        "properties",
        "out_of_order",
        "audits",
        "quarantine",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **SOURCE_RENDERERS,
        "replace_where": "sql",
        "properties": "json",
        "audits": "json",
    }
    sql_texts: ClassVar[frozenset[str]] = DeltaQuarantineOperator.sql_texts | {"query", "replace_where"}
    sql_structures: ClassVar[frozenset[str]] = frozenset({"audits", "deduplicate"})

    def __init__(
        self,
        *,
        table: str,
        source: Mapping[str, Any] | None = None,
        sources: Mapping[str, Mapping[str, Any]] | None = None,
        query: str | None = None,
        query_params: Mapping[str, Any] | None = None,
        deduplicate: Mapping[str, Any] | None = None,
        mode: str = "append",
        partition_by: Sequence[str] | None = None,
        replace_where: str | None = None,
        confirm_all_rows: bool = False,
        partition_overwrite: str = "static",
        merge_schema: bool = False,
        overwrite_schema: bool = False,
        max_records_per_file: int | None = None,
        optimize_write: bool = False,
        data_change: bool = True,
        properties: Mapping[str, str] | None = None,
        out_of_order: str | None = None,
        audits: Sequence[Mapping[str, Any]] | None = None,
        ask: Mapping[str, Any] | None = None,
        quarantine: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(table=table, **kwargs)
        self.source = source
        self.sources = sources
        self.query = query
        self.query_params = query_params
        self.deduplicate = deduplicate
        self.mode = mode
        self.partition_by = partition_by
        self.replace_where = replace_where
        self.confirm_all_rows = confirm_all_rows
        self.partition_overwrite = partition_overwrite
        self.merge_schema = merge_schema
        self.overwrite_schema = overwrite_schema
        self.max_records_per_file = max_records_per_file
        self.optimize_write = optimize_write
        self.data_change = data_change
        self.properties = properties
        self.out_of_order = out_of_order
        self.audits = audits
        self.ask = ask
        self.quarantine = quarantine

    def request_parameters(self) -> dict[str, object]:
        """Return the request's fields. A single source becomes the view `source`."""
        return super().request_parameters() | {"sources": sources_by_view(self.source, self.sources)}

    def addresses(self, request: Request) -> list[str]:
        """Return the addresses of the table, the quarantine, and the Delta tables among the sources and in audits."""
        return [*super().addresses(request), *delta_addresses(cast("WriteRequest", request).sources)]

    def needs_table(self, request: Request) -> bool:  # noqa: ARG002  the base class has it
        """Return False, because the first write creates the table."""
        return False

    def default_on_rerun(self, request: CommitRequest) -> OnRerun:
        """Return `write` for an overwrite, which replaces its earlier rows; other modes would write rows twice."""
        return OnRerun.WRITE if cast("WriteRequest", request).mode is WriteMode.OVERWRITE else OnRerun.SKIP

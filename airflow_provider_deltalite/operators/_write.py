"""The operator that writes rows: `DeltaWriteOperator`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

from airflow_provider_deltalite.operators._commit import DeltaCommitOperator
from airflow_provider_deltalite.operators._sources import SOURCE_FIELDS, SOURCE_RENDERERS, delta_addresses, views
from deltalite.requests import CommitRequest, OnRerun, Request, WriteMode, WriteRequest


class DeltaWriteOperator(DeltaCommitOperator):
    """Write the rows of one or several sources to a Delta table, once for each run of the task.

    Each commit carries the identity of the task's run, so a retry whose earlier try has committed returns that commit
    and writes nothing. The task returns ``{table, operation, version, read_version, committed, skipped, app_id,
    txn_version, timestamp, metrics}``, and the event of each outlet ``Asset`` carries the same.

    Every parameter of ``SparkSubmitOperator`` can be given too, except those that make up the job itself.
    ``application`` names the job's script where Spark has one of its own, such as ``local:///...`` in a container
    image. Rendered parameters are stored by Airflow: passwords belong into Spark's configuration, not into ``options``.

    :param table: The table's address: a local path, or a URI with a scheme. (templated)
    :param source: The input, seen by ``query`` as the view ``source``: a mapping with ``format`` and, as the format
        needs them, ``path``, ``options`` and ``schema`` (Spark DDL). Format ``delta`` takes ``version_as_of`` or
        ``timestamp_as_of`` instead of options and schema, or ``changes_from_version`` and ``changes_to_version`` (both
        inclusive; to the newest where it is left out), which give the changed rows. (templated)
    :param sources: Several inputs, by the names of their views; excludes ``source``. (templated)
    :param query: Spark SQL that makes the rows out of the views; all rows of the source where it is left out.
        (templated)
    :param query_params: Values for the markers ``:name`` in ``query``: texts, numbers, booleans or None. Spark binds
        them as values, so whatever stands in them, the query stays the same. (templated)
    :param mode: ``append``; ``overwrite``; ``error``, which refuses a table that exists; or ``ignore``, which leaves it
        alone. (templated)
    :param partition_by: The partition columns of a new table, in order; of an existing one they must be the same,
        unless ``overwrite_schema`` replaces them. (templated)
    :param replace_where: With ``overwrite``: a predicate; the rows that satisfy it are replaced, and each new row must
        satisfy it. (templated)
    :param confirm_all_rows: True confirms a ``replace_where`` that is always true, such as ``1 = 1``. Without it such a
        predicate is refused; to overwrite the whole table, leave ``replace_where`` out. (templated)
    :param partition_overwrite: With ``overwrite``: ``static`` replaces all rows, ``dynamic`` the partitions that
        receive rows. (templated)
    :param merge_schema: Add columns that the table does not have. (templated)
    :param overwrite_schema: With ``overwrite``: the rows bring the table's new schema, and ``partition_by`` its new
        partitioning: ``[]`` is none, and without it the table stays partitioned as it is. (templated)
    :param max_records_per_file: The most rows that a data file takes. (templated)
    :param optimize_write: Write few, well-sized files in each partition, at the price of a shuffle. (templated)
    :param data_change: False says that an ``overwrite`` only rearranges rows, so that readers of changes pass over
        it. (templated)
    :param user_metadata: A text that the table's history shows beside the run. (templated)
    :param properties: Table properties, such as ``{"delta.appendOnly": "true"}``, when the table is made or with
        ``overwrite_schema``; constraints (``delta.constraints.<name>``: SQL) and table features
        (``delta.feature.<name>``: ``supported``) too. (templated)
    :param conflict_retries: How many times the same job plans the write again when another writer's commit contradicts
        it; 0 leaves that to Airflow's retries. The query is computed again where it reads the table itself, or its rows
        have to be other ones (another schema, identity values); else its files are kept. (templated)
    :param conflict_seconds: The job plans nothing again later than so many seconds after its first attempt. (templated)
    :param single_writer: True says that nobody else writes to the table at the same time, and so accepts a storage that
        does not keep two writers apart; where it does, this makes no difference. (templated)
    :param on_rerun: What the task does when it is cleared after a commit; a retry always resumes. ``skip`` leaves the
        commit (the default, except for ``overwrite``), ``write`` writes again (the default for ``overwrite``), and
        ``replace`` takes the run's earlier rows out and puts the new ones in (``append`` only). (templated)
    :param idempotency_key: A text that names what the task writes, such as ``{{ task.source.path }}`` of a mapped task.
        It identifies the commit in place of DAG run, task and map index. (templated)
    :param out_of_order: With ``overwrite``: what happens if runs of later data intervals have already changed rows that
        this one may touch: ``fail`` (the default of a cleared task), ``warn`` (the default of a first run) or
        ``allow``, for an overwrite that gives the same rows in any order. (templated)
    :param conn_id: The Spark connection.
    :param storage_conn_id: The Airflow connection that opens the table's storage on a worker. (templated)
    :param kwargs: Parameters of ``SparkSubmitOperator`` and ``BaseOperator``.
    """

    request_class: ClassVar[type[WriteRequest]] = WriteRequest
    job: ClassVar[str] = "write"

    template_fields: Sequence[str] = (
        *DeltaCommitOperator.template_fields,
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
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **SOURCE_RENDERERS,
        "replace_where": "sql",
        "properties": "json",
    }
    sql_texts: ClassVar[frozenset[str]] = DeltaCommitOperator.sql_texts | {"query", "replace_where"}

    def __init__(
        self,
        *,
        table: str,
        source: Mapping[str, Any] | None = None,
        sources: Mapping[str, Mapping[str, Any]] | None = None,
        query: str | None = None,
        query_params: Mapping[str, Any] | None = None,
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
        **kwargs: Any,
    ) -> None:
        super().__init__(table=table, **kwargs)
        self.source = source
        self.sources = sources
        self.query = query
        self.query_params = query_params
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

    def request_parameters(self) -> dict[str, object]:
        """The request's fields; a single source is the view `source`."""
        return super().request_parameters() | {"sources": views(self.source, self.sources)}

    def addresses(self, request: Request) -> list[str]:
        """The table, and the Delta tables that are read."""
        return [request.table, *delta_addresses(cast("WriteRequest", request).sources)]

    def needs_table(self, request: Request) -> bool:  # noqa: ARG002  as the base class
        """The first write makes the table."""
        return False

    def default_on_rerun(self, request: CommitRequest) -> OnRerun:
        """An overwrite replaces its rows anyway; anything else would write them twice."""
        return OnRerun.WRITE if cast("WriteRequest", request).mode is WriteMode.OVERWRITE else OnRerun.SKIP

"""The operator that merges rows into a table: `DeltaMergeOperator`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

from airflow.exceptions import AirflowProviderDeprecationWarning

from airflow_provider_deltalite.operators._quarantine import DeltaQuarantineOperator
from airflow_provider_deltalite.operators._rows import DeltaRowsOperator
from airflow_provider_deltalite.operators._sources import (
    SOURCE_FIELDS,
    SOURCE_RENDERERS,
    delta_addresses,
    sources_by_view,
)
from deltalite.requests import MergeRequest, Request

_CLAUSES = ("when_matched", "when_not_matched", "when_not_matched_by_source")


class DeltaMergeOperator(DeltaQuarantineOperator, DeltaRowsOperator):
    """Merge the rows of one or several sources into a Delta table, once for each DAG run.

    In every expression, ``source`` names a source row and ``target`` a row of the table. Two rows match if ``on`` is
    true.

    - A clause is a mapping with one of ``update``, ``insert`` and ``delete`` (True). It needs a ``condition`` unless it
      is the last clause of its kind.
    - Of the clauses of one kind, the first whose condition is true applies. If none applies, the row does not change.
    - ``update`` and ``insert`` map each column to a Spark SQL expression. ``"*"`` sets each column from the source
      column of the same name.
    - The task fails if two source rows match one target row, unless ``when_matched`` is left out or is one ``delete``
      without a condition. The error shows such source rows.

    The merge reads only files that can match. It decides by the keys of the source and by conditions in ``on`` that use
    only the target, such as ``target.day = DATE'2026-01-01'``. Concurrent merges into one table do not conflict if they
    read different files. In mapped tasks, let ``on`` compare the partition column with a different
    literal in each task.

    The task commits the run identity even if it changes no row. A retry therefore finds the commit of an earlier
    attempt, returns it, and does nothing. The task returns ``{table, operation, version, read_version, committed,
    skipped, app_id, txn_version, timestamp, metrics}``, and ``quarantine`` (``{table, version, rows}``) if it has one.
    The event of each outlet ``Asset`` contains the same values. You can also give every parameter of
    ``SparkSubmitOperator`` except ``application_args`` and ``java_class``.

    :param table: The table's address: a local path, or a URI with a scheme. (templated)
    :param source: The input, as in ``DeltaWriteOperator``. (templated)
    :param sources: Several inputs, by the names of their views. Give either this or ``source``. (templated)
    :param query: A Spark SQL query on the views that returns the source rows. By default, all rows of ``source``.
        (templated)
    :param query_params: Values for the markers ``:name`` in ``query``: texts, numbers, booleans or None. Spark binds
        them as values, so they cannot change the query. (templated)
    :param deduplicate: Keep one source row for each key, as in ``DeltaWriteOperator``. Rows that audits of level
        ``quarantine`` reject do not count. (templated)
    :param on: Spark SQL on columns of ``source`` and ``target``: the condition for a match. (templated)
    :param when_matched: Clauses for target rows that match a source row: ``update`` or ``delete``. (templated)
    :param when_not_matched: Clauses for source rows that match no target row: ``insert``. (templated)
    :param when_not_matched_by_source: Clauses for target rows that match no source row: ``update`` or ``delete``. They
        cannot use columns of the source. With an incremental source, they apply only in a run that loads the complete
        source. (templated)
    :param merge_schema: Add source columns that the table lacks, if a clause has ``"*"`` or names them. In a table with
        ``delta.enableTypeWidening``, ``"*"`` also widens columns to the types of the source. (templated)
    :param create_if_missing: Create the table if it does not exist, in the commit that inserts the first rows. It has
        the columns of the source if a clause of ``when_not_matched`` has ``"*"``, or else the columns that the clauses
        name. If False, a missing table is an error. (templated)
    :param partition_by: The partition columns, in order, of a table that the merge creates. (templated)
    :param properties: The properties of a table that the merge creates. (templated)
    :param schema_evolution: The deprecated name of ``merge_schema``. If you give both, the value of
        ``schema_evolution`` applies.
    :param user_metadata: A text that the table's history shows with the commit. (templated)
    :param conflict_retries: How often the job replans the merge after a conflict with another writer's commit. With 0,
        only Airflow's retries repeat it. A replan reuses the source rows, unless they come from the table. (templated)
    :param conflict_seconds: The job stops replanning this many seconds after its first attempt. (templated)
    :param single_writer: True confirms that nobody else writes to the table or to its quarantine at the same time.
        Needed only on storage without atomic creation of a file; no effect elsewhere. (templated)
    :param on_rerun: Decides what a cleared task does if it has committed before. ``write`` (the default) merges again,
        into the newest version; ``skip`` keeps the commit. Retries never write twice. (templated)
    :param idempotency_key: A text that names what the task writes, such as ``{{ task.source.path }}`` of a mapped task.
        It identifies the commit instead of DAG run, task and map index. (templated)
    :param out_of_order: Decides what the task does if runs of later data intervals have already changed rows that it
        may touch. The values are ``fail`` (the default after a clear), ``warn`` (the default of a first run) and
        ``allow``. Use ``allow`` for a merge that gives the same rows in any order. (templated)
    :param audits: Named checks of the updated and inserted rows or of the table, which run before the commit, such as
        ``{"name": "one_row_each", "unique": ["customer"]}``. If an audit does not pass, the task fails and commits
        nothing, or with ``"level": "warn"`` logs a warning. With ``"level": "quarantine"``, a ``rows`` audit reads the
        columns of the source: the rows for which it is true go to ``quarantine`` and take no part in the merge.
        (templated)
    :param quarantine: The address of a Delta table for the source rows that audits of level ``quarantine`` reject, as
        in ``DeltaWriteOperator``. Not with ``when_not_matched_by_source``. (templated)
    :param conn_id: The Spark connection.
    :param storage_conn_id: The Airflow connection that opens the table's storage on a worker. (templated)
    :param kwargs: Parameters of ``SparkSubmitOperator`` and ``BaseOperator``.
    """

    request_class: ClassVar[type[MergeRequest]] = MergeRequest
    job: ClassVar[str] = "merge"

    template_fields: Sequence[str] = (
        *DeltaRowsOperator.template_fields,
        *SOURCE_FIELDS,
        "on",
        *_CLAUSES,
        "merge_schema",
        "create_if_missing",
        "partition_by",
        "properties",
        "quarantine",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **DeltaRowsOperator.template_fields_renderers,
        **SOURCE_RENDERERS,
        "on": "sql",
        **dict.fromkeys(_CLAUSES, "json"),
        "properties": "json",
    }
    sql_texts: ClassVar[frozenset[str]] = DeltaRowsOperator.sql_texts | {"query", "on"}
    sql_structures: ClassVar[frozenset[str]] = DeltaRowsOperator.sql_structures | {*_CLAUSES, "deduplicate"}

    def __init__(
        self,
        *,
        table: str,
        source: Mapping[str, Any] | None = None,
        sources: Mapping[str, Mapping[str, Any]] | None = None,
        query: str | None = None,
        query_params: Mapping[str, Any] | None = None,
        deduplicate: Mapping[str, Any] | None = None,
        on: str,
        when_matched: Sequence[Mapping[str, Any]] | None = None,
        when_not_matched: Sequence[Mapping[str, Any]] | None = None,
        when_not_matched_by_source: Sequence[Mapping[str, Any]] | None = None,
        merge_schema: bool = False,
        create_if_missing: bool = False,
        partition_by: Sequence[str] | None = None,
        properties: Mapping[str, str] | None = None,
        schema_evolution: bool | None = None,
        quarantine: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(table=table, **kwargs)
        self.source = source
        self.sources = sources
        self.query = query
        self.query_params = query_params
        self.deduplicate = deduplicate
        self.on = on
        self.when_matched = when_matched
        self.when_not_matched = when_not_matched
        self.when_not_matched_by_source = when_not_matched_by_source
        self.merge_schema = merge_schema
        if schema_evolution is not None:
            warnings.warn(
                "`schema_evolution` of DeltaMergeOperator is deprecated. Use `merge_schema`.",
                AirflowProviderDeprecationWarning,
                stacklevel=2,
            )
            self.merge_schema = schema_evolution
        self.create_if_missing = create_if_missing
        self.partition_by = partition_by
        self.properties = properties
        self.quarantine = quarantine

    def request_parameters(self) -> dict[str, object]:
        """Return the request's fields. A single source becomes the view `source`."""
        return super().request_parameters() | {"sources": sources_by_view(self.source, self.sources)}

    def needs_table(self, request: Request) -> bool:
        """Return False with `create_if_missing`, because the first merge creates the table."""
        return not cast("MergeRequest", request).create_if_missing

    def addresses(self, request: Request) -> list[str]:
        """Return the addresses of the table, the quarantine, and the Delta tables among the sources and in audits."""
        return [*super().addresses(request), *delta_addresses(cast("MergeRequest", request).sources)]

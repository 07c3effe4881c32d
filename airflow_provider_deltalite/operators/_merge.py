"""The operator that merges rows into a table: `DeltaMergeOperator`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

from airflow.exceptions import AirflowProviderDeprecationWarning

from airflow_provider_deltalite.operators._rows import DeltaRowsOperator
from airflow_provider_deltalite.operators._sources import SOURCE_FIELDS, SOURCE_RENDERERS, delta_addresses, views
from deltalite.requests import MergeRequest, Request

_CLAUSES = ("when_matched", "when_not_matched", "when_not_matched_by_source")


class DeltaMergeOperator(DeltaRowsOperator):
    """Merge the rows of one or several sources into a Delta table, once for each run of the task.

    Rows of the source and of the table, ``source`` and ``target`` in every expression, match where ``on`` is true. A
    clause is a mapping with one of ``update``, ``insert`` and ``delete`` (True), and with a ``condition`` unless it is
    the last of its kind; of the clauses of a kind the first one whose condition is true decides, and where none is the
    row stays as it is. ``update`` and ``insert`` are Spark SQL by column, or ``"*"`` for all columns from the source's
    columns of their names. Two rows of the source that match one row of the table are refused, naming the keys.

    What ``on`` says of the target alone (``target.day = DATE'2026-01-01'``) decides which files are read, and so do the
    keys of the source. Tasks that merge at the same time into one table do not contradict each other where these keep
    them apart, as a literal for the partition does in mapped tasks.

    Each commit carries the identity of the task's run, also where no row was changed, so a retry whose earlier try has
    committed returns that commit and does nothing. The task returns ``{table, operation, version, read_version,
    committed, skipped, app_id, txn_version, timestamp, metrics}``, and the event of each outlet ``Asset`` carries the
    same. Every parameter of ``SparkSubmitOperator`` can be given too, except those that make up the job itself.

    :param table: The table's address: a local path, or a URI with a scheme. (templated)
    :param source: The input, as in ``DeltaWriteOperator``. (templated)
    :param sources: Several inputs, by the names of their views; excludes ``source``. (templated)
    :param query: Spark SQL that makes the rows called ``source`` out of the views; all rows of the source where it is
        left out. (templated)
    :param query_params: Values for the markers ``:name`` in ``query``: texts, numbers, booleans or None. Spark binds
        them as values, so whatever stands in them, the query stays the same. (templated)
    :param on: Spark SQL on columns of ``source`` and ``target``: which rows match. (templated)
    :param when_matched: Clauses for rows of the target that match: ``update`` or ``delete``. (templated)
    :param when_not_matched: Clauses for rows of the source that match none: ``insert``. (templated)
    :param when_not_matched_by_source: Clauses for rows of the target that match none, which see no columns of the
        source: ``update`` or ``delete``. (templated)
    :param merge_schema: Add the columns of the source that the table does not have, where a clause says ``"*"`` or
        names them. (templated)
    :param create_if_missing: Make the table if it does not exist, in the commit that inserts its first rows. Its
        columns are those of the source where a clause of ``when_not_matched`` says ``"*"``, and else those that the
        clauses name. Without it, a missing table is an error. (templated)
    :param partition_by: The partition columns of a table that the merge makes, in order. (templated)
    :param properties: The properties of a table that the merge makes. (templated)
    :param schema_evolution: The old name of ``merge_schema``; deprecated.
    :param user_metadata: A text that the table's history shows beside the run. (templated)
    :param conflict_retries: How many times the same job plans the merge again when another writer's commit contradicts
        it; 0 leaves that to Airflow's retries. The source's rows are kept meanwhile, unless they come from the table.
        (templated)
    :param conflict_seconds: The job plans nothing again later than so many seconds after its first attempt. (templated)
    :param single_writer: True says that nobody else writes to the table at the same time, and so accepts a storage that
        does not keep two writers apart; where it does, this makes no difference. (templated)
    :param on_rerun: What the task does when it is cleared after a commit; a retry always resumes. ``write`` (the
        default) merges again, on the table as it is then; ``skip`` leaves the commit. (templated)
    :param idempotency_key: A text that names what the task writes, such as ``{{ task.source.path }}`` of a mapped task.
        It identifies the commit in place of DAG run, task and map index. (templated)
    :param out_of_order: What happens if runs of later data intervals have already changed rows that this one may touch:
        ``fail`` (the default of a cleared task), ``warn`` (the default of a first run) or ``allow``, for a merge
        that gives the same rows in any order. (templated)
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
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **SOURCE_RENDERERS,
        "on": "sql",
        **dict.fromkeys(_CLAUSES, "json"),
        "properties": "json",
    }
    sql_texts: ClassVar[frozenset[str]] = DeltaRowsOperator.sql_texts | {"query", "on"}
    sql_structures: ClassVar[frozenset[str]] = frozenset(_CLAUSES)

    def __init__(
        self,
        *,
        table: str,
        source: Mapping[str, Any] | None = None,
        sources: Mapping[str, Mapping[str, Any]] | None = None,
        query: str | None = None,
        query_params: Mapping[str, Any] | None = None,
        on: str,
        when_matched: Sequence[Mapping[str, Any]] | None = None,
        when_not_matched: Sequence[Mapping[str, Any]] | None = None,
        when_not_matched_by_source: Sequence[Mapping[str, Any]] | None = None,
        merge_schema: bool = False,
        create_if_missing: bool = False,
        partition_by: Sequence[str] | None = None,
        properties: Mapping[str, str] | None = None,
        schema_evolution: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(table=table, **kwargs)
        self.source = source
        self.sources = sources
        self.query = query
        self.query_params = query_params
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

    def request_parameters(self) -> dict[str, object]:
        """The request's fields; a single source is the view `source`."""
        return super().request_parameters() | {"sources": views(self.source, self.sources)}

    def needs_table(self, request: Request) -> bool:
        """The first merge makes the table where the author has asked for it."""
        return not cast("MergeRequest", request).create_if_missing

    def addresses(self, request: Request) -> list[str]:
        """The table, and the Delta tables that are read."""
        return [request.table, *delta_addresses(cast("MergeRequest", request).sources)]

"""The first run of a merge with `create_if_missing`: it creates the table in the commit that inserts the rows.

No source row has a match in a table that does not exist, so only the `when_not_matched` clauses apply. This module
makes a query over the source rows from these clauses. The write command converts the rows with this query, and commits
the result with the metadata of a new table. If another writer creates the table first, nothing of this attempt is
committed, and the merge plans on that table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from deltalite.commands.common.column_paths import column_paths
from deltalite.commands.merge.report import first_merge_operation
from deltalite.commands.merge.source import prepare_rows
from deltalite.commands.quarantine import Quarantine
from deltalite.commands.write import ConvertedRows, write
from deltalite.errors import InvalidRequestError, TableExistsError, TableNotFoundError
from deltalite.log.segment import find_segment
from deltalite.protocol.column_rules import ColumnRules
from deltalite.protocol.schema_evolution import new_table_schema
from deltalite.requests import CommitRequest, MergeClause, MergeRequest, WriteMode, WriteRequest
from deltalite.requests.source import fields_with_sources
from deltalite.results import OperationResult
from deltalite.spark.columns.names import SOURCE, quoted
from deltalite.spark.columns.types import from_spark
from deltalite.spark.expressions.sql import no_rows_of
from deltalite.spark.hadoop.opening import writable_store
from deltalite.spark.merge.clauses import evolved_schema, merge_actions
from deltalite.spark.merge.join_condition import join_condition
from deltalite.spark.reader.sources import rows_of_query
from deltalite.spark.row_changes.row_actions import is_default

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SOURCE_VIEW = "__deltalite_source_rows"


def create_by_merge(
    spark: SparkSession, request: MergeRequest, quarantine: Quarantine | None
) -> OperationResult | None:
    """Create the table from the rows that the merge inserts, and return the result. Return None if the table exists.

    `quarantine` gets the source rows that audits reject.

    Raises:
        InvalidRequestError: a clause is wrong, or its columns cannot form a table.
        DeltaLiteError: as `write`.
    """
    if not is_table_missing(spark, request):
        return None
    describe, convert = partial(first_merge_operation, request), partial(_checked_rows, spark, request)
    try:
        return write(spark, _write_request(request), describe=describe, convert=convert, quarantine=quarantine)
    except TableExistsError:
        return None


def is_table_missing(spark: SparkSession, request: CommitRequest) -> bool:
    """Whether there is no table at the address of the request."""
    try:
        find_segment(writable_store(spark, request.table, single_writer=request.single_writer))
    except TableNotFoundError:
        return True
    return False


def _checked_rows(spark: SparkSession, request: MergeRequest, query_rows: DataFrame) -> ConvertedRows:
    """Return the rows that the merge inserts into the new table. Compute rows if audits can reject them.

    Refuse a merge that would fail in its second run, on the new table.
    """
    prepared = prepare_rows(spark, request, query_rows)
    source = prepared.frame
    rows = _rows_for_empty_table(request, source)
    new_schema, empty_source = new_table_schema(from_spark(rows.schema)), no_rows_of(spark, source.schema)
    schema = evolved_schema(request, new_schema, from_spark(empty_source.schema))
    rules = ColumnRules(generated={}, defaults={})
    # The next two calls only check.
    merge_actions(spark, request, empty_source, base_schema=new_schema, schema=schema, rules=rules)
    join_condition(spark, request.on, new_schema, empty_source)
    return ConvertedRows(frame=rows, rejected=prepared.rejected)


def _write_request(request: MergeRequest) -> WriteRequest:
    """Return the write that creates the table. It has no `deduplicate`, because `prepare_rows` deduplicates."""
    return WriteRequest(
        **fields_with_sources(request),
        mode=WriteMode.ERROR,
        partition_by=request.partition_by,
        properties=request.properties,
        audits=request.audits,
        quarantine=request.quarantine,
    )


def _rows_for_empty_table(request: MergeRequest, source: DataFrame) -> DataFrame:
    """Return the rows that the merge inserts into an empty table.

    Raises:
        InvalidRequestError: the expressions of a clause are wrong.
    """
    query = _query_for_empty_table(request, source.columns)
    return rows_of_query(source, _SOURCE_VIEW, query, parameter="when_not_matched")


def _query_for_empty_table(request: MergeRequest, source_columns: Sequence[str]) -> str:
    """Return a SQL query over the view of the source rows: the rows that the merge inserts into an empty table.

    The first clause with a true condition applies to a source row. A column is NULL if this clause does not name it or
    sets it to DEFAULT, because the new table has no defaults.
    """
    clauses = [_expressions(clause, n, source_columns) for n, clause in enumerate(request.when_not_matched)]
    names = {name.lower(): name for expressions in clauses for name in expressions}
    selects = []
    earlier_conditions: list[str] = []
    for clause, expressions in zip(request.when_not_matched, clauses, strict=True):
        where_conditions = [f"NOT coalesce(({condition}\n), false)" for condition in earlier_conditions]
        if clause.condition is not None:
            where_conditions.append(f"({clause.condition}\n)")
            earlier_conditions.append(clause.condition)
        where = f" WHERE {' AND '.join(where_conditions)}" if where_conditions else ""
        by_name = {name.lower(): text for name, text in expressions.items()}
        columns = ", ".join(f"({by_name.get(key, 'NULL')}\n) AS {quoted(name)}" for key, name in names.items())
        rows_of_clause = f"SELECT {columns} FROM rows_of_source AS {SOURCE}{where}"  # noqa: S608  the author's own SQL
        selects.append(rows_of_clause)
    return f"WITH rows_of_source AS (TABLE {_SOURCE_VIEW}) {' UNION ALL '.join(selects)}"


def _expressions(clause: MergeClause, number: int, source_columns: Sequence[str]) -> dict[str, str]:
    """Return the SQL expressions of a clause, by column of the new table."""
    if not isinstance(clause.insert, Mapping):
        return {name: f"{SOURCE}.{quoted(name)}" for name in source_columns}
    parameter = f"when_not_matched[{number}].insert"
    texts = {_column_name(column, parameter): text for column, text in clause.insert.items()}
    has_column_named_default = any(is_default(name) for name in (*source_columns, *texts))
    return {name: "NULL" if is_default(text) and not has_column_named_default else text for name, text in texts.items()}


def _column_name(column: str, parameter: str) -> str:
    """Return the name of a column of the new table."""
    paths = column_paths(column, parameter)
    if len(paths) != 1 or len(paths[0]) != 1:
        raise InvalidRequestError(
            f"{parameter} gives a value to {column!r}, which is not a whole column. The table does not exist yet, so "
            "it gets whole columns only.",
            remedy="Give the whole struct: named_struct('a', ..., 'b', ...).",
        )
    return paths[0][0]

"""The tables of a maintenance request: a list of addresses, the matches of a pattern, or a schema of the catalog."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from deltalite.errors import TableNotFoundError
from deltalite.inspection.catalog_tables import SchemaTables, sort_tables
from deltalite.inspection.table_rows import TableRow
from deltalite.requests import MaintainRequest
from deltalite.requests.catalog_names import name_parts
from deltalite.requests.source_paths import split_address
from deltalite.spark.catalog.tables import describe_tables
from deltalite.spark.hadoop.opening import check_address_is_unambiguous
from deltalite.spark.hadoop.tree import tree_of
from deltalite.storage.patterns import matching_folders

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedTables:
    """The tables of a request.

    - `tables`: the addresses of tables. Each of them gets a row.
    - `folders`: the addresses that match a pattern. A folder without a table gets no row.
    - `with_catalog_name`: adds to a row the name of its table in the catalog.
    - `other_rows`: the rows of skipped tables, and of tables that the catalog does not describe.
    """

    tables: Sequence[str] = ()
    folders: Sequence[str] = ()
    with_catalog_name: Callable[[TableRow], TableRow] = lambda row: row
    other_rows: tuple[TableRow, ...] = ()


def find_tables(spark: SparkSession, request: MaintainRequest) -> RequestedTables:
    """List the tables of a request.

    Raises:
        TableNotFoundError: the catalog does not have the schema, or the schema has no Delta table.
        StorageError: the folder of the pattern cannot be listed, or the catalog does not answer.
    """
    if request.catalog_schema is not None:
        schema_tables = _tables_of_schema(spark, request.catalog_schema)
        return RequestedTables(
            tables=schema_tables.addresses,
            with_catalog_name=schema_tables.with_name,
            other_rows=schema_tables.other_rows,
        )
    if request.pattern is not None:
        check_address_is_unambiguous(spark, split_address(request.pattern)[0])
        return RequestedTables(folders=matching_folders(request.pattern, partial(tree_of, spark)))
    return RequestedTables(tables=request.tables)


def _tables_of_schema(spark: SparkSession, schema: str) -> SchemaTables:
    parts = name_parts("catalog_schema", schema)
    schema_tables = sort_tables(schema, describe_tables(spark, parts))
    rows = schema_tables.other_rows
    if not schema_tables.addresses and all(row.error is None for row in rows):
        raise TableNotFoundError(
            f"The schema {schema} has no Delta table. Views and tables of other formats: {len(rows)}.",
            remedy="Check the schema and the catalog.",
        )
    return schema_tables

"""The columns by which a request orders rows: those of a Z order, and clustering columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deltalite.columnar.predicates.predicate import Path
from deltalite.commands.common.column_paths import column_paths
from deltalite.errors import InvalidRequestError
from deltalite.protocol.clustering import has_bounds
from deltalite.protocol.column_mapping import TableSchema
from deltalite.protocol.schema import member_at


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderColumn:
    """The name of a column in the request, and its logical and physical paths."""

    name: str
    logical: Path
    physical: Path


def order_columns(
    names: Sequence[str], table: TableSchema, *, parameter: str, max_columns: int
) -> tuple[OrderColumn, ...]:
    """Return the columns that `parameter` of a request names.

    Raises:
        InvalidRequestError: there are more than `max_columns` columns, or a name is malformed. Or a column does not
            exist, partitions the table, has no bounds in file statistics, or is named twice.
    """
    if len(names) > max_columns:
        raise InvalidRequestError(
            f"{parameter} names {len(names)} columns. Queries are not faster with more than {max_columns} columns.",
            remedy=f"Name only columns that queries filter by, {max_columns} at most.",
        )
    columns = tuple(_column(name, table, parameter) for name in names)
    if len({column.physical for column in columns}) < len(columns):
        raise InvalidRequestError(
            f"{parameter} names a column twice: {', '.join(names)}.", remedy="Name each column once."
        )
    return columns


def _column(name: str, table: TableSchema, parameter: str) -> OrderColumn:
    paths = column_paths(name, parameter)
    path_and_type = member_at(table.logical, paths[0]) if len(paths) == 1 else None
    if path_and_type is None:
        raise InvalidRequestError(
            f"{parameter} names the column {name!r}, which the table does not have.",
            remedy=f"The columns are {', '.join(table.logical.names)}. Put a name with dots into backticks.",
        )
    path, data_type = path_and_type
    if path[0] in table.partition_columns:
        raise InvalidRequestError(
            f"{parameter} names the partition column {name!r}. All rows of a file have the same value in this column.",
            remedy="Name other columns.",
        )
    if not has_bounds(data_type):
        raise InvalidRequestError(
            f"{parameter} names {name!r}. File statistics have no bounds for a column of type {data_type}, so readers "
            "could skip no file.",
            remedy="Name columns of numbers, texts, dates or timestamps, or a member of a struct.",
        )
    return OrderColumn(name=name, logical=path, physical=table.physical_path(path))

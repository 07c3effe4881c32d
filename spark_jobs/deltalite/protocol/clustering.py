"""The clustering columns of a table, in its domain metadata.

Writers keep the clustering columns in the schema and write statistics for these columns. An OPTIMIZE orders the rows by
these columns. delta-spark writes a column as a list of names, and the protocol's example writes it as one name. This
module accepts both forms. The names are physical names. Protocol: Writer Requirements for Clustered Table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, assert_never

from deltalite.errors import CorruptLogError, SchemaMismatchError
from deltalite.protocol.actions import DomainMetadata
from deltalite.protocol.column_mapping import TableSchema
from deltalite.protocol.schema import ArrayType, DataType, DecimalType, MapType, PrimitiveType, StructType, leaves

CLUSTERING_DOMAIN = "delta.clustering"
CLUSTERING_PROVIDER = "liquid"
"""The provider of files that delta-spark or this library has clustered."""
MAX_CLUSTERING_COLUMNS = 4
_WITHOUT_BOUNDS = ("boolean", "binary", "void", "variant")
_PLAIN_NAME = re.compile(r"(?!\d+$)[A-Za-z0-9_]+")


def clustering_columns(domains: Mapping[str, DomainMetadata]) -> tuple[tuple[str, ...], ...]:
    """Return the paths of the clustering columns in physical names; empty if the table is not clustered.

    Raises:
        CorruptLogError: the domain does not name columns.
    """
    domain = domains.get(CLUSTERING_DOMAIN)
    if domain is None:
        return ()
    try:
        return tuple(map(_parse_path, _checked_list(json.loads(domain.configuration)["clusteringColumns"])))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptLogError(
            f"The domain {CLUSTERING_DOMAIN} is {domain.configuration!r:.200}, which names no clustering columns.",
            remedy="Set the clustering columns with DeltaTableOperator (`cluster_by`; an empty list for no columns).",
        ) from error


def has_clustering_columns(domains: Mapping[str, DomainMetadata], columns: Sequence[Sequence[str]]) -> bool:
    """Whether the domains name exactly these clustering columns; False if the domain is malformed."""
    try:
        return clustering_columns(domains) == tuple(map(tuple, columns))
    except CorruptLogError:
        return False


def clustering_domain(columns: Sequence[Sequence[str]]) -> DomainMetadata:
    """Return the domain for the physical paths of the clustering columns; no paths mean an unclustered table."""
    body = {"clusteringColumns": [list(path) for path in columns], "domainName": CLUSTERING_DOMAIN}
    return DomainMetadata(
        domain=CLUSTERING_DOMAIN, configuration=json.dumps(body, separators=(",", ":")), removed=False
    )


def logical_paths(columns: Sequence[tuple[str, ...]], table: TableSchema) -> tuple[tuple[str, ...], ...]:
    """Return the logical paths of clustering columns.

    Raises:
        CorruptLogError: the schema lacks a column, or gives it a type without bounds in statistics.
    """
    by_physical = {table.physical_path(path): path for path, field in leaves(table.logical) if has_bounds(field.type)}
    missing = next((path for path in columns if path not in by_physical), None)
    if missing is not None:
        raise CorruptLogError(
            f"The table is clustered by {'.'.join(missing)} (physical name), but the schema lacks the column or gives "
            "it a type without bounds in statistics.",
            remedy="Set other clustering columns with DeltaTableOperator.",
        )
    return tuple(by_physical[path] for path in columns)


def column_text(path: Sequence[str]) -> str:
    """Return a path as SQL text, with backticks where a name needs them. Spark: FieldReference.toString."""
    return ".".join(name if _PLAIN_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`" for name in path)


def check_keeps_clustering(columns: tuple[tuple[str, ...], ...], table: TableSchema) -> None:
    """Check that a table with this schema can keep its clustering columns.

    Raises:
        SchemaMismatchError: the schema lacks a clustering column, gives it a type without bounds in statistics, or has
            partition columns.
    """
    if columns and table.partition_columns:
        raise SchemaMismatchError(
            f"The table is clustered by {_joined_paths(columns)}, so it cannot be partitioned by "
            f"{', '.join(table.partition_columns)} too.",
            remedy="Leave partition_by out.",
        )
    schema_leaves = {path for path, field in leaves(table.physical) if has_bounds(field.type)}
    missing = tuple(path for path in columns if path not in schema_leaves)
    if missing:
        raise SchemaMismatchError(
            f"The table is clustered by {_joined_paths(missing)} (physical names), but the new schema lacks the column "
            "or gives it a type without bounds in statistics.",
            remedy="Keep the column, or change the clustering first with DeltaTableOperator.",
        )


def has_bounds(data_type: DataType) -> bool:
    """Whether file statistics have bounds for columns of this type, so that readers can skip files."""
    match data_type:
        case StructType() | ArrayType() | MapType():
            return False
        case DecimalType():
            return True
        case PrimitiveType(name):
            return name not in _WITHOUT_BOUNDS
        case _:
            assert_never(data_type)


def _parse_path(column: Any) -> tuple[str, ...]:
    names = [column] if isinstance(column, str) else _checked_list(column)
    if not names or not all(isinstance(name, str) for name in names):
        raise TypeError(column)
    return tuple(names)


def _checked_list(value: Any) -> list[Any]:
    """Return the value if it is a list. Raises `TypeError` otherwise."""
    if not isinstance(value, list):
        raise TypeError(value)
    return value


def _joined_paths(columns: tuple[tuple[str, ...], ...]) -> str:
    return ", ".join(".".join(path) for path in columns)

"""The clustering columns of a table, from its domain metadata.

This release does not cluster. It keeps the clustering columns in the schema and writes their statistics, so that
another engine can cluster the files later. delta-spark writes each column as a list of names, and the example in the
protocol as one name; both are accepted. Names are physical. Protocol: Writer Requirements for Clustered Table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from deltalite.errors import CorruptLogError, SchemaMismatchError
from deltalite.protocol.actions import DomainMetadata
from deltalite.protocol.column_mapping import TableSchema
from deltalite.protocol.schema import leaves

CLUSTERING_DOMAIN = "delta.clustering"


def clustering_columns(domains: Mapping[str, DomainMetadata]) -> tuple[tuple[str, ...], ...]:
    """Return the paths of the clustering columns in physical names; empty if the table is not clustered.

    Raises:
        CorruptLogError: the domain does not name columns.
    """
    domain = domains.get(CLUSTERING_DOMAIN)
    if domain is None:
        return ()
    try:
        return tuple(_path(column) for column in json.loads(domain.configuration)["clusteringColumns"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptLogError(
            f"The domain {CLUSTERING_DOMAIN} is {domain.configuration!r:.200}, which names no clustering columns.",
            remedy="Repair it with the engine that wrote it.",
        ) from error


def check_keeps_clustering(columns: tuple[tuple[str, ...], ...], table: TableSchema) -> None:
    """Check that a table with this schema can keep its clustering columns.

    Raises:
        SchemaMismatchError: the schema lacks a clustering column, or has partition columns.
    """
    if columns and table.partition_columns:
        raise SchemaMismatchError(
            f"The table is clustered by {_shown(columns)}, so it cannot be partitioned by "
            f"{', '.join(table.partition_columns)} too.",
            remedy="Leave partition_by out.",
        )
    schema_leaves = {path for path, _ in leaves(table.physical)}
    missing = tuple(path for path in columns if path not in schema_leaves)
    if missing:
        raise SchemaMismatchError(
            f"The table is clustered by {_shown(missing)} (physical names), and the new schema lacks the column or "
            "gives it another type.",
            remedy="Keep the column, or change the clustering first, with an engine that has CLUSTER BY.",
        )


def _path(column: Any) -> tuple[str, ...]:
    names = [column] if isinstance(column, str) else column
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise TypeError(column)
    return tuple(names)


def _shown(columns: tuple[tuple[str, ...], ...]) -> str:
    return ", ".join(".".join(path) for path in columns)

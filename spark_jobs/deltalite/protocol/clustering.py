"""The columns by which the files of a clustered table are grouped, as its domain metadata names them.

This release does not cluster: it writes files that an engine that does can cluster later, which asks for statistics of
these columns, and keeps the columns in the schema. Delta-spark writes each column as a list of names, the protocol's
example as one name; both are read. Names are physical. Protocol: Writer Requirements for Clustered Table.
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
    """The paths of the clustering columns by physical names; empty where the table is not clustered.

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
    """Return where a table of this schema can go on being clustered by the columns.

    Raises:
        SchemaMismatchError: one of them is gone, or the table would be partitioned too.
    """
    if columns and table.partition_columns:
        raise SchemaMismatchError(
            f"The table is clustered by {_shown(columns)}, so it cannot be partitioned by "
            f"{', '.join(table.partition_columns)} too.",
            remedy="Leave partition_by out.",
        )
    known = {path for path, _ in leaves(table.physical)}
    gone = tuple(path for path in columns if path not in known)
    if gone:
        raise SchemaMismatchError(
            f"The table is clustered by {_shown(gone)} (by the names of its files), which the new schema does not have "
            "or gives another type.",
            remedy="Keep the column, or change the clustering first, with an engine that has CLUSTER BY.",
        )


def _path(column: Any) -> tuple[str, ...]:
    names = [column] if isinstance(column, str) else column
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise TypeError(column)
    return tuple(names)


def _shown(columns: tuple[tuple[str, ...], ...]) -> str:
    return ", ".join(".".join(path) for path in columns)

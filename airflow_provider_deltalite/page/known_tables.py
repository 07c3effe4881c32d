"""The tables that pages can show, and the users who see them. Pure functions.

A table is known if a DAG of this Airflow declares its asset, or if `[deltalite] ui_tables` names it. Pages name a table
by its key, a digest of the canonical address, and look the key up here. So no request can make the API server open
another address.

A user sees a table of an asset if the user may read the asset, or one of the DAGs that use it. A user sees a table of
`ui_tables` if the user may read assets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from deltalite.errors import DeltaLiteError
from deltalite.storage.locations import TableLocation, canonical_address, parse_location

_KEY_LENGTH = 20
# The storage of tables. An asset with another scheme is a table only if a watcher of this package polls it.
_TABLE_SCHEMES = frozenset(
    {"file", "s3", "s3a", "s3n", "gs", "gcs", "abfs", "abfss", "wasb", "wasbs", "hdfs", "viewfs"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskName:
    """A task of a DAG."""

    dag_id: str
    task_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetFacts:
    """An active asset, as Airflow's database knows it.

    - `watched_table`, `watched_conn_id`: the table and the connection of this package's watcher; None without one.
    - `conn_id`: `storage_conn_id` in the asset's `extra`; None without one.
    """

    asset_id: int
    name: str
    uri: str
    producers: tuple[TaskName, ...] = ()
    consumers: tuple[str, ...] = ()
    watched_table: str | None = None
    watched_conn_id: str | None = None
    conn_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTable:
    """A table that pages can show.

    - `key`: the name of the table in addresses of pages.
    - `address`: the table's address.
    - `storage`: the name of its storage, such as `s3://bucket`; reads of one storage share a limit.
    - `conn_id`: the Airflow connection that opens the storage.
    - `is_root`: whether `ui_tables` names the table.
    """

    key: str
    address: str
    storage: str
    conn_id: str | None = None
    asset_ids: tuple[int, ...] = ()
    producers: tuple[TaskName, ...] = ()
    consumers: tuple[str, ...] = ()
    is_root: bool = False

    @property
    def name(self) -> str:
        """The last two parts of the address, such as `lake/orders`."""
        return "/".join(self.address.rstrip("/").split("/")[-2:])

    @property
    def dag_ids(self) -> frozenset[str]:
        """The DAGs that write the table, or are scheduled on it."""
        return frozenset({*(task.dag_id for task in self.producers), *self.consumers})


class Reader(Protocol):
    """The rights of a user."""

    def may_read_assets(self) -> bool:
        """Whether the user may read assets in general."""
        ...

    def may_read_asset(self, asset_id: int) -> bool:
        """Whether the user may read an asset."""
        ...

    def readable_dag_ids(self) -> frozenset[str]:
        """Return the DAGs that the user may read."""
        ...


def known_tables(
    assets: Iterable[AssetFacts], roots: Iterable[str], storage_conn_ids: Mapping[str, str]
) -> dict[str, KnownTable]:
    """Return the tables by their keys. Assets and roots with the same address are one table.

    Args:
        assets: the active assets.
        roots: the addresses of `ui_tables`, without patterns.
        storage_conn_ids: connections by the beginnings of addresses; the longest beginning applies.
    """
    tables: dict[str, KnownTable] = {}
    for asset in assets:
        location = _location(asset)
        if location is not None:
            conn_id = asset.watched_conn_id or asset.conn_id or _conn_id_of(location, storage_conn_ids)
            _add(
                tables,
                replace(
                    _table_at(location, conn_id),
                    asset_ids=(asset.asset_id,),
                    producers=asset.producers,
                    consumers=asset.consumers,
                ),
            )
    for root in roots:
        location = _parsed(root)
        if location is not None:
            _add(tables, replace(_table_at(location, _conn_id_of(location, storage_conn_ids)), is_root=True))
    return tables


def key_of(address: str) -> str | None:
    """Return the key of a table's address; None if the address is invalid."""
    location = _parsed(address)
    return None if location is None else _key(location)


def conn_id_of(address: str, storage_conn_ids: Mapping[str, str]) -> str | None:
    """Return the connection of the longest beginning of an address; None for a local or an invalid address."""
    location = _parsed(address)
    return None if location is None or location.is_local else _conn_id_of(location, storage_conn_ids)


def visible_tables(tables: Mapping[str, KnownTable], reader: Reader) -> dict[str, KnownTable]:
    """Return the tables that a list shows to a user."""
    if reader.may_read_assets():
        return dict(tables)
    dag_ids = reader.readable_dag_ids()
    return {key: table for key, table in tables.items() if table.dag_ids & dag_ids}


def may_open(table: KnownTable, reader: Reader) -> bool:
    """Whether a user may see the page of a table."""
    if any(reader.may_read_asset(asset_id) for asset_id in table.asset_ids):
        return True
    if table.is_root and reader.may_read_assets():
        return True
    return bool(table.dag_ids & reader.readable_dag_ids())


def _location(asset: AssetFacts) -> TableLocation | None:
    """Return the address of an asset that may be a table; None for any other asset.

    `delta_asset` gives an asset the URI as its name.
    """
    if asset.watched_table is not None:
        return _parsed(asset.watched_table)
    if asset.name != asset.uri or ":" not in asset.uri:
        return None
    location = _parsed(asset.uri)
    return location if location is not None and location.scheme in _TABLE_SCHEMES else None


def _parsed(address: str) -> TableLocation | None:
    try:
        return parse_location(address)
    except DeltaLiteError:
        return None


def _table_at(location: TableLocation, conn_id: str | None) -> KnownTable:
    address = canonical_address(location)
    scheme, _, rest = address.partition("://")
    storage = "local" if location.is_local else f"{scheme}://{rest.split('/', 1)[0]}"
    return KnownTable(
        key=_key(location), address=address, storage=storage, conn_id=None if location.is_local else conn_id
    )


def _key(location: TableLocation) -> str:
    return hashlib.sha256(canonical_address(location).encode("utf-8", "backslashreplace")).hexdigest()[:_KEY_LENGTH]


def _conn_id_of(location: TableLocation, conn_ids: Mapping[str, str]) -> str | None:
    address = canonical_address(location)
    matching: list[tuple[int, str]] = []
    for beginning, conn_id in conn_ids.items():
        start = _parsed(beginning)
        if start is not None and f"{address}/".startswith(f"{canonical_address(start).rstrip('/')}/"):
            matching.append((len(beginning), conn_id))
    return max(matching)[1] if matching else None


def _add(tables: dict[str, KnownTable], table: KnownTable) -> None:
    """Add a table, or join it with the table of the same key."""
    earlier = tables.get(table.key)
    if earlier is None:
        tables[table.key] = table
        return
    tables[table.key] = replace(
        earlier,
        conn_id=earlier.conn_id or table.conn_id,
        asset_ids=tuple(dict.fromkeys((*earlier.asset_ids, *table.asset_ids))),
        producers=tuple(dict.fromkeys((*earlier.producers, *table.producers))),
        consumers=tuple(dict.fromkeys((*earlier.consumers, *table.consumers))),
        is_root=earlier.is_root or table.is_root,
    )

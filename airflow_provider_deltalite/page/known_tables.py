"""The tables that pages can show, and the users who see them. Pure functions.

A table is known if a DAG of this Airflow declares its asset, if a task of this package has written it, or if
`[deltalite] ui_tables` names it. Pages name a table by its key, a digest of the canonical address, and look the key up
here. So no request can make the API server open another address.

Several assets, tasks and `ui_tables` can name the same table. Each is a separate use of the table with a separate
connection. A user reads a table through the uses that the user may see, and never with the connection of another use.

A user sees an asset if the user may read it, or one of the DAGs that use it. A user sees a table of a task if the user
may read its DAG, and a table of `ui_tables` if the user may read assets.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from airflow_provider_deltalite.assets._uri import TABLE_SCHEMES
from deltalite.errors import DeltaLiteError
from deltalite.storage.locations import TableLocation, canonical_address, parse_location

_KEY_LENGTH = 20
_MASK = "***"  # Airflow stores this text in place of a secret.


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskName:
    """A task of a DAG."""

    dag_id: str
    task_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetFacts:
    """An active asset, as Airflow's database knows it.

    - `producers`: the tasks that have the asset as an outlet.
    - `consumers`: the DAGs that are scheduled on the asset, or have it as an inlet.
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
class WrittenTable:
    """A table that a task has written, and the connection with which the task read its log."""

    task: TaskName
    address: str
    conn_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTable:
    """A table that pages can show.

    - `key`: the name of the table in addresses of pages.
    - `address`: the table's address.
    - `storage`: the name of its storage, such as `s3://bucket`; reads of one storage share a limit.
    - `conn_id`: the Airflow connection that opens the storage.
    - `is_root`: whether `ui_tables` names the table.
    - `uses`: a `KnownTable` for each asset, task and entry of `ui_tables` that names the table. The field `uses` of
      these objects is empty.
    """

    key: str
    address: str
    storage: str
    conn_id: str | None = None
    asset_ids: tuple[int, ...] = ()
    producers: tuple[TaskName, ...] = ()
    consumers: tuple[str, ...] = ()
    is_root: bool = False
    uses: tuple[KnownTable, ...] = ()

    @property
    def name(self) -> str:
        """The last two parts of the address, such as `lake/orders`."""
        return "/".join(self.address.rstrip("/").split("/")[-2:])

    @property
    def dag_ids(self) -> frozenset[str]:
        """The DAGs that write the table, are scheduled on it, or have it as an inlet."""
        return frozenset({*(task.dag_id for task in self.producers), *self.consumers})


class UserRights(Protocol):
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
    assets: Iterable[AssetFacts],
    roots: Iterable[str],
    storage_conn_ids: Mapping[str, str],
    written: Iterable[WrittenTable] = (),
) -> dict[str, KnownTable]:
    """Return the tables by their keys. Assets, roots and written tables with the same address are one table.

    Args:
        assets: the active assets.
        roots: the addresses in `ui_tables`, and those of the folders that its patterns match.
        storage_conn_ids: connections by the beginnings of addresses; the longest beginning applies.
        written: the tables that tasks have written.
    """
    uses: dict[str, list[KnownTable]] = defaultdict(list)
    beginnings = _parsed_beginnings(storage_conn_ids)
    for asset in assets:
        location = _location_of_asset(asset)
        if location is not None:
            conn_id = asset.watched_conn_id or asset.conn_id or _conn_id_of(location, beginnings)
            table = replace(
                _table_at(location, conn_id),
                asset_ids=(asset.asset_id,),
                producers=asset.producers,
                consumers=asset.consumers,
            )
            uses[table.key].append(table)
    for root in roots:
        location = _location_of_address(root)
        if location is not None:
            table = replace(_table_at(location, _conn_id_of(location, beginnings)), is_root=True)
            uses[table.key].append(table)
    for written_table in written:
        location = _written_location(written_table.address)
        if location is not None:
            conn_id = written_table.conn_id or _conn_id_of(location, beginnings)
            table = replace(_table_at(location, conn_id), producers=(written_table.task,))
            uses[table.key].append(table)
    return {key: _joined(uses_of_table) for key, uses_of_table in uses.items()}


def key_of(address: str) -> str | None:
    """Return the key of a table's address; None if the address is invalid."""
    location = _location_of_address(address)
    return None if location is None else _key(location)


def conn_id_of(address: str, storage_conn_ids: Mapping[str, str]) -> str | None:
    """Return the connection of the longest beginning of an address.

    The result is None if no beginning matches, and for a local or an invalid address.
    """
    location = _location_of_address(address)
    if location is None or location.is_local:
        return None
    return _conn_id_of(location, _parsed_beginnings(storage_conn_ids))


def visible_tables(tables: Mapping[str, KnownTable], rights: UserRights) -> dict[str, KnownTable]:
    """Return the tables that a user may see, as `visible_table` returns them."""
    visible = ((key, visible_table(table, rights)) for key, table in tables.items())
    return {key: table for key, table in visible if table is not None}


def visible_table(table: KnownTable, rights: UserRights) -> KnownTable | None:
    """Return a table with the uses that a user may see, and with the readable DAGs; None without such a use.

    The table has the connection of the first of these uses.
    """
    uses = [use for use in table.uses if _may_see(use, rights)]
    if not uses:
        return None
    dag_ids = rights.readable_dag_ids()
    joined = _joined(uses)
    return replace(
        joined,
        producers=tuple(task for task in joined.producers if task.dag_id in dag_ids),
        consumers=tuple(dag_id for dag_id in joined.consumers if dag_id in dag_ids),
    )


def _may_see(use: KnownTable, rights: UserRights) -> bool:
    if use.dag_ids & rights.readable_dag_ids():
        return True
    if use.is_root:
        return rights.may_read_assets()
    return any(rights.may_read_asset(asset_id) for asset_id in use.asset_ids)


def _location_of_asset(asset: AssetFacts) -> TableLocation | None:
    """Return the address of an asset that may be a table; None for any other asset.

    The address is the one that a watcher of this package polls. Without a watcher, the name of the asset must be its
    URI, as in `delta_asset`, and the URI must have the scheme of a storage that can hold tables.
    """
    if asset.watched_table is not None:
        return _location_of_address(asset.watched_table)
    if asset.name != asset.uri or ":" not in asset.uri:
        return None
    location = _location_of_address(asset.uri)
    return location if location is not None and location.scheme in TABLE_SCHEMES else None


def _written_location(address: str) -> TableLocation | None:
    """Return the address of a table that a task wrote; None if it is relative to a folder of the worker, or masked."""
    is_complete = address.startswith("/") or address.partition(":/")[0].lower() in TABLE_SCHEMES
    return _location_of_address(address) if is_complete and _MASK not in address else None


def _location_of_address(address: str) -> TableLocation | None:
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


def _parsed_beginnings(conn_ids: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the canonical beginnings of addresses with their connections, the longest first."""
    parsed = [(_location_of_address(text), conn_id) for text, conn_id in conn_ids.items()]
    beginnings = [
        (f"{canonical_address(location).rstrip('/')}/", conn_id) for location, conn_id in parsed if location is not None
    ]
    return sorted(beginnings, key=lambda pair: len(pair[0]), reverse=True)


def _conn_id_of(location: TableLocation, beginnings: Iterable[tuple[str, str]]) -> str | None:
    address = f"{canonical_address(location)}/"
    return next((conn_id for beginning, conn_id in beginnings if address.startswith(beginning)), None)


def _joined(uses: Sequence[KnownTable]) -> KnownTable:
    """Return the table of one or more uses, with the connection of the first use."""
    return replace(
        uses[0],
        asset_ids=tuple(dict.fromkeys(asset_id for use in uses for asset_id in use.asset_ids)),
        producers=tuple(dict.fromkeys(task for use in uses for task in use.producers)),
        consumers=tuple(dict.fromkeys(dag_id for use in uses for dag_id in use.consumers)),
        is_root=any(use.is_root for use in uses),
        uses=tuple(uses),
    )

"""Delta tables as Airflow assets: the asset of a table, its watcher, and its events.

An asset has two sources of events. A task of this provider with the asset among its outlets sends an event with the
task's result as `extra`. A watcher sends an event with a range of versions as the payload. `delta_events` converts both
to `DeltaEvent`.

Airflow may merge several events into one DAG run, repeat an event, and start a run without an event. A consumer should
process the range of all events of its run, and be idempotent for each version.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from airflow.providers.common.compat.sdk import Asset, AssetAlias

from airflow_provider_deltalite.assets._uri import asset_uri
from airflow_provider_deltalite.triggers.delta import DeltaTableTrigger
from deltalite.errors import InvalidRequestError

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

__all__ = ["DeltaEvent", "DeltaEvents", "asset_uri", "delta_asset", "delta_events", "partition_values"]


def delta_asset(
    table: str,
    *,
    watch: bool = False,
    group: str | None = None,
    extra: Mapping[str, Any] | None = None,
    **trigger_parameters: Any,
) -> Asset:
    """Return the asset of a Delta table; every spelling of the address gives the same name and URI.

    A DAG that is scheduled on the asset starts after a task that has the asset among its ``outlets``. With ``watch``
    the DAG starts after a commit of any writer. Use only one of the two: a task's commit to a watched table sends two
    events.

    :param table: The table's address as in an operator, but not a template.
    :param watch: Let the triggerer watch the table while a DAG that is scheduled on the asset is active (not paused).
    :param group: The asset's group in Airflow.
    :param extra: The ``extra`` of the asset.
    :param trigger_parameters: With ``watch``, the parameters of ``DeltaTableTrigger``: ``operations``,
        ``poke_interval``, ``storage_conn_id``, ...

    Raises:
        InvalidTableAddressError: The address is invalid.
        InvalidRequestError: A parameter of the trigger is invalid, or the table is not watched and has such parameters.
    """
    uri = asset_uri(table)
    settings: dict[str, Any] = {} if group is None else {"group": group}
    if watch:
        from airflow.sdk import AssetWatcher

        settings["watchers"] = [AssetWatcher(name=uri, trigger=DeltaTableTrigger(table=table, **trigger_parameters))]
    elif trigger_parameters:
        raise InvalidRequestError(
            f"delta_asset: {', '.join(sorted(trigger_parameters))} apply to a watched table only, but {table!r} is not "
            "watched.",
            remedy="Set watch=True, or leave these parameters out.",
        )
    return Asset(name=uri, uri=uri, extra=dict(extra or {}), **settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaEvent:
    """An event of a table's asset: the versions from `from_version` to `version`, both inclusive.

    - `operations`: the operations of the matching commits, or of the task's commit
    - `commit_timestamp`: the time of the last of these commits, in milliseconds UTC; None without such a commit
    - `data_changed`: whether one of these commits adds or removes rows; true if `gap` is true; None in a task's event
    - `reset`: whether the table was dropped and created again; `from_version` is then the new table's first version
    - `gap`: whether log cleanup deleted commits before the watcher read them
    - `watched`: whether a watcher sent the event; false for the event of a task
    - `partitions`: the partitions whose rows changed, such as `day=2026-03-01/country=DE`; None if the event does not
      name them
    """

    table: str
    table_id: str | None
    from_version: int
    version: int
    operations: tuple[str, ...]
    data_changed: bool | None
    commit_timestamp: int | None
    reset: bool = False
    gap: bool = False
    watched: bool = True
    partitions: tuple[str, ...] | None = None


class DeltaEvents(tuple[DeltaEvent, ...]):
    """The events of one asset that started a DAG run, oldest first; empty if the run was started in another way."""

    __slots__ = ()

    @classmethod
    def of(cls, events: Iterable[DeltaEvent]) -> Self:
        """Return the events since the table was last dropped and created again.

        Earlier events belong to the old table.
        """
        current_events: list[DeltaEvent] = []
        for event in events:
            if event.reset:
                current_events.clear()
            current_events.append(event)
        return cls(current_events)

    @property
    def from_version(self) -> int | None:
        """The first version of all events; None without events."""
        return min((event.from_version for event in self), default=None)

    @property
    def version(self) -> int | None:
        """The last version of all events; None without events."""
        return max((event.version for event in self), default=None)

    @property
    def operations(self) -> tuple[str, ...]:
        """The operations of all events, sorted by name."""
        return tuple(sorted({operation for event in self for operation in event.operations}))

    @property
    def partitions(self) -> tuple[str, ...] | None:
        """The partitions whose rows changed, sorted by name; None without events, or if an event does not name them."""
        names: set[str] = set()
        for event in self:
            if event.partitions is None:
                return None
            names.update(event.partitions)
        return tuple(sorted(names)) if self else None

    @property
    def reset(self) -> bool:
        """Whether the table was dropped and created again, so that results from the old table are obsolete."""
        return any(event.reset for event in self)

    @property
    def gap(self) -> bool:
        """Whether log cleanup has deleted commits of the range."""
        return any(event.gap for event in self)


def delta_events(context: Context, asset: Asset | AssetAlias | str) -> DeltaEvents:
    """Return the events of a table's asset that started this DAG run.

    :param context: The task's context.
    :param asset: The asset from ``delta_asset``, another asset or alias with the events of one table, or the table's
        address.
    """
    asset_key = delta_asset(asset) if isinstance(asset, str) else asset
    events_by_asset = context.get("triggering_asset_events")
    try:
        # Airflow's mapping also finds assets that are not hashable, as some are in Airflow 3.1.
        asset_events = list(events_by_asset[asset_key]) if events_by_asset else []
    except KeyError:
        asset_events = []
    asset_events.sort(key=lambda event: event.timestamp)
    return DeltaEvents.of(parsed for event in asset_events if (parsed := _parse_event(event.extra or {})) is not None)


def _parse_event(extra: Mapping[str, Any]) -> DeltaEvent | None:
    """Parse the event of a watcher or a task; return None for any other event, or if the event names no version."""
    match extra:
        case {
            "payload": {"table": str() as table, "from_version": int() as first, "version": int() as last} as payload
        }:
            return DeltaEvent(
                table=table,
                table_id=payload.get("table_id"),
                from_version=first,
                version=last,
                operations=tuple(payload.get("operations") or ()),
                data_changed=payload.get("data_changed"),
                commit_timestamp=payload.get("commit_timestamp"),
                reset=bool(payload.get("reset")),
                gap=bool(payload.get("gap")),
                partitions=_partition_names(payload),
            )
        case {"table": str() as table, "version": int() as version}:
            operation = extra.get("operation")
            return DeltaEvent(
                table=table,
                table_id=None,
                from_version=version,
                version=version,
                operations=() if operation is None else (str(operation),),
                data_changed=None,
                commit_timestamp=extra.get("timestamp"),
                watched=False,
                partitions=_partition_names(extra),
            )
        case _:
            return None


def _partition_names(values: Mapping[str, Any]) -> tuple[str, ...] | None:
    names = values.get("partitions")
    return None if names is None else tuple(names)


def partition_values(key: str) -> dict[str, str | None]:
    """Return the column names and values of a partition key; null and the empty string are both None.

    :param key: A partition key of an event, such as ``day=2026-03-01/country=DE`` in ``dag_run.partition_key``.
    """
    from deltalite import watch  # loads pyarrow, which DAG parsing must not load

    return watch.partition_values_of_name(key)

"""Tables as Airflow assets: one URI for a table, a watcher for commits from anywhere, and one reading of all events.

Two things make events of a table's asset: a task of ours that has it among its outlets, with the task's result as the
event's `extra`, and a watcher, with a range of versions as the payload. `delta_events` reads both into one form.
Airflow may merge events into one run, repeat them, and start a run without any; the range of all events of a run is
what a consumer should work on, and working on a version again should change nothing.
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
    **trigger: Any,
) -> Asset:
    """The asset of a Delta table; name and URI are the same, whichever way the table is addressed.

    A DAG that is scheduled on it starts when a task has it among its ``outlets``, and with ``watch`` when anybody at
    all commits to the table. Give one of the two: a task's commit to a watched table is two events.

    :param table: The table's address, as operators take it, known when the DAG file is parsed (no template).
    :param watch: Have the triggerer watch the table, as long as a DAG that is scheduled on the asset is not paused.
    :param group: The asset's group in Airflow.
    :param extra: Information on the asset itself.
    :param trigger: With ``watch``, the parameters of ``DeltaTableTrigger``: ``operations``, ``poke_interval``,
        ``storage_conn_id``, ...
    """
    uri = asset_uri(table)
    given: dict[str, Any] = {} if group is None else {"group": group}
    if watch:
        from airflow.sdk import AssetWatcher

        given["watchers"] = [AssetWatcher(name=uri, trigger=DeltaTableTrigger(table=table, **trigger))]
    elif trigger:
        raise InvalidRequestError(
            f"{', '.join(sorted(trigger))} are for a watched table, and {table!r} is not watched.",
            remedy="Say watch=True, or leave them out.",
        )
    return Asset(name=uri, uri=uri, extra=dict(extra or {}), **given)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaEvent:
    """An event of a table's asset: the versions from `from_version` to `version`, both inclusive.

    `operations` and `commit_timestamp` (milliseconds UTC) are those of the commits that count; `data_changed` is None
    where a task of ours did not say it. `reset`: the table was made again, and `from_version` is its first version.
    `gap`: log cleanup took some of the commits away before they were seen. `watched`: sent by a watcher, not a task.
    `partitions`: the partitions whose rows changed, such as `day=2026-03-01/country=DE`; None if the event does not
    name them.
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
    """The events of one asset that started a DAG run, oldest first; none where the run was started in another way."""

    __slots__ = ()

    @classmethod
    def of(cls, events: Iterable[DeltaEvent]) -> Self:
        """The events of the table as it is now: those before it was last made again are of another table."""
        kept: list[DeltaEvent] = []
        for event in events:
            if event.reset:
                kept.clear()
            kept.append(event)
        return cls(kept)

    @property
    def from_version(self) -> int | None:
        """The first version that is new."""
        return min((event.from_version for event in self), default=None)

    @property
    def version(self) -> int | None:
        """The last version that is new."""
        return max((event.version for event in self), default=None)

    @property
    def operations(self) -> tuple[str, ...]:
        """All operations, in the order of their names."""
        return tuple(sorted({operation for event in self for operation in event.operations}))

    @property
    def partitions(self) -> tuple[str, ...] | None:
        """The partitions whose rows changed, by name; None if there is no event, or if one does not name them."""
        names: set[str] = set()
        for event in self:
            if event.partitions is None:
                return None
            names.update(event.partitions)
        return tuple(sorted(names)) if self else None

    @property
    def reset(self) -> bool:
        """Whether the table was made again, so that whatever was taken from it before is void."""
        return any(event.reset for event in self)

    @property
    def gap(self) -> bool:
        """Whether not all commits of the range can be read any more."""
        return any(event.gap for event in self)


def delta_events(context: Context, asset: Asset | AssetAlias | str) -> DeltaEvents:
    """The events of a table's asset that have started this DAG run.

    :param context: The task's context.
    :param asset: What ``delta_asset`` returned, another asset or alias with the events of one table, or the table's
        address.
    """
    wanted = delta_asset(asset) if isinstance(asset, str) else asset
    triggering = context.get("triggering_asset_events")
    try:
        received = list(triggering[wanted]) if triggering else []  # Airflow 3.1 has assets that a dict does not take
    except KeyError:
        received = []
    received.sort(key=lambda event: event.timestamp)
    return DeltaEvents.of(read for event in received if (read := _read(event.extra or {})) is not None)


def _read(extra: Mapping[str, Any]) -> DeltaEvent | None:
    """An event in either of its forms, None where it is somebody else's, or a task's that made no version."""
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
                partitions=_partitions(payload),
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
                partitions=_partitions(extra),
            )
        case _:
            return None


def _partitions(values: Mapping[str, Any]) -> tuple[str, ...] | None:
    names = values.get("partitions")
    return None if names is None else tuple(names)


def partition_values(key: str) -> dict[str, str | None]:
    """Return the column names and values of a partition key; null and the empty string are both None.

    :param key: A partition key of an event, such as ``day=2026-03-01/country=DE`` in ``dag_run.partition_key``.
    """
    from deltalite import watch  # loads pyarrow, which parsing a DAG must not

    return watch.partition_values_of_name(key)

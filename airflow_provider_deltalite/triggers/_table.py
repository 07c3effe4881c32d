"""The trigger of an `AssetWatcher`: an event for the asset whenever the table has a commit that counts.

It never ends, whatever storage or Airflow do: who fails is asked again, after growing pauses. Looks are made in
threads, so the triggerer's loop is never blocked. Triggers for one table share one look (Airflow 3.3), and each decides
for itself what counts; one that joins later, or that has missed something, looks for itself from where it is.

Where it is, its position, is kept with the asset (Airflow 3.3): read before the first look, and written some seconds
after an event was handed over, when Airflow has stored it, so that a restart may repeat an event and does not lose one.
Before Airflow 3.3, or where one trigger serves several assets, nothing is kept, and a restart begins where `start`
says; so it does where what was kept cannot be read, and then it is said which commits may be left out.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from airflow.providers.common.compat.triggers import BaseEventTrigger
from airflow.triggers.base import TriggerEvent

from airflow_provider_deltalite.announcing import Position, advance
from airflow_provider_deltalite.assets._uri import asset_uri
from airflow_provider_deltalite.hooks.delta import DeltaHook
from airflow_provider_deltalite.triggers._blocking import in_thread
from airflow_provider_deltalite.waiting import pause_seconds
from airflow_provider_deltalite.watcher_health import WatcherHealth
from deltalite.conditions import CommitCondition, Place
from deltalite.errors import InvalidRequestError
from deltalite.storage.locations import parse_location

if TYPE_CHECKING:
    from deltalite.storage.log_store import LogStore
    from deltalite.watch import Step

_LATEST: Literal["latest"] = "latest"
# One look at a table that is far ahead hands over this many commits, so that what it read is kept now and then.
_MOST_STEPS = 1000
# Or commits whose summaries hold about this much, since a commit may name many partitions.
_MOST_HELD_BYTES = 16 * 1024 * 1024
# What a warning shows of a value that could be anything; a position has half of it.
_MOST_SHOWN = 300
# A triggerer hands its events on once a second, to a process that stores them: before that they die with either.
_ON_ITS_WAY_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What one look saw: the steps from `base` to `place`. `more` says that it stopped before the end."""

    base: Place
    steps: tuple[Step, ...]
    place: Place
    more: bool = False


class DeltaTableTrigger(BaseEventTrigger):
    """Send an event whenever a Delta table has commits that count; made for an ``AssetWatcher``.

    The payload of an event is ``{table, table_id, from_version, version, operations, data_changed, commit_timestamp,
    reset, gap, partitions}``:

    - ``from_version`` and ``version``: the versions since the last event, both inclusive
    - ``operations`` and ``commit_timestamp`` (milliseconds UTC): the operations and the newest time of the commits in
      this range that count
    - ``data_changed``: whether one of these commits adds or removes rows
    - ``reset``: true in the first event of a table that was dropped and created again
    - ``gap``: true if log cleanup deleted commits before the trigger read them
    - ``partitions``: the partitions whose rows changed, such as ``day=2026-03-01/country=DE``; None if there are more
      than 100, or if they are unknown

    Read the payload with ``airflow_provider_deltalite.assets.delta.delta_events``. Events may repeat, and Airflow may
    merge several events into one DAG run.

    :param table: The table's address: a local path, or a URI with a scheme. It may not exist yet.
    :param start: The first version that counts, or ``latest``: what is newer than the table is when it is first looked
        at. Only the first look asks for it, where Airflow keeps the position (3.3 and later).
    :param data_change_only: Only commits that add or remove rows count, so that maintenance triggers nobody. Where it
        is left out, that holds unless ``operations`` is given.
    :param operations: Only these operations count, as the table's history names them (``WRITE``, ``MERGE``, ...).
    :param partition: Only commits that add or remove a file with these partition values count.
    :param exclude_app_ids: Commits with these transaction identifiers do not count, which may hold ``*`` and ``?``:
        ``airflow/orders_clean/*`` are those of a DAG that would otherwise trigger itself.
    :param poke_interval: Seconds between two looks.
    :param storage_conn_id: The Airflow connection that opens the table's storage.
    """

    def __init__(
        self,
        *,
        table: str,
        start: Literal["latest"] | int = _LATEST,
        data_change_only: bool | None = None,
        operations: Sequence[str] | None = None,
        partition: Mapping[str, str | None] | None = None,
        exclude_app_ids: Sequence[str] | None = None,
        poke_interval: float = 60.0,
        storage_conn_id: str | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # as Airflow has it
        self.table = parse_location(table).path
        self.start = _checked_start(start)
        self.condition = CommitCondition(
            data_change_only=data_change_only,
            operations=operations,
            partition=partition,
            exclude_app_ids=exclude_app_ids,
        )
        self.poke_interval = float(poke_interval)
        self.storage_conn_id = storage_conn_id
        self._hook = DeltaHook(self.table, storage_conn_id)
        self._health = WatcherHealth(asset_uri(self.table))

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class at its public address and its arguments: equal arguments are one trigger, and one look."""
        condition = {name: value for name, value in self.condition.as_dict().items() if name != "app_id"}
        return (
            "airflow_provider_deltalite.triggers.delta.DeltaTableTrigger",
            {
                "table": self.table,
                "start": self.start,
                **condition,
                "poke_interval": self.poke_interval,
                "storage_conn_id": self.storage_conn_id,
            },
        )

    def shared_stream_key(self) -> Hashable | None:
        """Triggers that look at one table, through one connection and equally often, look once."""
        return ("deltalite", self.table, self.storage_conn_id, self.poke_interval)

    @classmethod
    async def open_shared_stream(cls, kwargs: dict[str, Any]) -> AsyncIterator[Batch]:
        """Look for ever: first where the table is, then what has come since."""
        made, place = cls(**kwargs), None
        while True:
            batch = await (made._answered(_first_batch) if place is None else made._answered(_next_batch, place))
            if batch.steps or place is None:
                yield batch
            place = batch.place
            if not batch.more:
                await asyncio.sleep(made.poke_interval)

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Batch]) -> AsyncIterator[TriggerEvent]:
        """The events of this trigger. Each batch that does not begin where this trigger is makes it look for itself."""
        position = await self._restored()
        async for shared in _after_a_look_of_its_own(shared_stream):
            batch = shared
            self._health.behind(shared.place.version - position.place.version)
            while True:
                if not _is_at(position.place, batch.base):
                    batch = await self._answered(_next_batch, position.place)
                steps = batch.steps
                if self.condition.needs_complete_summary and not all(map(_is_complete, steps)):
                    steps = await self._answered(_complete_steps, steps, self.condition)
                position, event = await in_thread(advance, position, steps, self.condition, self.table)
                if event is not None:
                    names = await self._answered(_partition_names, event["partitions"])
                    table_id = event["table_id"] or await self._table_id()
                    yield TriggerEvent({**event, "table_id": table_id, "partitions": names})
                    await asyncio.sleep(_ON_ITS_WAY_SECONDS)
                if batch.steps:
                    await self._keep(position)
                if batch is shared or not batch.more:  # a shared look that stopped short goes on by itself
                    break
                batch = await self._answered(_next_batch, position.place)
            self._health.behind(0)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """The same, alone: before Airflow 3.3, where nothing is shared."""
        async for event in self.filter_shared_stream(self.open_shared_stream(self.serialize()[1])):
            yield event

    async def _restored(self) -> Position:
        """The position that was kept, else the first one, which is kept at once: it may be long until an event.

        One that cannot be read, such as another release's, is none; who ended by it would be made again each second.
        """
        kept, unreadable = await self._kept(), None
        if kept is not None:
            try:
                return Position.from_dict(kept)
            except InvalidRequestError as error:
                unreadable = error.problem
        position = await self._first()
        if unreadable is not None:
            self.log.warning(
                "How far %s was looked at cannot be read: %s Airflow kept %s. Watching begins anew, with start=%s at "
                "version %s: commits before it that no event has announced will not be announced, and later ones may "
                "be announced again.",
                self.table,
                _shortened(unreadable),
                _shortened(repr(kept)),
                self.start,
                position.announced + 1,
            )
        await self._keep(position)
        return position

    async def _first(self) -> Position:
        """Where `start` says."""
        version = None if self.start == _LATEST else int(self.start) - 1
        place = (await self._answered(_first_batch, version)).place
        return Position(place=place, announced=place.version, table_id=await self._table_id())

    async def _table_id(self) -> str | None:
        found: str | None = await self._answered(_table_id)
        return found

    async def _answered(self, ask: Any, *given: Any) -> Any:
        """What a function that blocks answers of the table's store, in the end."""
        while True:
            try:
                answer = await in_thread(self._hook.ask, lambda store: ask(store, *given))
            except Exception as error:  # noqa: BLE001  a watcher that ends is made again each second, and fails again
                failed = self._health.failed("read the log", error)
                await asyncio.sleep(pause_seconds(self.poke_interval, failed))
            else:
                self._health.polled()
                return answer

    # --- what is kept ---

    @property
    def _cursor_key(self) -> str:
        """The name of the position: another one where another beginning or other commits are asked for."""
        asked = json.dumps([asset_uri(self.table), self.start, self.condition.as_dict()], sort_keys=True)
        return f"deltalite:position:{hashlib.sha256(asked.encode()).hexdigest()[:32]}"

    async def _kept(self) -> object:
        """What was kept, None where nothing was. Airflow is asked until it answers: a guess could leave commits out."""
        while True:
            try:
                kept: object = await self._in_state_store("get", self._cursor_key)
            except Exception as error:  # noqa: BLE001  as in `_answered`
                failed = self._health.failed("get the saved position from Airflow", error)
                await asyncio.sleep(pause_seconds(self.poke_interval, failed))
            else:
                self._health.recovered()
                return kept

    async def _keep(self, position: Position) -> None:
        """Keep the position. Where that fails, a restart repeats events."""
        try:
            await self._in_state_store("set", self._cursor_key, position.as_dict())
        except Exception as error:  # noqa: BLE001  as in `_answered`
            self._health.failed("save the position in Airflow", error)

    async def _in_state_store(self, method: str, *arguments: Any) -> Any:
        """Call the state store of this trigger's asset; None where there is none."""
        stores = getattr(self, "asset_state_store", None)
        if stores is None:
            return None
        try:
            return await _called(stores, method, *arguments)
        except ValueError:  # several assets share this trigger; the one that `delta_asset` makes is named by the table
            from airflow.sdk import Asset

            try:
                store = stores[Asset.ref(name=asset_uri(self.table))]
            except KeyError:
                if method == "get":
                    self.log.warning(
                        "Several assets are watched by one trigger for %s and none is delta_asset(...) of it, so that "
                        "no position is kept: after a restart watching begins at start=%s.",
                        self.table,
                        self.start,
                    )
                return None
            return await _called(store, method, *arguments)


async def _called(store: Any, method: str, *arguments: Any) -> Any:
    """Call the asynchronous method where there is one (3.3.2 and later), else the blocking one in a thread."""
    if hasattr(store, f"a{method}"):
        return await getattr(store, f"a{method}")(*arguments)
    return await in_thread(getattr(store, method), *arguments)


def _checked_start(start: Literal["latest"] | int) -> Literal["latest"] | int:
    is_version = isinstance(start, int) and not isinstance(start, bool) and start >= 0
    if not is_version and start != _LATEST:
        raise InvalidRequestError(f"start is {start!r}.", remedy="Give the first version that counts, or 'latest'.")
    return start


def _shortened(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def _is_at(place: Place, base: Place) -> bool:
    """Whether a place is where a batch begins; a commit that one of them has not seen is the same."""
    return place.version == base.version and (place.mark == base.mark or not (place.mark and base.mark))


async def _after_a_look_of_its_own(shared_stream: AsyncIterator[Batch]) -> AsyncIterator[Batch]:
    """The shared batches behind one that begins nowhere: what is shared may have begun before this trigger joined."""
    nowhere = Place(version=-2)
    yield Batch(base=nowhere, steps=(), place=nowhere)
    async for batch in shared_stream:
        yield batch


def _first_batch(store: LogStore, version: int | None = None) -> Batch:
    """Nothing yet, at a place with its mark: behind a version, or where the table is."""
    from deltalite import watch  # loads pyarrow, which parsing a DAG must not

    place = watch.place_at(store, watch.latest_version(store) if version is None else version)
    return Batch(base=place, steps=(), place=place)


def _next_batch(store: LogStore, place: Place) -> Batch:
    from deltalite import watch  # loads pyarrow, which parsing a DAG must not

    steps: list[Step] = []
    held_bytes = 0
    for step in watch.follow(store, place):
        steps.append(step)
        held_bytes += _held_bytes(step)
        if len(steps) == _MOST_STEPS or held_bytes >= _MOST_HELD_BYTES:
            return Batch(base=place, steps=tuple(steps), place=step.place, more=True)
    return Batch(base=place, steps=tuple(steps), place=steps[-1].place if steps else place)


def _held_bytes(step: Step) -> int:
    """About how much memory a step holds: a dictionary or a text has 300 bytes beside its characters."""
    summary = getattr(step, "summary", None)
    if summary is None:
        return 300
    texts = [*summary.app_ids, *(text for one in summary.partitions for pair in one.items() for text in pair if text)]
    return 300 * (1 + len(summary.partitions) + len(texts)) + sum(map(len, texts))


def _is_complete(step: Step) -> bool:
    summary = getattr(step, "summary", None)
    return summary is None or bool(summary.is_complete)


def _complete_steps(store: LogStore, steps: tuple[Step, ...], condition: CommitCondition) -> tuple[Step, ...]:
    from deltalite import watch  # loads pyarrow, which parsing a DAG must not

    return watch.complete_for(store, steps, condition)


def _table_id(store: LogStore) -> str | None:
    from deltalite import watch  # loads pyarrow, which parsing a DAG must not

    return watch.table_id(store)


def _partition_names(store: LogStore, partitions: Sequence[Mapping[str, str | None]] | None) -> list[str] | None:
    """Name the partitions of an event; a table without partitions, whose only values are `{}`, has no names."""
    if partitions is not None and not any(partitions):
        return []
    from deltalite import watch  # loads pyarrow, which parsing a DAG must not

    names = watch.touched_partitions(store, partitions)
    return None if names is None else list(names)

"""The trigger of an `AssetWatcher`: it sends an event for the asset if the table has commits that match.

The trigger never ends. If storage or Airflow fails, it retries after growing pauses. Polls run in threads, so they do
not block the triggerer's event loop. The triggers of one table share their polls (Airflow 3.3). Each trigger applies
its own condition, and reads the log itself if it joins later or has missed a batch.

Airflow 3.3 stores the trigger's position with the asset. The trigger reads it before the first poll. After an event it
waits five seconds, in which the triggerer hands the event to Airflow, and then stores the position. A restart can
therefore repeat an event. It can lose an event only if the triggerer takes longer to hand it over.

In three cases, a restart begins at `start` instead, and can leave out commits:

1. Airflow is older than 3.3.
2. Several assets share the trigger, and none of them is `delta_asset(...)` of the table. The trigger logs a warning.
3. The stored position is unreadable. The trigger logs which commits may be left out.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from airflow.providers.common.compat.triggers import BaseEventTrigger
from airflow.triggers.base import TriggerEvent

from airflow_provider_deltalite.assets._uri import asset_uri
from airflow_provider_deltalite.hooks.delta import DeltaHook
from airflow_provider_deltalite.triggers._blocking import in_thread
from airflow_provider_deltalite.waiting import pause_seconds
from airflow_provider_deltalite.watcher_health import WatcherHealth
from deltalite.conditions import CommitCondition
from deltalite.errors import InvalidRequestError
from deltalite.storage.locations import parse_location

if TYPE_CHECKING:
    from airflow_provider_deltalite.announcing import WatchPosition
    from airflow_provider_deltalite.triggers._batches import Batch

_LATEST: Literal["latest"] = "latest"
# A warning shows this many characters of an unreadable value; a valid position is about half as long.
_MAX_SHOWN_CHARACTERS = 300
# The trigger waits this long after an event, before it stores its position. A triggerer sends its events once a second
# to the process that stores them, and loses unsent events if it ends.
_STORING_SECONDS = 5.0


class DeltaTableTrigger(BaseEventTrigger):
    """Send an event if a Delta table has commits that match, for an ``AssetWatcher``.

    A commit matches if it is not before ``start`` and satisfies all other conditions below. The payload of an event is
    ``{table, table_id, from_version, version, operations, data_changed, commit_timestamp, reset, gap, partitions}``:

    - ``from_version`` and ``version``: the versions since the last event, both inclusive
    - ``operations``: the operations of the matching commits in this range
    - ``commit_timestamp``: the time of the last matching commit, in milliseconds UTC; None if there is only a gap
    - ``data_changed``: whether a matching commit adds or removes rows; true if ``gap`` is true
    - ``reset``: true in the first event of a table that was dropped and created again
    - ``gap``: true if log cleanup deleted commits before the trigger read them
    - ``partitions``: the partitions whose rows changed, such as ``day=2026-03-01/country=DE``; empty if no rows
      changed, or if the table has no partitions; None if there are more than 100, or if they are unknown

    Read the payload with ``airflow_provider_deltalite.assets.delta.delta_events``. Events may repeat, and Airflow may
    merge several events into one DAG run.

    :param table: The table's address: a local path, or a URI with a scheme. The table need not exist yet.
    :param start: The first version that can match. ``latest`` stands for the version after the newest one at the first
        poll. Airflow 3.3 and later keep the position, so only the first poll uses ``start``.
    :param data_change_only: Only commits that add or remove rows match, so that maintenance sends no events. By default
        this is true unless ``operations`` is given.
    :param operations: Only commits of these operations match, as the table's history names them (``WRITE``, ``MERGE``,
        ...).
    :param partition: Only commits that add or remove a file with these partition values match. A removed file is
        considered only if its writer has recorded the values.
    :param exclude_app_ids: Commits with these transaction identifiers do not match. They may contain ``*`` and ``?``.
        For example, ``airflow/orders_clean/*`` keeps the DAG ``orders_clean`` from triggering itself.
    :param poke_interval: Seconds between two polls.
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
        super().__init__()  # type: ignore[no-untyped-call]  # untyped in Airflow
        self.table = parse_location(table).path
        self.start = _check_start(start)
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
        """Return the class at its public address, and its arguments; Airflow merges triggers with equal arguments."""
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
        """Return the key by which triggers share their polls: table, connection and interval."""
        return ("deltalite", self.table, self.storage_conn_id, self.poke_interval)

    @classmethod
    async def open_shared_stream(cls, kwargs: dict[str, Any]) -> AsyncIterator[Batch]:
        """Poll forever: yield an empty batch at the table's position first, and then its new commits in batches."""
        from airflow_provider_deltalite.triggers import _batches  # not used when a DAG is parsed

        trigger, position = cls(**kwargs), None
        while True:
            if position is None:
                batch = await trigger._call_until_success(_batches.empty_batch_at)
            else:
                batch = await trigger._call_until_success(_batches.next_batch, position)
            if batch.steps or position is None:
                yield batch
            position = batch.position
            if not batch.has_more:
                await asyncio.sleep(trigger.poke_interval)

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Batch]) -> AsyncIterator[TriggerEvent]:
        """Yield the events of this trigger; read the log if a batch does not begin at the trigger's position."""
        from airflow_provider_deltalite.announcing import position_and_event_after  # not used when a DAG is parsed
        from airflow_provider_deltalite.triggers import _batches

        position = await self._load_or_start_position()
        async for shared_batch in _batches.with_catch_up_batch(shared_stream):
            self._health.report_lag(shared_batch.position.version - position.log_position.version)
            reads_log = not _batches.batch_begins_at(position.log_position, shared_batch.base)
            has_more = True
            while has_more:
                if reads_log:
                    batch = await self._call_until_success(_batches.next_batch, position.log_position)
                    has_more = batch.has_more
                else:
                    batch, has_more = shared_batch, False  # the shared stream itself continues an incomplete batch
                steps = batch.steps
                if self.condition.needs_complete_summary and not all(map(_batches.has_complete_summary, steps)):
                    steps = await self._call_until_success(_batches.complete_steps, steps, self.condition)
                position, event = await in_thread(position_and_event_after, position, steps, self.condition, self.table)
                if event is not None:
                    partition_names = await self._call_until_success(_batches.partition_names, event["partitions"])
                    table_id = event["table_id"] or await self._table_id()
                    yield TriggerEvent({**event, "table_id": table_id, "partitions": partition_names})
                    await asyncio.sleep(_STORING_SECONDS)
                if batch.steps:
                    await self._save(position)
            self._health.report_lag(0)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield the same events from polls that are not shared, for Airflow before 3.3."""
        async for event in self.filter_shared_stream(self.open_shared_stream(self.serialize()[1])):
            yield event

    async def _load_or_start_position(self) -> WatchPosition:
        """Return the stored position. If it is missing or unreadable, store and return the position of `start`.

        The position of `start` is stored at once, because the first event may come late. An unreadable position, such
        as that of another release, causes a warning. An error would end the trigger, and Airflow would create it again
        each second.
        """
        from airflow_provider_deltalite.announcing import WatchPosition  # not used when a DAG is parsed

        saved_value, error_text = await self._load_saved(), None
        if saved_value is not None:
            try:
                return WatchPosition.from_dict(saved_value)
            except InvalidRequestError as error:
                error_text = error.problem
        position = await self._start_position()
        if error_text is not None:
            self.log.warning(
                "The saved watch position of %s is unreadable; watching restarts at version %s (start=%s). Events for "
                "earlier commits may be missing, and later ones may repeat. To process the earlier commits, trigger "
                "the DAG by hand. Reason: %s Stored value: %s",
                self.table,
                position.announced_version + 1,
                self.start,
                _shorten(error_text),
                _shorten(repr(saved_value)),
            )
        await self._save(position)
        return position

    async def _start_position(self) -> WatchPosition:
        """Return the position of `start`."""
        from airflow_provider_deltalite.announcing import WatchPosition  # not used when a DAG is parsed
        from airflow_provider_deltalite.triggers import _batches

        version = None if self.start == _LATEST else int(self.start) - 1
        position = (await self._call_until_success(_batches.empty_batch_at, version)).position
        return WatchPosition(log_position=position, announced_version=position.version, table_id=await self._table_id())

    async def _table_id(self) -> str | None:
        from airflow_provider_deltalite.triggers import _batches  # not used when a DAG is parsed

        table_id: str | None = await self._call_until_success(_batches.table_id)
        return table_id

    async def _call_until_success(self, function: Any, *arguments: Any) -> Any:
        """Call a blocking function with the table's store, retry until it succeeds, and return its result.

        Each success counts as a poll in the metrics.
        """
        while True:
            try:
                result = await in_thread(self._hook.ask, lambda store: function(store, *arguments))
            except Exception as error:  # noqa: BLE001  if the trigger ended, Airflow would create it again each second
                failures = self._health.count_failure("read the log", error)
                await asyncio.sleep(pause_seconds(self.poke_interval, failures))
            else:
                self._health.count_poll()
                return result

    # --- the stored position ---

    @property
    def _position_key(self) -> str:
        """The key of the stored position; it depends on the table, `start` and the condition."""
        request = json.dumps([asset_uri(self.table), self.start, self.condition.as_dict()], sort_keys=True)
        return f"deltalite:position:{hashlib.sha256(request.encode()).hexdigest()[:32]}"

    async def _load_saved(self) -> object:
        """Return the stored value, or None. Retry until Airflow answers, because a guess could skip commits."""
        while True:
            try:
                saved_value: object = await self._call_asset_state_store("get", self._position_key)
            except Exception as error:  # noqa: BLE001  `_call_until_success` gives the reason
                failures = self._health.count_failure("get the saved position from Airflow", error)
                await asyncio.sleep(pause_seconds(self.poke_interval, failures))
            else:
                self._health.reset_failures()
                return saved_value

    async def _save(self, position: WatchPosition) -> None:
        """Store the position. A failure is logged; a restart then repeats events."""
        try:
            await self._call_asset_state_store("set", self._position_key, position.as_dict())
        except Exception as error:  # noqa: BLE001  `_call_until_success` gives the reason
            self._health.count_failure("save the position in Airflow", error)

    async def _call_asset_state_store(self, method: str, *arguments: Any) -> Any:
        """Call a method of the state store of this trigger's asset; return None if there is no store."""
        stores = getattr(self, "asset_state_store", None)
        if stores is None:
            return None
        try:
            return await _call_store_method(stores, method, *arguments)
        except ValueError:  # several assets share this trigger, so use the asset that `delta_asset` created
            from airflow.sdk import Asset

            try:
                store = stores[Asset.ref(name=asset_uri(self.table))]
            except KeyError:
                if method == "get":
                    self.log.warning(
                        "Cannot save the watch position of %s: several assets share this trigger, and none of them is "
                        "delta_asset(...) of the table. After a restart, watching begins at start=%s. To keep the "
                        "position, watch the table with delta_asset(table, watch=True).",
                        self.table,
                        self.start,
                    )
                return None
            return await _call_store_method(store, method, *arguments)


async def _call_store_method(store: Any, method: str, *arguments: Any) -> Any:
    """Call the asynchronous method (Airflow 3.3.2 and later), or else the blocking one in a thread."""
    if hasattr(store, f"a{method}"):
        return await getattr(store, f"a{method}")(*arguments)
    return await in_thread(getattr(store, method), *arguments)


def _check_start(start: Literal["latest"] | int) -> Literal["latest"] | int:
    """Return `start`.

    Raises:
        InvalidRequestError: `start` is neither a version nor `latest`.
    """
    is_version = isinstance(start, int) and not isinstance(start, bool) and start >= 0
    if not is_version and start != _LATEST:
        raise InvalidRequestError(
            f"start is {start!r}, not a version.", remedy="Give the first version to watch, or 'latest'."
        )
    return start


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN_CHARACTERS else f"{text[:_MAX_SHOWN_CHARACTERS]}..."

"""The trigger behind the sensor: the same look, made from the triggerer's event loop without ever blocking it.

Each look runs in a thread. Storage that is silent is asked again after growing pauses; how long in all is the sensor's
timeout, which Airflow watches. The trigger yields one event and ends: the result, or the error that ends the waiting.
Its arguments are plain JSON, and a triggerer that restarts goes on from the place in them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any

from airflow.providers.common.compat.sdk import AirflowNotFoundException
from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_deltalite.hooks.delta import DeltaHook
from airflow_provider_deltalite.triggers._blocking import in_thread
from airflow_provider_deltalite.wait_status import WaitStatus
from airflow_provider_deltalite.waiting import Look, VersionWait, look, pause_seconds
from deltalite.conditions import CommitCondition, Place
from deltalite.errors import DeltaLiteError

# A scheduler handles the reports of its executor about once a second; a busy one needs several seconds.
_SETTLING_SECONDS = 10.0


class DeltaVersionTrigger(BaseTrigger):
    """Wait for a commit that satisfies a condition, and fire one event.

    The event is ``{"status": "success", "result": {...}}`` or ``{"status": "error", "kind": ..., "message": ...}``,
    where the kind is the name of an error class of ``deltalite.errors``.

    :param table: The table's address.
    :param after_version: Only commits after this version count; -1 for any.
    :param condition: ``CommitCondition`` as a dictionary.
    :param place: ``Place`` as a dictionary: how far the log was looked at already.
    :param poke_interval: Seconds between two looks.
    :param storage_conn_id: The Airflow connection that opens the table's storage.
    """

    def __init__(
        self,
        *,
        table: str,
        after_version: int,
        condition: Mapping[str, Any],
        place: Mapping[str, Any],
        poke_interval: float,
        storage_conn_id: str | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # as Airflow has it
        self.wait = VersionWait(
            table=table,
            after_version=after_version,
            condition=CommitCondition.from_dict(condition),
            storage_conn_id=storage_conn_id,
        )
        self.place = Place.from_dict(place)
        self.poke_interval = poke_interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class at its public address, and its arguments, as the constructor takes them."""
        return (
            "airflow_provider_deltalite.triggers.delta.DeltaVersionTrigger",
            {
                "table": self.wait.table,
                "after_version": self.wait.after_version,
                "condition": self.wait.condition.as_dict(),
                "place": self.place.as_dict(),
                "poke_interval": self.poke_interval,
                "storage_conn_id": self.wait.storage_conn_id,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look until there is something to say, and say it once, not too soon after the deferral.

        Airflow's executor reports the exit of the worker that deferred under the same key as the resumed task. If the
        scheduler handles that report after it has queued the resumed task, it fails the task ("finished with state
        success, but the task instance's state attribute is queued").
        """
        settled = asyncio.create_task(asyncio.sleep(_SETTLING_SECONDS))
        try:
            event = await self._awaited()
            await settled
        finally:
            settled.cancel()
        yield TriggerEvent(event)

    async def _awaited(self) -> dict[str, Any]:
        hook = DeltaHook(self.wait.table, self.wait.storage_conn_id)  # kept: an opening asks Airflow for the connection
        status = WaitStatus(self.wait)
        place, failed_looks = self.place, 0
        while True:
            try:
                seen = await in_thread(look, self.wait, place, hook)
            except DeltaLiteError as error:
                return {"status": "error", "kind": type(error).__name__, "message": str(error)}
            except AirflowNotFoundException as error:  # the sensor had it, so it is its store that does not answer
                self.log.warning("%s is looked at again later: %s", self.wait.table, error)
                seen = Look(place=place, answered=False)
            if seen.found is not None:
                return {"status": "success", "result": seen.found}
            await in_thread(_report, status, hook, seen)
            place = seen.place
            failed_looks = 0 if seen.answered else failed_looks + 1
            await asyncio.sleep(pause_seconds(self.poke_interval, failed_looks))


def _report(status: WaitStatus, hook: DeltaHook, seen: Look) -> None:
    """Note a poll without a match. Blocks; an error of Airflow's connections is the next poll's to report."""
    with suppress(AirflowNotFoundException):
        status.polled(hook, answered=seen.answered)

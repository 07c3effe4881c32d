"""The trigger of a deferred operator: it waits in the triggerer until the driver of the job has ended.

- The polls run in threads, so they do not block the triggerer's event loop. Their times are spread at random.
- The arguments are stored in Airflow's database. They name a connection and a driver, and contain no secret.
- The trigger also watches a job that a `JobSubmitter` has submitted.
- A restart of the triggerer starts the trigger again. The job continues.
- If the user clears the task, or marks it as failed or successful, the trigger kills the driver.

The operator imports this module when it defers. DAG parsing does not import it.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_deltalite.clusters.driver_state import DriverWatch, WatchEnd
from airflow_provider_deltalite.triggers._blocking import in_thread

if TYPE_CHECKING:
    from airflow_provider_deltalite.clusters.driver_state import WatchedDriver

# The shortest time from a deferral to its event; `DeltaVersionTrigger.run` gives the reason.
_SETTLING_SECONDS = 10.0
_DEFERRED = "deferred"
# Since version 3.3, Airflow calls `on_kill` if a user acts on the task. Before, it only calls `cleanup`.
_AIRFLOW_CALLS_ON_KILL = hasattr(BaseTrigger, "on_kill")


class SparkDriverTrigger(BaseTrigger):
    """Wait until a driver in a cluster has ended, and fire one event.

    The event is ``{"status": ..., "message": ...}``. The status is one of these:

    - ``ended``: the driver has ended or does not exist any more.
    - ``timeout``: the task has reached its deadline. The driver may still run.
    - ``unwatched``: the triggerer cannot watch the driver, as the message says. The driver may still run.

    :param conn_id: The Spark connection, which names the ResourceManager of YARN.
    :param driver_id: The YARN application, a pod as ``namespace:name``, or the id that the submitter returned.
    :param poll_interval: Seconds between two polls.
    :param deadline_ms: The time at which the task times out, in milliseconds UTC; None if it never does.
    :param uses_kerberos: Use Kerberos for the ResourceManager even if the connection has no keytab and no principal.
    :param submitter: The dotted path and the arguments of the ``JobSubmitter`` that submitted the job; None for
        ``spark-submit``.
    """

    def __init__(
        self,
        *,
        conn_id: str,
        driver_id: str,
        poll_interval: float,
        deadline_ms: int | None = None,
        uses_kerberos: bool = False,
        submitter: Sequence[Any] | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # untyped in Airflow
        self.conn_id = conn_id
        self.driver_id = driver_id
        self.poll_interval = poll_interval
        self.deadline_ms = deadline_ms
        self.uses_kerberos = uses_kerberos
        self.submitter = submitter
        self._has_fired = False
        self._driver: WatchedDriver | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class at its public address, and the arguments of its constructor."""
        return (
            "airflow_provider_deltalite.triggers.driver.SparkDriverTrigger",
            {
                "conn_id": self.conn_id,
                "driver_id": self.driver_id,
                "poll_interval": self.poll_interval,
                "deadline_ms": self.deadline_ms,
                "uses_kerberos": self.uses_kerberos,
                "submitter": self.submitter,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll until the driver has ended or the watch ends for another reason, and send the event."""
        watch = DriverWatch(started_ms=_now_ms(), poll_interval=self.poll_interval, deadline_ms=self.deadline_ms)
        # After a restart of the triggerer, all triggers begin at once, so the first polls are spread too.
        await asyncio.sleep(_SETTLING_SECONDS + random.random() * self.poll_interval)  # noqa: S311  no secret
        while (end := await self._poll(watch)) is None:  # noqa: ASYNC110  no event tells that the driver has ended
            await asyncio.sleep(watch.pause_seconds(_now_ms(), random.random()))  # noqa: S311  no secret
        self._has_fired = True
        yield TriggerEvent({"status": end.value, "message": watch.error_text if end is WatchEnd.UNWATCHED else ""})

    async def on_kill(self) -> None:
        """Kill the driver, unless the task is still deferred."""
        await self._kill_driver_of_abandoned_task()

    async def cleanup(self) -> None:
        """Kill the driver if the task is no longer deferred, in an Airflow that does not call `on_kill`."""
        if not _AIRFLOW_CALLS_ON_KILL:
            await self._kill_driver_of_abandoned_task()

    async def _poll(self, watch: DriverWatch) -> WatchEnd | None:
        """Poll once, and return the reason to end the watch if there is one."""
        try:
            state = await in_thread(self._state)
        except Exception as error:  # noqa: BLE001  if the trigger ended, the task would fail while its driver runs
            self._driver = None  # The next poll reads the connection again.
            end = watch.record_failure(error, _now_ms())
            self.log.warning("Could not poll the driver %s (%s): %s", self.driver_id, self.conn_id, watch.error_text)
            return end
        return watch.record_state(state, _now_ms())

    def _state(self) -> Any:
        """Return the state of the driver. Blocks."""
        if self._driver is None:
            self._driver = self._new_driver()
        return self._driver.state()

    def _kill(self) -> None:
        """Kill the driver. Blocks."""
        (self._driver or self._new_driver()).kill()

    def _new_driver(self) -> WatchedDriver:
        from airflow_provider_deltalite.clusters.watching import watched_driver

        submitter = None if self.submitter is None else (self.submitter[0], self.submitter[1])
        return watched_driver(self.conn_id, self.driver_id, uses_kerberos=self.uses_kerberos, submitter=submitter)

    async def _kill_driver_of_abandoned_task(self) -> None:
        """Kill the driver unless the task is still deferred.

        Airflow also cancels a trigger if the triggerer stops, or if another triggerer takes the trigger over. The task
        is still deferred then, and its job must continue.
        """
        if self._has_fired:
            return
        try:
            state = await in_thread(self._task_state)
            if state == _DEFERRED:
                return
            self.log.info("Killing the driver %s, because its task is no longer deferred.", self.driver_id)
            await in_thread(self._kill)
        except Exception as error:  # noqa: BLE001  Airflow ignores errors of a trigger that ends
            self.log.warning("Could not kill the driver %s, which may still run: %s", self.driver_id, error)

    def _task_state(self) -> str | None:
        """Return the state of the task in Airflow; None after a clear, and if the task no longer exists. Blocks.

        Raises:
            Exception: Airflow does not answer.
        """
        from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

        task = self.task_instance
        if task is None:
            raise RuntimeError("the trigger belongs to no task")
        states = RuntimeTaskInstance.get_task_states(
            dag_id=task.dag_id, task_ids=[task.task_id], run_ids=[task.run_id], map_index=task.map_index
        )
        key = task.task_id if task.map_index < 0 else f"{task.task_id}_{task.map_index}"
        state: str | None = states.get(task.run_id, {}).get(key)
        return state


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

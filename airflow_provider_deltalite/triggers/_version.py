"""The triggers of the sensor: they poll a table from the triggerer's event loop without blocking it.

Each poll runs in a thread. If storage does not answer, the next poll follows after a growing pause. Airflow enforces
the sensor's timeout. A trigger yields one event, the result or the error that ends the wait, and then ends. Its
arguments are plain JSON.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from airflow.providers.common.compat.sdk import AirflowNotFoundException
from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_deltalite.hooks.delta import DeltaHook
from airflow_provider_deltalite.quoting import QuotingTemplates
from airflow_provider_deltalite.triggers._blocking import in_thread
from airflow_provider_deltalite.wait_status import WaitStatus
from airflow_provider_deltalite.waiting import (
    Poll,
    VersionWait,
    WaitParameters,
    convert_after_version,
    pause_seconds,
    poll_table,
)
from deltalite.conditions import CommitCondition, LogPosition
from deltalite.errors import DeltaLiteError, InvalidRequestError

# The shortest time from a deferral to its event. A scheduler handles the reports of its executor about once a second,
# and a busy scheduler less often.
_SETTLING_SECONDS = 10.0


class DeltaVersionTrigger(BaseTrigger):
    """Wait for a commit that satisfies a condition, and fire one event.

    The event is ``{"status": "success", "result": {...}}`` or ``{"status": "error", "kind": ..., "message": ...}``.
    The kind is the name of an error class of ``deltalite.errors``, or ``AirflowNotFoundException``.

    :param table: The table's address.
    :param after_version: Only commits after this version match; -1 for any.
    :param condition: ``CommitCondition`` as a dictionary.
    :param place: ``LogPosition`` as a dictionary: the last log position that the sensor has read.
    :param poke_interval: Seconds between two polls.
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
        super().__init__()  # type: ignore[no-untyped-call]  # untyped in Airflow
        self.wait = VersionWait(
            table=table,
            after_version=after_version,
            condition=CommitCondition.from_dict(condition),
            storage_conn_id=storage_conn_id,
        )
        self.position = LogPosition.from_dict(place)
        self.poke_interval = poke_interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class at its public address, and the arguments of its constructor."""
        return (
            "airflow_provider_deltalite.triggers.delta.DeltaVersionTrigger",
            {
                "table": self.wait.table,
                "after_version": self.wait.after_version,
                "condition": self.wait.condition.as_dict(),
                "place": self.position.as_dict(),
                "poke_interval": self.poke_interval,
                "storage_conn_id": self.wait.storage_conn_id,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll until there is a result or an error, and send it, at least ten seconds after the deferral.

        The worker exits when the task defers. Airflow's executor reports this exit under a key that the resumed task
        has too. If the scheduler handles the report after it has queued the resumed task, the scheduler fails the task
        ("finished with state success, but the task instance's state attribute is queued").
        """
        minimum_deferral = asyncio.create_task(asyncio.sleep(_SETTLING_SECONDS))
        try:
            event = await _event_of(self.wait, self.position, self.poke_interval, self.log)
            await minimum_deferral
        finally:
            minimum_deferral.cancel()
        yield TriggerEvent(event)


class DeltaVersionStartTrigger(QuotingTemplates, BaseTrigger):
    """Start and finish the wait of a ``DeltaVersionSensor`` that has ``start_from_trigger=True``.

    The scheduler stores the arguments unrendered, and the triggerer renders their templates. The event is that of
    ``DeltaVersionTrigger``, with the rendered ``request``. The event for invalid arguments has no ``request``.

    :param table: The table's address, or a template of it.
    :param after_version: Only commits after this version match; -1 for any.
    :param poke_interval: Seconds between two polls.
    :param data_change_only: As in ``DeltaVersionSensor``.
    :param operations: As in ``DeltaVersionSensor``.
    :param partition: As in ``DeltaVersionSensor``.
    :param app_id: As in ``DeltaVersionSensor``.
    :param made_by: As in ``DeltaVersionSensor``.
    :param storage_conn_id: The Airflow connection that opens the table's storage.
    """

    def __init__(
        self,
        *,
        table: str,
        after_version: int | str,
        poke_interval: float,
        data_change_only: bool | None = None,
        operations: Sequence[str] | str | None = None,
        partition: Mapping[str, str | None] | None = None,
        app_id: str | None = None,
        made_by: Mapping[str, Any] | None = None,
        storage_conn_id: str | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # untyped in Airflow
        # Airflow renders the attributes that have the names of the sensor's template fields.
        self.table = table
        self.after_version = after_version
        self.poke_interval = poke_interval
        self.data_change_only = data_change_only
        self.operations = operations
        self.partition = partition
        self.app_id = app_id
        self.made_by = made_by
        self.storage_conn_id = storage_conn_id

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class at its public address, and the arguments of its constructor."""
        return (
            "airflow_provider_deltalite.triggers.delta.DeltaVersionStartTrigger",
            {
                "table": self.table,
                "after_version": self.after_version,
                "poke_interval": self.poke_interval,
                "data_change_only": self.data_change_only,
                "operations": self.operations,
                "partition": self.partition,
                "app_id": self.app_id,
                "made_by": self.made_by,
                "storage_conn_id": self.storage_conn_id,
            },
        )

    def get_template_env(self, dag: Any = None) -> Any:
        """Return Airflow's template environment, in which undefined names are errors, as in an operator's templates."""
        from jinja2 import StrictUndefined

        environment = super().get_template_env(dag)
        environment.undefined = StrictUndefined
        return environment

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Check the rendered arguments, poll until there is a result or an error, and send it."""
        try:
            wait, request = self._prepare_wait()
        except DeltaLiteError as error:
            yield TriggerEvent(_error_event(error))
            return
        position = LogPosition(version=wait.after_version)
        event = await _event_of(wait, position, self.poke_interval, self.log, had_connection=False)
        yield TriggerEvent({**event, "request": request})

    def _prepare_wait(self) -> tuple[VersionWait, dict[str, Any]]:
        """Return the wait that the rendered arguments describe, and its request."""
        parameters = WaitParameters.of(self)
        after_version = convert_after_version(self.after_version)
        if after_version is None:
            raise InvalidRequestError(
                "after_version is None, and a sensor that starts in the triggerer cannot choose a version.",
                remedy="Give a version, or -1 for any; or leave start_from_trigger out.",
            )
        wait = VersionWait(
            table=parameters.table_address(),
            after_version=after_version,
            condition=parameters.condition(),
            storage_conn_id=parameters.conn_id(),
        )
        return wait, parameters.request()


async def _event_of(
    wait: VersionWait, position: LogPosition, poll_interval: float, log: Any, *, had_connection: bool = True
) -> dict[str, Any]:
    """Poll until a commit satisfies the condition or an error ends the wait, and return the payload of the event.

    A missing connection has two possible causes:

    - An earlier poll had the connection: Airflow's connection store failed. The next poll requests it again.
    - No poll had the connection: its name may be misspelled. The error ends the wait.

    :param had_connection: Whether a worker had the connection before the first poll.
    """
    # All polls use one hook, because each new hook requests the connection from Airflow.
    hook = DeltaHook(wait.table, wait.storage_conn_id)
    status = WaitStatus(wait)
    failed_polls = 0
    while True:
        try:
            poll = await in_thread(poll_table, wait, position, hook)
        except DeltaLiteError as error:
            return _error_event(error)
        except AirflowNotFoundException as error:
            if not had_connection:
                return _error_event(error)
            log.warning("Could not get the connection of %s; retrying at the next poll: %s", wait.table, error)
            poll = Poll(position=position, answered=False)
        had_connection = True
        if poll.xcom is not None:
            return {"status": "success", "result": poll.xcom}
        await in_thread(_record_poll, status, hook, poll)
        position = poll.position
        failed_polls = 0 if poll.answered else failed_polls + 1
        await asyncio.sleep(pause_seconds(poll_interval, failed_polls))


def _error_event(error: DeltaLiteError | AirflowNotFoundException) -> dict[str, Any]:
    return {"status": "error", "kind": type(error).__name__, "message": str(error)}


def _record_poll(status: WaitStatus, hook: DeltaHook, poll: Poll) -> None:
    """Record a poll without a match. Blocks. Ignores a missing connection, because the next poll logs it."""
    with suppress(AirflowNotFoundException):
        status.record_poll(hook, answered=poll.answered)

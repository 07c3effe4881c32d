"""A task attempt outside of Airflow: its context, and the deferral of the task.

The context has a task state store that outlives the process of the worker.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from airflow.providers.common.compat.sdk import TaskDeferred


class FileStateStore:
    """Airflow's task state store, as a JSON file."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or `default` if the key is not stored."""
        return self._values().get(key, default)

    def set(self, key: str, value: Any, **_retention: Any) -> None:
        """Store a value."""
        self._replace(self._values() | {key: value})

    def delete(self, key: str) -> None:
        """Remove a key and its value."""
        self._replace({name: value for name, value in self._values().items() if name != key})

    def _replace(self, values: dict[str, Any]) -> None:
        """Replace the file in one step, so that a killed worker never leaves a half-written file."""
        temporary_file = self._file.with_suffix(".partial")
        temporary_file.write_text(json.dumps(values))
        temporary_file.replace(self._file)

    def _values(self) -> dict[str, Any]:
        return json.loads(self._file.read_text()) if self._file.exists() else {}


def context_of(task_id: str, state_file: Path, *, try_number: int = 1) -> dict[str, Any]:
    """The context of an attempt of a task with two retries. `state_file` holds the task state store."""
    ti = SimpleNamespace(
        dag_id="sales",
        task_id=task_id,
        run_id="manual__1",
        map_index=-1,
        try_number=try_number,
        max_tries=2,
        stats_tags={},
        xcom_push=lambda **_: None,
    )
    return {
        "ti": ti,
        "dag_run": SimpleNamespace(start_date=datetime.now(UTC)),
        "outlet_events": defaultdict(lambda: SimpleNamespace(extra={})),
        "task_state_store": FileStateStore(state_file),
    }


def run_attempt(operator: Any, context: dict[str, Any], triggerer: AbstractContextManager[None] | None = None) -> Any:
    """Run an attempt of a task, and return its XCom. If the task defers, run the trigger, and resume the task.

    The trigger runs in the block `triggerer`.
    """
    try:
        return operator.execute(context)
    except TaskDeferred as deferral:
        with triggerer or nullcontext():
            event = asyncio.run(first_event(copy_of_trigger(deferral.trigger)))
        return resume(operator, deferral, event, context)


def copy_of_trigger(trigger: Any) -> Any:
    """Return the trigger that a triggerer creates from the stored arguments."""
    path, arguments = json.loads(json.dumps(trigger.serialize()))
    module_name, class_name = path.rsplit(".", 1)
    return getattr(import_module(module_name), class_name)(**arguments)


async def first_event(trigger: Any) -> dict[str, Any]:
    """Run a trigger until it sends an event, and return the payload of the event."""
    async for event in trigger.run():
        return event.payload
    raise AssertionError("the trigger has sent no event")


def resume(operator: Any, deferral: TaskDeferred, event: dict[str, Any], context: dict[str, Any]) -> Any:
    """Resume a deferred task, and return its XCom."""
    arguments = json.loads(json.dumps({**deferral.kwargs, "event": event}))
    return operator.resume_execution(deferral.method_name, arguments, context)

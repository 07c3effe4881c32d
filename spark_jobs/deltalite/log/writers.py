"""The writer of a commit, read from the commit's provenance: `task_run` for programs, `writer_text` for people.

Tasks put their run into `commitInfo.userMetadata` as JSON (`commands/common/run_identity.py`). Other writers put any
text there, so the metadata counts as a run only if it names a DAG and a task. Protocol: Commit Provenance Information.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

_NOT_MAPPED = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRun:
    """The task attempt that made a commit; a field is None if the commit lacks it, or has it in an unexpected type."""

    dag_id: str
    task_id: str
    run_id: str | None
    map_index: int | None
    try_number: int | None

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object, with keys in the style of Spark's provenance."""
        names = {"dag_id": "dagId", "task_id": "taskId", "run_id": "runId", "map_index": "mapIndex"}
        return {names.get(key, "tryNumber"): value for key, value in asdict(self).items()}


def task_run(info: Mapping[str, Any]) -> TaskRun | None:
    """Return the task attempt that made a commit; None for a commit of another writer."""
    metadata = info.get("userMetadata")
    try:
        details: Any = json.loads(metadata) if isinstance(metadata, str) else None
    except (ValueError, RecursionError):
        return None
    match details:
        case {"dag_id": str() as dag_id, "task_id": str() as task_id, **fields}:
            return TaskRun(
                dag_id=dag_id,
                task_id=task_id,
                run_id=_value_of_type(fields.get("run_id"), str),
                map_index=_value_of_type(fields.get("map_index"), int),
                try_number=_value_of_type(fields.get("try_number"), int),
            )
        case _:
            return None


def writer_text(info: Mapping[str, Any]) -> str:
    """Describe the writer of a commit: DAG, task, run and try number, or the user and engine of another writer."""
    if run := task_run(info):
        map_suffix = "" if run.map_index in (None, _NOT_MAPPED) else f"[{run.map_index}]"
        attempt = "" if run.try_number is None else f"try {run.try_number}"
        return " ".join(text for text in (f"{run.dag_id}.{run.task_id}{map_suffix}", run.run_id, attempt) if text)
    names = (info.get("userName"), info.get("engineInfo"))
    return ", ".join(name for name in names if isinstance(name, str) and name)


def _value_of_type(value: Any, kind: type) -> Any:
    return value if isinstance(value, kind) and not isinstance(value, bool) else None

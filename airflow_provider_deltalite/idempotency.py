"""Who is writing: the identity of a task's run, from which one commit a run follows.

The app id names a DAG run's task, so that every try of it finds the commit of an earlier one; it never holds a logical
date, because a table skips a transaction version lower than the one it has, and backfills run out of order. The
transaction version is the generation of the task: retries leave it as it is, a clear raises it, and it counts only
where the policy is to write again after a clear. What tells a clear from a retry is kept with the task. Names are
escaped, so that two tasks never share an id.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from deltalite.requests import OnRerun, RunIdentity

if TYPE_CHECKING:
    from airflow.sdk.types import RuntimeTaskInstanceProtocol

_NOT_MAPPED = -1


def app_id(namespace: str, *, dag_id: str, task_id: str, map_index: int, run_id: str) -> str:
    """`<namespace>/<dag_id>/<task_id>/<map_index>/<run_id>`, with `%` and `/` inside a part percent-encoded."""
    return "/".join(_escaped(part) for part in (namespace, dag_id, task_id, str(map_index), run_id))


def generation(kept: Mapping[str, int] | None, *, max_tries: int, retries: int) -> tuple[int, dict[str, Any]]:
    """The generation of a try, and what is to be kept for the next one; `kept` is what the last one kept.

    Airflow stores `max_tries` when it makes a task instance, and sets it to the tries made plus the `retries` of the
    moment when the task is cleared. Retries, and an edit of `retries` in the DAG, leave it as it is.

    1. Something is kept: one more than the last generation where `max_tries` is another one, and else the same.
    2. Nothing is: what `max_tries` exceeds `retries` by, which is 0 for a task that was never cleared. Where nothing is
       ever kept (before Airflow 3.3), an edit of `retries` therefore moves the generation.

    A clear that leaves `max_tries` as it is, because `retries` were lowered by just the tries made since the last one,
    looks like a retry and does not write again; clearing the task once more does.
    """
    found = max(0, max_tries - retries) if kept is None else kept["generation"] + (max_tries != kept["max_tries"])
    return found, {"max_tries": max_tries, "generation": found}


def run_identity(ti: RuntimeTaskInstanceProtocol, *, namespace: str, generation: int, on_rerun: OnRerun) -> RunIdentity:
    """The identity under which this try of a task commits."""
    map_index = _NOT_MAPPED if ti.map_index is None else ti.map_index
    again = on_rerun is not OnRerun.SKIP
    return RunIdentity(
        app_id=app_id(namespace, dag_id=ti.dag_id, task_id=ti.task_id, map_index=map_index, run_id=ti.run_id),
        txn_version=generation if again else 0,
        on_rerun=on_rerun,
        details={
            "dag_id": ti.dag_id,
            "task_id": ti.task_id,
            "run_id": ti.run_id,
            "map_index": map_index,
            "try_number": ti.try_number,
        },
    )


def _escaped(part: str) -> str:
    return part.replace("%", "%25").replace("/", "%2F")

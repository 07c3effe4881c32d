"""Who is writing: the identity of a task's run, from which one commit a run follows.

The app id names a DAG run's task, so that every try of it finds the commit of an earlier one; it never holds a logical
date, because a table skips a transaction version lower than the one it has, and backfills run out of order. The
transaction version is the generation of the task: retries leave it as it is, a clear raises it, and it counts only
where the policy is to write again after a clear. Names are escaped, so that two tasks never share an id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltalite.requests import OnRerun, RunIdentity

if TYPE_CHECKING:
    from airflow.sdk.types import RuntimeTaskInstanceProtocol

_NOT_MAPPED = -1


def app_id(namespace: str, *, dag_id: str, task_id: str, map_index: int, run_id: str) -> str:
    """`<namespace>/<dag_id>/<task_id>/<map_index>/<run_id>`, with `%` and `/` inside a part percent-encoded."""
    return "/".join(_escaped(part) for part in (namespace, dag_id, task_id, str(map_index), run_id))


def generation(*, max_tries: int, retries: int) -> int:
    """0 for a task that was never cleared, and higher after each clear; the same for all retries in between.

    Airflow raises `max_tries` by the tries already made when a task is cleared. A DAG whose `retries` were raised
    meanwhile would give a negative number: that is generation 0 too.
    """
    return max(0, max_tries - retries)


def run_identity(ti: RuntimeTaskInstanceProtocol, *, namespace: str, retries: int, on_rerun: OnRerun) -> RunIdentity:
    """The identity under which this try of a task commits."""
    map_index = _NOT_MAPPED if ti.map_index is None else ti.map_index
    again = on_rerun is not OnRerun.SKIP
    return RunIdentity(
        app_id=app_id(namespace, dag_id=ti.dag_id, task_id=ti.task_id, map_index=map_index, run_id=ti.run_id),
        txn_version=generation(max_tries=ti.max_tries, retries=retries) if again else 0,
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

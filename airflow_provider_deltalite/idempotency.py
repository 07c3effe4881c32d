"""Who is writing: the identity of a task's run, from which one commit a run follows.

The app id names a DAG run's task, so that every try of it finds the commit of an earlier one; it never holds a logical
date, because a table skips a transaction version lower than the one it has, and backfills run out of order. The
transaction version is the generation of the task: retries leave it as it is, a clear raises it, and it counts only
where the policy is to write again after a clear. What tells a clear from a retry is kept with the task. Names are
escaped, so that two tasks never share an id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from deltalite.errors import InvalidRequestError
from deltalite.requests import OnRerun, RunIdentity

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

_NOT_MAPPED = -1
# The times of a DAG run that its commits carry, by the attribute of the DAG run.
_TIMES = {
    "run_start": "start_date",
    "logical_date": "logical_date",
    "data_interval_start": "data_interval_start",
    "data_interval_end": "data_interval_end",
}


def app_id(namespace: str, *, dag_id: str, task_id: str, map_index: int, run_id: str) -> str:
    """`<namespace>/<dag_id>/<task_id>/<map_index>/<run_id>`, with `%` and `/` inside a part percent-encoded."""
    return "/".join(_escaped(part) for part in (namespace, dag_id, task_id, str(map_index), run_id))


def keyed_app_id(namespace: str, *, dag_id: str, idempotency_key: str) -> str:
    """`<namespace>/<dag_id>/<idempotency_key>`, escaped as `app_id`; it has fewer parts, so the two never collide.

    Raises:
        InvalidRequestError: the key is empty.
    """
    if not idempotency_key.strip():
        raise InvalidRequestError(
            "idempotency_key is empty.",
            remedy="Check what its template renders; leave it out to identify commits by DAG run and task.",
        )
    return "/".join(_escaped(part) for part in (namespace, dag_id, idempotency_key))


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """What Airflow says of a try. `clears` counts how often tasks of the DAG run were cleared; None before 3.3."""

    try_number: int
    max_tries: int
    retries: int
    clears: int | None = None


def generation(kept: Mapping[str, Any] | None, now: Try) -> tuple[int, dict[str, Any]]:
    """The generation of a try, and what is to be kept for the next one; `kept` is what the last one kept.

    Airflow stores `max_tries` when it makes a task instance, and sets it to the tries made plus the `retries` of the
    moment when the task is cleared. Retries, and an edit of `retries` in the DAG, leave it as it is.

    1. Something is kept, and `max_tries` is another one: the task was cleared, one more.
    2. It is the same, but that is also what a clear just now would have made of it, because `retries` were lowered by
       the tries made, and something in the DAG run was cleared since: one more.
    3. Else it is a retry: the same.
    4. Nothing is kept: what `max_tries` exceeds `retries` by, which is 0 for a task that was never cleared. Where
       nothing is ever kept (before Airflow 3.3), an edit of `retries` therefore moves the generation.
    """
    found = max(0, now.max_tries - now.retries) if kept is None else kept["generation"] + _was_cleared(kept, now)
    return found, {"max_tries": now.max_tries, "generation": found, "clears": now.clears}


def _was_cleared(kept: Mapping[str, Any], now: Try) -> bool:
    if now.max_tries != kept["max_tries"]:
        return True
    as_a_clear_makes_it = now.max_tries == now.try_number - 1 + now.retries
    return as_a_clear_makes_it and (now.clears or 0) > (kept.get("clears") or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedRequest:
    """What a run asks for, as digests; see `request_digest`."""

    digest: str
    parameters: Mapping[str, str]


def run_identity(
    context: Context,
    *,
    namespace: str,
    generation: int,
    on_rerun: OnRerun,
    idempotency_key: str | None = None,
    asked: AskedRequest,
) -> RunIdentity:
    """The identity under which this try of a task commits.

    Raises:
        InvalidRequestError: the idempotency key is empty.
    """
    ti, dag_run = context["ti"], context.get("dag_run")
    map_index = _NOT_MAPPED if ti.map_index is None else ti.map_index
    details: dict[str, str | int] = {
        "dag_id": ti.dag_id,
        "task_id": ti.task_id,
        "run_id": ti.run_id,
        "map_index": map_index,
        "try_number": ti.try_number,
    }
    if idempotency_key is not None:
        details["idempotency_key"] = idempotency_key
    for name, attribute in _TIMES.items():
        time = getattr(dag_run, attribute, None)
        if isinstance(time, datetime):
            details[name] = time.astimezone(UTC).isoformat()
    if idempotency_key is None:
        own_id = app_id(namespace, dag_id=ti.dag_id, task_id=ti.task_id, map_index=map_index, run_id=ti.run_id)
        begin, end = own_id.rsplit(str(map_index).join("//"), 1)
    else:
        own_id = keyed_app_id(namespace, dag_id=ti.dag_id, idempotency_key=idempotency_key)
        begin = end = ""
    return RunIdentity(
        app_id=own_id,
        txn_version=0 if on_rerun is OnRerun.SKIP else generation,
        on_rerun=on_rerun,
        details=details,
        generation=generation,
        request_digest=asked.digest,
        parameter_digests=asked.parameters,
        sibling_ids=(f"{begin}/", f"/{end}") if begin and map_index != _NOT_MAPPED else None,
        is_of_cleared_run=getattr(dag_run, "clear_number", None) != 0,
    )


def app_id_of(
    task_id: str | None = None,
    *,
    dag_id: str,
    run_id: str | None = None,
    map_index: int = _NOT_MAPPED,
    idempotency_key: str | None = None,
) -> str:
    """The app id under which a task of this Airflow commits: what a sensor's ``app_id`` waits for.

    A task is named by ``task_id`` and ``run_id`` (and ``map_index``), or by its ``idempotency_key`` alone. In templates
    the function is ``macros.deltalite.app_id_of``:
    ``app_id="{{ macros.deltalite.app_id_of('load', dag_id='orders_ingest', run_id=run_id) }}"``.

    Raises:
        InvalidRequestError: neither or both are given.
    """
    from airflow.providers.common.compat.sdk import conf

    namespace = conf.get("deltalite", "namespace", fallback="airflow")
    match task_id, run_id, idempotency_key:
        case None, None, str():
            return keyed_app_id(namespace, dag_id=dag_id, idempotency_key=idempotency_key)
        case str(), str(), None:
            return app_id(namespace, dag_id=dag_id, task_id=task_id, map_index=map_index, run_id=run_id)
        case _:
            raise InvalidRequestError(
                "app_id_of does not name one task.", remedy="Give task_id and run_id, or idempotency_key alone."
            )


def _escaped(part: str) -> str:
    return part.replace("%", "%25").replace("/", "%2F")

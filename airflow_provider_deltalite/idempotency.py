"""The run identity: the `txn` action (app id and version) under which a task commits, once for each DAG run.

The app id names a task of a DAG run, so every task attempt finds the commit of an earlier one. Names are escaped, so
two tasks never share an app id. With an idempotency key, the app id names the DAG and the key instead. All tasks and
runs of the DAG that have the same key then share the app id.

The transaction version is the generation of the task, or 0 if `on_rerun` is `skip`. A retry keeps the generation, and a
clear raises it. The version is never a logical date, because backfills run out of order. Delta treats a run as
committed if its transaction version is not above the stored version.

The task stores a small state, which distinguishes a clear from a retry.
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
# The names of the times that a commit contains, and the attributes of the DAG run that hold these times.
_TIMES_OF_RUN = {
    "run_start": "start_date",
    "logical_date": "logical_date",
    "data_interval_start": "data_interval_start",
    "data_interval_end": "data_interval_end",
}


def configured_namespace() -> str:
    """Return the setting `[deltalite] namespace`, the first part of each app id."""
    from airflow.providers.common.compat.sdk import conf

    return str(conf.get("deltalite", "namespace", fallback="airflow"))


def app_id(namespace: str, *, dag_id: str, task_id: str, map_index: int, run_id: str) -> str:
    """Return `<namespace>/<dag_id>/<task_id>/<map_index>/<run_id>`, with `%` and `/` inside a part percent-encoded."""
    return "/".join(_escaped(part) for part in (namespace, dag_id, task_id, str(map_index), run_id))


def keyed_app_id(namespace: str, *, dag_id: str, idempotency_key: str) -> str:
    """Return `<namespace>/<dag_id>/<idempotency_key>`, escaped as in `app_id`.

    It has fewer parts than an `app_id`, so the two never collide.

    Raises:
        InvalidRequestError: the key is empty.
    """
    if not idempotency_key.strip():
        raise InvalidRequestError(
            "idempotency_key is empty.",
            remedy="Check what its template renders, or leave it out to identify commits by DAG run and task.",
        )
    return "/".join(_escaped(part) for part in (namespace, dag_id, idempotency_key))


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAttempt:
    """Airflow's numbers of a task attempt.

    `clears` counts how often tasks of the DAG run were cleared. It is None before Airflow 3.3.
    """

    try_number: int
    max_tries: int
    retries: int
    clears: int | None = None


def generation_and_state(stored_state: Mapping[str, Any] | None, attempt: TaskAttempt) -> tuple[int, dict[str, Any]]:
    """Return the generation of a task attempt, and the state to store for the next attempt.

    Airflow stores `max_tries` when it makes a task instance. A clear sets it to the number of attempts made plus the
    current `retries`. A retry and an edit of `retries` in the DAG do not change it.

    1. There is a stored state, and `max_tries` has changed: the task was cleared. The generation rises by one.
    2. There is a stored state, and `max_tries` has not changed. A clear may still have set `max_tries` to its old
       value, if the author has lowered `retries` by the number of attempts made. `clears` decides such a case: if it
       has risen, the generation rises by one.
    3. Any other attempt with a stored state is a retry, in the same generation.
    4. There is no stored state: the generation is `max_tries` minus `retries`, which is 0 for a task that was never
       cleared. Before Airflow 3.3 there is no state store, so an edit of `retries` changes the generation.

    Args:
        stored_state: The state that the last attempt stored.
        attempt: This attempt.
    """
    if stored_state is None:
        current = max(0, attempt.max_tries - attempt.retries)
    else:
        current = stored_state["generation"] + _was_cleared(stored_state, attempt)
    return current, {"max_tries": attempt.max_tries, "generation": current, "clears": attempt.clears}


def _was_cleared(stored_state: Mapping[str, Any], attempt: TaskAttempt) -> bool:
    if attempt.max_tries != stored_state["max_tries"]:
        return True
    max_tries_after_clear = attempt.try_number - 1 + attempt.retries
    return attempt.max_tries == max_tries_after_clear and (attempt.clears or 0) > (stored_state.get("clears") or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestDigests:
    """The digests of a request and of each parameter; see `request_digest`."""

    digest: str
    parameters: Mapping[str, str]


def run_identity(
    context: Context,
    *,
    namespace: str,
    generation: int,
    on_rerun: OnRerun,
    idempotency_key: str | None = None,
    digests: RequestDigests,
) -> RunIdentity:
    """Return the run identity under which this task attempt commits.

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
    for name, attribute in _TIMES_OF_RUN.items():
        time = getattr(dag_run, attribute, None)
        if isinstance(time, datetime):
            details[name] = time.astimezone(UTC).isoformat()
    sibling_affixes: tuple[str, str] | None = None
    if idempotency_key is not None:
        run_app_id = keyed_app_id(namespace, dag_id=ti.dag_id, idempotency_key=idempotency_key)
    else:
        run_app_id = app_id(namespace, dag_id=ti.dag_id, task_id=ti.task_id, map_index=map_index, run_id=ti.run_id)
        if map_index != _NOT_MAPPED:
            before_index, after_index = run_app_id.rsplit(f"/{map_index}/", 1)
            sibling_affixes = (f"{before_index}/", f"/{after_index}")
    return RunIdentity(
        app_id=run_app_id,
        txn_version=0 if on_rerun is OnRerun.SKIP else generation,
        on_rerun=on_rerun,
        details=details,
        generation=generation,
        request_digest=digests.digest,
        parameter_digests=digests.parameters,
        # The other mapped tasks have app ids with this prefix and this suffix.
        sibling_ids=sibling_affixes,
        # Also True before Airflow 3.3, where the DAG run has no `clear_number` and may have been cleared.
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
    """Return the app id under which a task of this Airflow commits, for the ``app_id`` of a sensor.

    Give ``task_id`` and ``run_id`` (and ``map_index``), or ``idempotency_key`` alone. In templates the function is
    ``macros.deltalite.app_id_of``:
    ``app_id="{{ macros.deltalite.app_id_of('load', dag_id='orders_ingest', run_id=run_id) }}"``.

    Raises:
        InvalidRequestError: the arguments do not name one task, or the key is empty.
    """
    namespace = configured_namespace()
    match task_id, run_id, idempotency_key:
        case None, None, str():
            return keyed_app_id(namespace, dag_id=dag_id, idempotency_key=idempotency_key)
        case str(), str(), None:
            return app_id(namespace, dag_id=dag_id, task_id=task_id, map_index=map_index, run_id=run_id)
        case _:
            raise InvalidRequestError(
                "app_id_of: the arguments do not name one task.",
                remedy="Give task_id and run_id, or idempotency_key alone.",
            )


def _escaped(part: str) -> str:
    return part.replace("%", "%25").replace("/", "%2F")

"""Waiting for a version of a table: the one decision that the sensor and its trigger share.

A look asks the log for the commit behind a place and reads on while there are commits; the first one that satisfies the
condition is what was waited for, and its dictionary is the sensor's XCom, whoever looked. Storage that does not answer
is no answer: the place stays, and the next look asks again, until the sensor's timeout. Every other error is raised.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_deltalite.assets._uri import asset_uri
from airflow_provider_deltalite.hooks.delta import DeltaHook
from deltalite.conditions import CommitCondition, Place
from deltalite.errors import StorageError

if TYPE_CHECKING:
    from deltalite.conditions import CommitSummary

_log = logging.getLogger(__name__)
_LONGEST_PAUSE_SECONDS = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionWait:
    """What is waited for: a commit after version `after_version` (-1: any) that satisfies `condition`."""

    table: str
    after_version: int
    condition: CommitCondition
    storage_conn_id: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values that are equal for equal waits, however the table's address is spelled."""
        request = wait_request(self.table, self.condition, self.storage_conn_id)
        return {**request, "after_version": self.after_version}


def wait_request(table: str, condition: CommitCondition, storage_conn_id: str | None) -> dict[str, Any]:
    """What a wait asks for, as plain JSON values; the table by its normalised address.

    Raises:
        InvalidTableAddressError: the address is not usable.
    """
    return {"table": asset_uri(table), "storage_conn_id": storage_conn_id, **condition.as_dict()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What one look saw. `place` is how far it came; `answered` is False where storage was silent."""

    place: Place
    found: dict[str, Any] | None = None
    answered: bool = True


def look(wait: VersionWait, place: Place, hook: DeltaHook) -> Look:
    """Examine the commits behind `place`, by a hook of the table. Blocks for as long as storage does.

    Raises:
        DeltaLiteError: the log or the address is such that looking again would not help.
        AirflowNotFoundException: Airflow gives no connection; whether there is one it does not say.
    """
    from deltalite import watch  # loads pyarrow, which parsing a DAG must not

    try:
        root, seen = hook.ask(lambda store: (store.root, watch.poll(store, place, wait.condition)))
    except StorageError as error:
        if not error.retryable:
            raise
        _log.warning("%s did not answer, and is asked again later: %s", wait.table, error)
        return Look(place=place, answered=False)
    if seen.match is None:
        return Look(place=seen.place)
    _log.info("%s has version %s, made by %s.", root, seen.match.version, seen.match.operation)
    return Look(place=seen.place, found=_as_xcom(wait, root, seen.match, reset=seen.place.remade))


def _as_xcom(wait: VersionWait, root: str, commit: CommitSummary, *, reset: bool) -> dict[str, Any]:
    return {
        "table": root,
        "from_version": 0 if reset else wait.after_version + 1,
        "version": commit.version,
        "after_version": wait.after_version,
        "reset": reset,
        "operation": commit.operation,
        "timestamp": commit.timestamp_ms,
    }


def pause_seconds(poke_interval: float, failed_looks: int) -> float:
    """The pause before the next look: it doubles with each look in a row that storage did not answer, up to a bound."""
    return max(poke_interval, min(_LONGEST_PAUSE_SECONDS, poke_interval * 2.0 ** min(failed_looks, 30)))

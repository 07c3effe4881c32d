"""The log positions that a sensor keeps in Airflow's task state between attempts.

Airflow keys the state of a task by DAG run, task and map index. The same map index may stand for another table in the
next attempt, and a template may render another address. Each kept position is therefore stored with the request that it
belongs to, and a position of another request is not used.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from airflow_provider_deltalite.rendered import record
from deltalite.conditions import Place
from deltalite.errors import InvalidRequestError

_log = logging.getLogger(__name__)


class KeptPlace:
    """One kept log position under one key of the task state store; `state` is None before Airflow 3.3."""

    def __init__(self, state: Any, key: str) -> None:
        self._state = state
        self._key = key

    @property
    def is_available(self) -> bool:
        """Whether this Airflow keeps state for a task."""
        return self._state is not None

    def get(self, request: Mapping[str, Any]) -> Place | None:
        """Return the position that was kept for `request`; None if there is none, or if it belongs to another request.

        Raises:
            InvalidRequestError: the kept value is not a position of this release.
        """
        kept = None if self._state is None else self._state.get(self._key)
        if kept is None:
            return None
        if not isinstance(kept, Mapping) or not isinstance(kept.get("request"), Mapping) or "place" not in kept:
            raise InvalidRequestError(
                f"{self._key} is {kept!r:.300}, not a position with its request.", remedy="Delete the value."
            )
        if dict(kept["request"]) != dict(request):
            _log.warning(
                "Ignoring the saved position %s, which belongs to another request (table %s): the wait for %s starts "
                "again.",
                self._key,
                kept["request"].get("table"),
                request["table"],
            )
            return None
        return record("place", kept["place"], Place)

    def set(self, request: Mapping[str, Any], place: Place) -> None:
        """Keep the position for as long as the DAG run exists; do nothing if Airflow keeps no state for a task."""
        if self._state is None:
            return
        from airflow.sdk import NEVER_EXPIRE  # type: ignore[attr-defined]  # as old as the state store

        self._state.set(self._key, {"request": dict(request), "place": place.as_dict()}, retention=NEVER_EXPIRE)

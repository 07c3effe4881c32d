"""The log positions that a sensor keeps in Airflow's task state between attempts.

Airflow keys the state of a task by DAG run, task and map index. The same map index may stand for another table in the
next attempt, and a template may render another address. Each position is therefore stored with its request, and the
sensor ignores a position of another request.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from airflow_provider_deltalite.saved_position import saved_log_position
from deltalite.conditions import LogPosition
from deltalite.errors import InvalidRequestError

_log = logging.getLogger(__name__)


class StoredPosition:
    """A log position under one key of the task state store; `state` is None before Airflow 3.3."""

    def __init__(self, state: Any, key: str) -> None:
        self._state = state
        self._key = key

    @property
    def is_available(self) -> bool:
        """Whether this Airflow keeps state for a task."""
        return self._state is not None

    def get(self, request: Mapping[str, Any]) -> LogPosition | None:
        """Return the position that was stored for `request`; None if no position was stored.

        `request` is the table, the connection and the conditions of the wait (`wait_request`). A position of another
        request is ignored, with a warning.

        Raises:
            InvalidRequestError: the stored value is not a position of this release.
        """
        value = None if self._state is None else self._state.get(self._key)
        if value is None:
            return None
        if not isinstance(value, Mapping) or not isinstance(value.get("request"), Mapping) or "place" not in value:
            raise InvalidRequestError(
                f"{self._key} is {value!r:.300}, not a position with its request.", remedy="Delete the value."
            )
        if dict(value["request"]) != dict(request):
            _log.warning(
                "Ignoring the saved position %s, which belongs to another request (table %s): the wait for %s starts "
                "again.",
                self._key,
                value["request"].get("table"),
                request["table"],
            )
            return None
        return saved_log_position("place", value["place"])

    def set(self, request: Mapping[str, Any], position: LogPosition) -> None:
        """Store the position for as long as the DAG run exists; do nothing before Airflow 3.3."""
        if self._state is None:
            return
        # Every Airflow that has a task state store also has this constant.
        from airflow.sdk import NEVER_EXPIRE  # type: ignore[attr-defined]

        value = {"request": dict(request), "place": position.as_dict()}
        self._state.set(self._key, value, retention=NEVER_EXPIRE)

"""The status of a wait, for the log and for the message of a timeout.

A process logs the status after its first poll without a match, and then every five minutes. The sensor and its triggers
use the same class. The status names the condition, the version after which the wait begins, the newest version of the
table, and the time of the last poll that storage answered. It also says if the table does not exist.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from deltalite.errors import DeltaLiteError

if TYPE_CHECKING:
    from airflow_provider_deltalite.hooks.delta import DeltaHook
    from airflow_provider_deltalite.waiting import VersionWait

_log = logging.getLogger(__name__)
_INTERVAL_SECONDS = 300.0


class WaitStatus:
    """The status of one wait, as one process knows it."""

    def __init__(self, wait: VersionWait, clock: Callable[[], float] = time.monotonic) -> None:
        self._wait = wait
        self._clock = clock
        self._logged_at: float | None = None
        self._last_poll: datetime | None = None

    def record_poll(self, hook: DeltaHook, *, answered: bool) -> None:
        """Record a poll without a match, and log the status if it is due.

        The method may block, because it reads the newest version for the log line.
        """
        if answered:
            self._last_poll = datetime.now(UTC)
        now = self._clock()
        if self._logged_at is None or now - self._logged_at >= _INTERVAL_SECONDS:
            self._logged_at = now
            _log.info("%s", self.text(hook))

    def text(self, hook: DeltaHook) -> str:
        """Read the newest version of the table and return the status as text, with secrets redacted."""
        from deltalite.redaction import redacted, secret_values

        wait = self._wait
        versions = "at any version" if wait.after_version < 0 else f"after version {wait.after_version}"
        last_poll = "none" if self._last_poll is None else f"{self._last_poll:%Y-%m-%dT%H:%M:%SZ}"
        status = (
            f"Waiting for a commit to {wait.table} {wait.condition}, {versions}. {_newest_version_text(hook)} "
            f"Last answered poll: {last_poll}."
        )
        # The triggerer also logs this line, and its secrets masker does not know the task's secrets.
        return redacted(status, secret_values(wait.as_dict()))


def _newest_version_text(hook: DeltaHook) -> str:
    from deltalite import watch  # loads pyarrow, which DAG parsing must not load

    try:
        version = hook.ask(watch.latest_version)
    except DeltaLiteError as error:
        return f"Could not read the newest version: {error.problem.rstrip('.')}."
    return "The table does not exist." if version < 0 else f"The newest version is {version}."

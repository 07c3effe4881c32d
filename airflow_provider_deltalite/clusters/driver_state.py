"""The state of a driver in a cluster, and the decision when a deferred task stops waiting for the driver.

A trigger polls the driver. `DriverWatch` takes the outcome of each poll and decides, in this order:

1. The driver has ended: the watch ends with `ended`.
2. The driver does not exist, or was on a lost node, in three answers in a row: the watch ends with `ended`.
3. The cluster refuses the request in three polls in a row, or has not answered for 15 minutes: the watch ends with
   `unwatched`, and the worker waits instead.
4. The task has reached its deadline: the watch ends with `timeout`.
5. Otherwise the watch goes on, after a pause that doubles with each failed poll in a row, up to two minutes
   (or the poll interval, if this is longer).

After the end of the watch, a worker resumes the task and decides its outcome. A worker that waits for a pod or for the
job of a service also uses `DriverWatch`, without a deadline.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from deltalite.errors import InvalidRequestError
from deltalite.redaction import redacted

_POLLS_BEFORE_GIVING_UP = 3
_MAX_SILENCE_MS = 15 * 60 * 1000
_LONGEST_PAUSE_SECONDS = 120.0
_JITTER = 0.1  # the share by which a pause may be longer or shorter


class DriverState(StrEnum):
    """The state of a driver."""

    RUNNING = "running"  # or waiting for its start
    ENDED = "ended"
    MISSING = "missing"  # or on a node that does not report its end


class WatchEnd(StrEnum):
    """The reason for which a watch ends. It is the `status` of the trigger's event."""

    ENDED = "ended"
    TIMEOUT = "timeout"
    UNWATCHED = "unwatched"


class WatchedDriver(Protocol):
    """A driver in a cluster. The methods send at most a few requests, and block."""

    def state(self) -> DriverState:
        """Return the state of the driver.

        Raises:
            InvalidRequestError: The cluster refuses the request, or the connection does not name the cluster.
            Exception: The cluster does not answer, or its answer names no state.
        """

    def kill(self) -> None:
        """Kill the driver. The method logs a failure."""


@dataclass(slots=True, kw_only=True)
class DriverWatch:
    """Decides after each poll whether the watch ends. Times are milliseconds UTC.

    :param started_ms: The time at which the watch begins.
    :param poll_interval: Seconds between two polls.
    :param deadline_ms: The time at which the task times out; None if it has no `execution_timeout`.
    """

    started_ms: int
    poll_interval: float
    deadline_ms: int | None = None
    failed_polls: int = 0  # in a row
    error_text: str = ""
    _refusals: int = 0  # in a row
    _missing_polls: int = 0  # in a row, apart from failed polls
    _answered_ms: int | None = None

    def end_by_deadline(self, now_ms: int) -> WatchEnd | None:
        """Return `timeout` if the task has reached its deadline."""
        return WatchEnd.TIMEOUT if self.deadline_ms is not None and now_ms >= self.deadline_ms else None

    def record_state(self, state: DriverState, now_ms: int) -> WatchEnd | None:
        """Record an answer of the cluster, and return the reason to end the watch if there is one."""
        self._answered_ms, self._refusals, self.failed_polls = now_ms, 0, 0
        match state:
            case DriverState.RUNNING:
                self._missing_polls = 0
                return self.end_by_deadline(now_ms)
            case DriverState.ENDED:
                return WatchEnd.ENDED
            case DriverState.MISSING:
                self._missing_polls += 1
                if self._missing_polls >= _POLLS_BEFORE_GIVING_UP:
                    return WatchEnd.ENDED
                return self.end_by_deadline(now_ms)

    def record_failure(self, error: Exception, now_ms: int) -> WatchEnd | None:
        """Record a failed poll, and return the reason to end the watch if there is one."""
        self.failed_polls += 1
        self._refusals = self._refusals + 1 if isinstance(error, InvalidRequestError) else 0
        self.error_text = redacted(str(error))
        if self._answered_ms is None:
            self._answered_ms = self.started_ms
        is_silent = now_ms - self._answered_ms >= _MAX_SILENCE_MS
        if is_silent or self._refusals >= _POLLS_BEFORE_GIVING_UP:
            return WatchEnd.UNWATCHED
        return self.end_by_deadline(now_ms)

    def pause_seconds(self, now_ms: int, random_share: float) -> float:
        """Return the seconds to pause before the next poll. The pause ends at the deadline at the latest.

        :param random_share: A random number from 0 to 1. It spreads the polls of tasks that began together.
        """
        longest = max(self.poll_interval, _LONGEST_PAUSE_SECONDS)
        pause = min(longest, self.poll_interval * 2.0 ** min(self.failed_polls, 30))
        pause *= 1 - _JITTER + 2 * _JITTER * random_share
        if self.deadline_ms is None:
            return pause
        return max(0.0, min(pause, (self.deadline_ms - now_ms) / 1000))

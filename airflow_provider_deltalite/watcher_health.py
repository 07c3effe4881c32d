"""The health of a watcher: Airflow metrics, and log lines for repeated failures.

A watcher never ends, so only its metrics and its log show a lasting failure. The metrics have the name of the asset as
a tag. The first failure is logged as a warning. The 2nd, 4th, 8th, ... failure in a row is logged as an error. The
first success after failures is logged too.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)
_POLLS = "deltalite.watcher.polls"
_FAILURES = "deltalite.watcher.failures"
_LAG = "deltalite.watcher.lag_versions"


class WatcherHealth:
    """The health of one watcher; `asset` is the name of the watched asset."""

    def __init__(self, asset: str) -> None:
        self._asset = asset
        self._failures = 0

    def count_poll(self) -> None:
        """Count a poll, or another read of the table, that storage answered."""
        self._report("incr", _POLLS)
        self.reset_failures()

    def reset_failures(self) -> None:
        """Reset the number of failures in a row, and log the recovery if there were any."""
        if self._failures:
            from deltalite.sizes import counted

            _log.info("Watching %s again after %s.", self._asset, counted(self._failures, "failure"))
        self._failures = 0

    def count_failure(self, action: str, error: Exception) -> int:
        """Count a failure of `action`, log it if it is due, and return the number of failures in a row."""
        self._report("incr", _FAILURES)
        self._failures += 1
        if self._failures & (self._failures - 1) == 0:
            from deltalite.redaction import redacted
            from deltalite.sizes import counted

            level = logging.WARNING if self._failures == 1 else logging.ERROR
            _log.log(
                level,
                "Could not %s for the watcher of %s, %s in a row; retrying: %s: %s",
                action,
                self._asset,
                counted(self._failures, "failure"),
                type(error).__name__,
                redacted(str(error)),
            )
        return self._failures

    def report_lag(self, versions: int) -> None:
        """Report how many known versions this watcher has not handled yet."""
        self._report("gauge", _LAG, max(0, versions))

    def _report(self, method: str, metric: str, *value: int) -> None:
        try:
            _metrics_function(method)(metric, *value, tags={"asset": self._asset})
        except Exception:  # noqa: BLE001  a failed metric must not end the watcher
            _log.debug("Could not report the metric %s of %s.", metric, self._asset, exc_info=True)


def _metrics_function(method: str) -> Callable[..., Any]:
    """Return a function of Airflow's metrics.

    The task SDK has its own copy of the metrics module, but the triggerer does not initialize that copy.
    """
    try:
        stats: Any = import_module("airflow.observability.stats")
    except ImportError:  # Airflow before 3.3 has no such module
        from airflow.stats import Stats

        stats = Stats
    function: Callable[..., Any] = getattr(stats, method)
    return function

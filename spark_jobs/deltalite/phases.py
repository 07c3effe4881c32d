"""The phases of a job, and the seconds that it spends in each.

A job is in one phase at a time. The code that begins the next phase ends the phase before. A job that commits several
times returns to earlier phases, and the record has their sums. So the record has at most one number for each phase.
Standard library only.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from enum import StrEnum


class Phase(StrEnum):
    """A phase of a job. The how-to "See tables in Airflow" describes the phases to users."""

    START = "start"
    """From the start of the driver until the Spark session is open."""
    PLAN = "plan"
    """Reads the log and schemas, checks the request, and finds touched files. Also all work that has no other phase."""
    WRITE = "write"
    """Computes rows, and writes files: data files, deletion vectors, or the checkpoint or manifests of a request."""
    AUDIT = "audit"
    """Examines rows by audits."""
    DELETE = "delete"
    """Deletes the files that a vacuum has planned."""
    MAINTAIN = "maintain"
    """Runs the due steps of many tables. The steps run in parallel, so they have no phases."""
    COMMIT = "commit"
    """Writes a version to the log, and checks winning commits. After a conflict, waits for the next attempt."""
    AFTER_COMMIT = "after_commit"
    """Writes checksum and checkpoint, cleans the log, and removes temporary files."""


class PhaseRecord:
    """Adds up the seconds of each phase. The record begins in the phase `start`.

    Only calls of the thread that began the record change it. Phases of parallel threads overlap, so their sum would be
    longer than the job.
    """

    def __init__(self, *, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self.restart()

    def restart(self) -> None:
        """Forget all phases, and begin the phase `start` in this thread."""
        self._thread = threading.get_ident()
        self._seconds: dict[Phase, float] = {}
        self._phase = Phase.START
        self._since_s = self._clock_s()

    @property
    def phase(self) -> Phase:
        """The current phase."""
        return self._phase

    def begin(self, phase: Phase) -> None:
        """End the current phase, and begin another one. A call from another thread changes nothing."""
        if threading.get_ident() != self._thread:
            return
        now_s = self._clock_s()
        self._seconds[self._phase] = self._seconds.get(self._phase, 0.0) + now_s - self._since_s
        self._phase, self._since_s = phase, now_s

    def end_start(self, driver_age_s: float | None) -> None:
        """End the phase `start`, and begin the phase `plan`.

        `driver_age_s` is the time since the start of the driver in seconds, None if unknown. The driver may be older
        than the record.
        """
        self.begin(Phase.PLAN)
        self._seconds[Phase.START] = max(self._seconds[Phase.START], driver_age_s or 0.0)

    def seconds(self) -> dict[str, float]:
        """Return the seconds of each phase until now, rounded to milliseconds, in the order of `Phase`.

        A phase that has not begun is missing.
        """
        self.begin(self._phase)
        return {str(phase): round(self._seconds[phase], 3) for phase in Phase if phase in self._seconds}


PHASES = PhaseRecord()
"""The record of this process, which runs one job. Outside of a job nobody reads it."""

"""The CPU time of a real triggerer whose triggers wait."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import psutil

from tests.support.airflow_processes import WholeAirflow


def cpu_seconds(process: psutil.Process) -> float:
    """Return the sum of the user and system times of a process and its descendants."""
    times = [member.cpu_times() for member in (process, *process.children(recursive=True))]
    return sum(cpu_times.user + cpu_times.system for cpu_times in times)


def share_of_a_core(
    airflow: WholeAirflow, triggers: int, seconds: float, *, end_waits: Callable[[], object] = lambda: None
) -> float:
    """Start a triggerer with this number of triggers, and return its CPU time per second.

    After the measurement, this function calls `end_waits` and waits until no trigger runs. This shows that the triggers
    waited and were not stuck. Without triggers, leave `end_waits` out.
    """
    log = airflow.process_logs / "triggerer.log"
    log.unlink(missing_ok=True)

    def trigger_counts() -> list[str]:
        """Return the numbers of running triggers, which the triggerer logs once a minute."""
        return re.findall(r"(\d+) triggers currently running", log.read_text(errors="replace"))

    airflow.start("triggerer")
    try:
        airflow.until("all triggers run", lambda: trigger_counts()[-1:] == [str(triggers)], timeout=300)
        # The measurement begins 20 seconds later, so that the share does not include the cost of the start.
        time.sleep(20)
        before, started = cpu_seconds(airflow.process("triggerer")), time.monotonic()
        time.sleep(seconds)
        share = (cpu_seconds(airflow.process("triggerer")) - before) / (time.monotonic() - started)
        end_waits()
        airflow.until("all triggers have ended", lambda: trigger_counts()[-1:] == ["0"], timeout=300)
    finally:
        airflow.stop("triggerer")
    return share

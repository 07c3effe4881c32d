"""Draws where a small append spends its time, from the operator to its result, beside an empty `spark-submit`.

Run `make timeline` on an idle machine. The script runs each side in turns, and writes the medians to
`task_timeline.json` and the picture to `docs/_static/task.svg`. It reads the start of the JVM and of the
driver's Python from `/proc`, and the later steps from the phases in the result.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from bench_start import EMPTY_SCRIPT, FOLDER, append, make_class_archive, submit_empty_job
from machine import machine
from process_tree import process_tree
from turns import time_in_turns

from benchmarks.timeline_picture import PICTURE, RESULTS, STEPS, draw
from deltalite.phases import Phase

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 5


class ProcessWatch:
    """Finds the times at which the JVM of `spark-submit` and the driver's Python started. Use it as a context manager.

    It looks for both among the descendants of this process, every few milliseconds.
    """

    def __init__(self, script: str) -> None:
        self._script = script
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.jvm_s: float | None = None
        self.python_s: float | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while self.python_s is None and not self._ended.wait(0.005):
            for pid in process_tree(os.getpid()):
                try:
                    program = Path(f"/proc/{pid}/comm").read_text().strip()
                    command = Path(f"/proc/{pid}/cmdline").read_text()
                except OSError:
                    continue
                is_spark_submit = "spark.deploy.SparkSubmit" in command and "spark.launcher.Main" not in command
                if program == "java" and is_spark_submit and self.jvm_s is None:
                    self.jvm_s = time.perf_counter()
                if program.startswith("python") and self._script in command:
                    self.python_s = time.perf_counter()


def steps_of(script: str, run: Callable[[], Mapping[str, float]]) -> dict[str, float]:
    """Run a task or a script, and return the seconds of each step.

    `script` is the name of the script that the driver runs. `run` returns the phases of the job, if any.
    """
    start_s = time.perf_counter()
    with ProcessWatch(script) as watch:
        phases = dict(run())
    end_s = time.perf_counter()
    if watch.jvm_s is None or watch.python_s is None:
        raise SystemExit("Found no JVM or no Python of a driver.")
    steps = {"submit": watch.jvm_s - start_s, "jvm": watch.python_s - watch.jvm_s}
    if not phases:  # the empty script has no phases, so its last step includes the stop of Spark
        return steps | {"session": end_s - watch.python_s}
    session_s = watch.jvm_s + phases.pop(Phase.START)
    later_s = sum(phases.values())
    return steps | {"session": session_s - watch.python_s} | phases | {"stop": end_s - session_s - later_s}


def measure() -> dict[str, dict[str, float]]:
    """Return the median seconds of each step, by side. The first round does not count."""
    rounds: dict[str, list[dict[str, float]]] = {}

    def runner(side: str, script: str, run: Callable[[], Mapping[str, float]]) -> Callable[[], None]:
        return lambda: rounds.setdefault(side, []).append(steps_of(script, run))

    def run_empty_job() -> dict[str, float]:
        submit_empty_job()
        return {}

    sides = {
        "append, with a class archive": ("write.py", lambda: append("use")["phases"]),
        "append, without an archive": ("write.py", lambda: append("off")["phases"]),
        "empty spark-submit": (EMPTY_SCRIPT.name, run_empty_job),
    }
    time_in_turns({side: runner(side, *script_and_run) for side, script_and_run in sides.items()}, rounds=ROUNDS)
    return {
        side: {step: round(statistics.median(seconds[step] for seconds in runs[1:]), 3) for step in runs[0]}
        for side, runs in rounds.items()
    }


def main() -> None:
    """Measure, and write the results and the picture."""
    make_class_archive()
    sides = measure()
    shutil.rmtree(FOLDER)
    results = {"machine": machine(), "date": datetime.now(tz=UTC).date().isoformat(), "seconds": sides}
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    draw(PICTURE)
    for side, steps in sides.items():
        print(f"{side}: {sum(steps.values()):.1f} s", ", ".join(f"{STEPS[name]} {s:.2f}" for name, s in steps.items()))


if __name__ == "__main__":
    main()

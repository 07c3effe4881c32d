"""The CPU time to parse each example DAG, compared with the import of Airflow that every DAG file needs.

The benchmark parses each example five times in forks of a process that has loaded Airflow, and takes the lowest CPU
time. Airflow and the examples are compiled again each time, so that cached bytecode does not affect the result. The
target is 50 ms on a machine that imports Airflow in two seconds.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
TARGET = 0.050 / 2.0
PARSE_PROGRAM = """
import gc, os, runpy, sys, time
started = time.process_time()
from airflow.sdk import DAG, Connection, Variable, chain, task, task_group
from airflow.timetables.interval import CronDataIntervalTimetable
from airflow.dag_processing import processor
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.common.compat.sdk import BaseHook, BaseSensorOperator
from airflow.triggers.base import BaseEventTrigger
task(lambda: None)  # Airflow loads its decorators at the first use
airflow_s = time.process_time() - started
gc.collect()
gc.freeze()  # a later collection must not scan the objects of Airflow

def parse_in_fork(path):
    # Return the CPU seconds that a new process needs to parse a DAG file.
    read_end, write_end = os.pipe()
    if os.fork() == 0:
        started = time.process_time()
        try:
            runpy.run_path(path)
            os.write(write_end, str(time.process_time() - started).encode())
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        seconds = pipe.read()
    os.wait()
    return float(seconds)

for path in sys.argv[1:]:
    print("parsed", path, airflow_s, min(parse_in_fork(path) for _ in range(5)))
"""


def main() -> None:
    """Print a line for each example, the most expensive first."""
    examples = sorted((CHECKOUT / "example_dags").glob("*.py"))
    output = subprocess.run(
        [sys.executable, "-c", PARSE_PROGRAM, *map(str, examples)],
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    measurements = [line.split()[1:] for line in output.splitlines() if line.startswith("parsed ")]
    print(f"{'example':<28} {'parse':>8} {'Airflow':>8} {'ratio':>7} {'target':>7}")
    for path, airflow_s, parse_s in sorted(measurements, key=lambda measurement: -float(measurement[2])):
        ratio = float(parse_s) / float(airflow_s)
        verdict = "" if ratio <= TARGET else "  OVER"
        times = f"{float(parse_s) * 1000:>6.0f}ms {float(airflow_s):>7.2f}s"
        print(f"{Path(path).stem:<28} {times} {ratio:>7.4f} {TARGET:>7.4f}{verdict}")


if __name__ == "__main__":
    main()

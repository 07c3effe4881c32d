"""One job that maintains 200 small tables, compared with a job for each table.

Each table has 12 small files that an optimize packs. Both sides only optimize, and submit their jobs with
`spark-submit` to `local[2]`, as a worker does. A job for each table takes about the same time, so the benchmark
measures some of these jobs (`DELTALITE_BENCH_SEPARATE`, 20) and multiplies their mean by the number of tables
(`DELTALITE_BENCH_TABLES`, 200). It also compares one job with the separate jobs on the same number of tables, without
a multiplication: set both numbers to 200 to measure 200 separate jobs, which takes about half an hour. One job for many
tables runs before the separate jobs, and one runs after them. If the two ratios differ, the load of the machine has
changed in the meantime. The target for all tables is a ratio of at most 0.1. Airflow's time for each task does not
count.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable as DeltaRsTable
from deltalake import write_deltalake

from deltalite import jobs
from deltalite.requests import CommitRequest, MaintainRequest, OptimizeRequest, RunIdentity

SEPARATE = int(os.environ.get("DELTALITE_BENCH_SEPARATE", "20"))
TABLES = int(os.environ.get("DELTALITE_BENCH_TABLES", "200"))
FILES = 12
TARGET_RATIO = 0.1
FOLDER = Path(".benchmarks").resolve() / "lake-maintenance"
JOBS = Path(next(iter(jobs.__path__)))
BIN = Path(sys.executable).parent


def make_lake(name: str, count: int) -> list[Path]:
    """Make a lake with this number of tables, and return the folders of the tables."""
    lake, first_table = FOLDER / name, FOLDER / "first-table"
    shutil.rmtree(lake, ignore_errors=True)
    if not first_table.exists():
        for number in range(FILES):
            write_deltalake(first_table, pa.table({"id": [*range(number * 1000, number * 1000 + 1000)]}), mode="append")
    tables = [lake / f"table-{number:03}" for number in range(count)]
    for table in tables:
        shutil.copytree(first_table, table)
    return tables


def submit(job: str, request: CommitRequest) -> float:
    """Run a job, and return its seconds.

    Raises:
        CalledProcessError: the job failed.
    """
    request_file = FOLDER / "request.json"
    request_file.write_text(request.to_json())
    command = [BIN / "spark-submit", "--master", "local[2]", "--conf", "spark.ui.enabled=false",
               "--driver-memory", "2g", JOBS / f"{job}.py", request_file]  # fmt: skip
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "PYSPARK_PYTHON": sys.executable})
    return time.perf_counter() - started


def maintain(tables: Sequence[Path]) -> float:
    """Optimize the tables in one job, and return its seconds."""
    return submit(
        "maintain",
        MaintainRequest(
            pattern=f"{tables[0].parent}/*",
            checkpoint=False,
            vacuum=False,
            identity=RunIdentity(app_id="bench/dag/maintain/-1/run"),
        ),
    )


def check_optimized(tables: Sequence[Path]) -> None:
    """Check that each table has one file. Raises `AssertionError` if one has more."""
    for table in tables:
        if (count := len(DeltaRsTable(str(table)).file_uris())) != 1:
            raise AssertionError(f"{table} has {count} files")


def main() -> None:
    """Print the seconds of both sides, and their ratios."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    separate_tables, few_tables, all_tables = (
        make_lake("separate", SEPARATE),
        make_lake("few", SEPARATE),
        make_lake("all", TABLES),
    )
    few_s = maintain(few_tables)
    seconds = []
    for number, table in enumerate(separate_tables):
        identity = RunIdentity(app_id=f"bench/dag/optimize/{number}/run")
        seconds.append(submit("optimize", OptimizeRequest(table=str(table), identity=identity)))
    all_s = maintain(all_tables)
    for tables in (separate_tables, few_tables, all_tables):
        check_optimized(tables)
    mean_s = sum(seconds) / len(seconds)
    ratio = all_s / (mean_s * TABLES)
    print(f"{SEPARATE} tables, a job each: {sum(seconds):.1f} s, {mean_s:.2f} s for a job")
    print(f"{SEPARATE} tables, one job: {few_s:.1f} s, ratio {few_s / sum(seconds):.3f}")
    print(f"{TABLES} tables, one job: {all_s:.1f} s")
    print(
        f"{TABLES} tables: ratio {ratio:.3f}, target {TARGET_RATIO}{'' if ratio <= TARGET_RATIO else '  OVER'} "
        f"(a job each: {mean_s * TABLES:.0f} s, multiplied from {SEPARATE} jobs)"
    )


if __name__ == "__main__":
    main()

"""A small append and a small merge as whole tasks, from the operator to its result.

The append runs with and without an archive of Spark's classes, and the merge with an archive. The peer is a
`spark-submit` of an empty session on the same machine. Each side is a new process of Spark, and the sides run in turns.
The archive is made in a temporary folder before the first round.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from measuring import TimedPair, print_table

FOLDER = tempfile.mkdtemp(prefix="deltalite-start-")
tempfile.tempdir = FOLDER
os.environ |= {
    "AIRFLOW_HOME": f"{FOLDER}/airflow",
    "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
    "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[2]"}',
    "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
    "PYSPARK_PYTHON": sys.executable,
    "SPARK_LOCAL_IP": "127.0.0.1",
}
os.environ.pop("SPARK_SUBMIT_OPTS", None)

from airflow_provider_deltalite.operators.delta import (  # noqa: E402  Airflow reads the environment
    DeltaMergeOperator,
    DeltaWriteOperator,
)
from deltalite.installation.class_archive_making import make_archive  # noqa: E402

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 3
_RUN_IDS = map(str, itertools.count())  # each run is a new one, so no append is skipped
SOURCE = {"format": "text", "path": __file__}
EMPTY_SCRIPT = Path(FOLDER, "empty.py")
EMPTY_JOB = "from pyspark.sql import SparkSession\nSparkSession.builder.getOrCreate().stop()\n"


def append(setting: str) -> dict[str, Any]:
    """Append one row in a task, and return its result. `setting` is `[deltalite] class_archive`."""
    task = DeltaWriteOperator(task_id="append", table=f"{FOLDER}/table", source=SOURCE, query="SELECT 1 AS id")
    return run(task, setting)


def merge(setting: str) -> dict[str, Any]:
    """Merge 1,000 rows in a task, and return its result. The first merge adds the rows, and later ones update them."""
    task = DeltaMergeOperator(
        task_id="merge",
        table=f"{FOLDER}/merged",
        source=SOURCE,
        query="SELECT id, uuid() AS text FROM range(1000)",
        on="target.id = source.id",
        when_matched=[{"update": "*"}],
        when_not_matched=[{"insert": "*"}],
        create_if_missing=True,
        properties={"delta.enableDeletionVectors": "true"},
    )
    return run(task, setting)


def run(task: DeltaWriteOperator | DeltaMergeOperator, setting: str) -> dict[str, Any]:
    """Run a task in a new DAG run, and return its result."""
    os.environ["AIRFLOW__DELTALITE__CLASS_ARCHIVE"] = setting
    ti = SimpleNamespace(
        dag_id="bench",
        task_id=task.task_id,
        run_id=next(_RUN_IDS),
        map_index=-1,
        try_number=1,
        max_tries=0,
        stats_tags={},
    )
    dag_run = SimpleNamespace(start_date=datetime.fromtimestamp(0, tz=UTC))
    return task.execute({"ti": ti, "dag_run": dag_run, "outlet_events": defaultdict(SimpleNamespace)})


def submit_empty_job() -> None:
    """Run `spark-submit` with a script that opens a session and stops it."""
    EMPTY_SCRIPT.write_text(EMPTY_JOB)
    subprocess.run(["spark-submit", "--master", "local[2]", str(EMPTY_SCRIPT)], check=True, capture_output=True)


def make_class_archive() -> None:
    """Make the archive of Spark's classes. Exit if this is impossible."""
    archive = make_archive("spark-submit", os.environ)
    if archive is None:
        raise SystemExit("Made no archive.")
    print(f"made an archive of {archive.size_bytes / 2**20:.0f} MiB in {archive.seconds or 0:.0f} s")


def main() -> None:
    """Measure the sides, and print a table."""
    make_class_archive()
    pairs = [
        TimedPair(name="small append with an archive", peer="without an archive", target=0.7),
        TimedPair(name="small append with an archive", peer="empty spark-submit", target=0.7),
        TimedPair(name="small merge with an archive", peer="empty spark-submit", target=1.1),
    ]
    pairs[0].run(lambda: append("use"), lambda: append("off"), rounds=ROUNDS)
    pairs[1].run(lambda: append("use"), submit_empty_job, rounds=ROUNDS)
    pairs[2].run(lambda: merge("use"), submit_empty_job, rounds=ROUNDS)
    print_table(pairs)
    shutil.rmtree(FOLDER)


if __name__ == "__main__":
    main()

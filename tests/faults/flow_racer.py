"""One of several jobs that load one source into the same targets: a process that runs loads in turn.

Each turn runs two flows, each with a limit of versions: an append of changed rows, and a merge that adds the changes to
a balance. A change that is loaded twice or left out therefore changes the rows of both targets. All jobs begin each
load at the same time, so nearly every commit has a concurrent one. In some turns all jobs have the same run identity,
like the job of a lost task attempt and the job of its retry. The last turn loads all remaining versions.

The program uses the JVM of the tests (`attached_session`), or begins a Spark application:

    spark-submit tests/faults/flow_racer.py <file with the parameters of `main` as JSON>
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from random import Random

from pyspark.sql import SparkSession

from deltalite.errors import ConcurrentModificationException
from tests.faults.crash_site import attached_session
from tests.support.flows import append_new, merge_balances
from tests.support.spark_settings import ONE_TASK

_ROWS = "SELECT id, x, _change_type AS change, _commit_version AS version FROM source"
_PAUSE_S = 0.01


def append_changes(spark, folder, **options):
    """Append the changed rows with their versions."""
    return append_new(spark, folder / "changes", folder / "source", query=_ROWS, **options)


def merge_changes(spark, folder, **options):
    """Add the changes of each id to its balance."""
    return merge_balances(spark, folder / "balances", folder / "source", **options)


def main(folder, number, jobs, turns, seed, max_versions, *, shares_jvm):
    """Run loads of the `source` in the folder.

    Args:
        folder: the path of the folder with the tables.
        number: the number of this job, from 0.
        jobs: the number of all jobs.
        turns: the number of turns.
        seed: the seed of the random choices that all jobs share: the order of the flows, and the turns with one run
            identity.
        max_versions: the highest limit of the versions of one load.
        shares_jvm: whether the job uses the JVM of the tests. If it does not, `spark-submit` has started a JVM for it.
    """
    folder, random, limits = Path(folder), Random(seed), Random(seed * 100 + number)
    spark = attached_session() if shares_jvm else SparkSession.builder.getOrCreate()
    for name, value in ONE_TASK.items():
        spark.conf.set(name, value)
    loads = [append_changes, merge_changes]
    for turn in range(turns):
        random.shuffle(loads)
        run = f"run {turn}" if random.random() < 1 / 3 else f"run {turn} of job {number}"
        is_last = turn == turns - 1
        for load in loads:
            limit = None if is_last else limits.randint(1, max_versions)
            wait_for_all(folder, f"{turn} {load.__name__}", number, jobs)
            load_until_committed(load, spark, folder, run=run, options={"read": "changes", "max_versions": limit})
    if not shares_jvm:
        spark.stop()


def load_until_committed(load, *arguments, **options):
    """Run a load, and run it again if it meets too many conflicts, as a retry of its task does."""
    while True:
        try:
            load(*arguments, **options)
        except ConcurrentModificationException:
            continue
        return


def wait_for_all(folder, moment, number, jobs):
    """Wait until all jobs have reached a moment. The test ends this process if another job never does."""
    (folder / f"{moment} {number}").touch()
    while not all((folder / f"{moment} {other}").exists() for other in range(jobs)):
        time.sleep(_PAUSE_S)


if __name__ == "__main__":
    main(**json.loads(Path(sys.argv[1]).read_text()))

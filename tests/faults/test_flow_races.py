"""Several jobs run the same flows at the same time, while a writer changes their source: each version is loaded once.

Each job is a separate process. In the campaign it is a Spark application, as `spark-submit` runs it; otherwise it
shares the JVM of the tests, because a JVM takes seconds to start. The checks read the files of the targets and of the
source without the code of flows (`tests.support.flow_history`).
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from tests.faults import flow_racer
from tests.faults.crash_site import environment_of_program
from tests.faults.flow_racer import append_changes, merge_changes
from tests.support.flow_history import (
    check_balances_once,
    check_changes_once,
    check_no_other_files,
    commits_of,
    load_commits,
    run_counts,
)
from tests.support.properties import FEED
from tests.support.submitting import submit_command
from tests.support.tables import delete_rows, update_rows, values, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("quick_plans")]
_MAX_VERSIONS_OF_SOURCE = 400


class SourceWriter:
    """Changes the source at random: appends, updates and deletes."""

    def __init__(self, spark, source, seed):
        self.spark, self.source, self.random, self.next_id = spark, source, Random(seed), 0
        self.append()

    def append(self):
        ids = range(self.next_id, self.next_id + self.random.randint(1, 4))
        self.next_id = ids.stop
        new_rows = (f"{number}, {self.random.randint(1, 9)}" for number in ids)
        write_rows(self.spark, self.source, values("id, x", *new_rows), properties=FEED)

    def change(self):
        """Write one version: most are appends."""
        condition = f"id % {self.random.randint(2, 5)} = 0"
        kind = self.random.random()
        if kind < 0.2:
            update_rows(self.spark, self.source, {"x": "x + 1"}, condition)
        elif kind < 0.3:
            delete_rows(self.spark, self.source, condition)
        else:
            self.append()


def start_jobs(folder, jobs, shared_spark, **arguments):
    """Start the jobs, and return their processes.

    The jobs share the JVM of the session `shared_spark`. If it is None, each job starts a JVM.
    """
    environment, shares_jvm = environment_of_program(shared_spark), shared_spark is not None
    processes = []
    for number in range(jobs):
        job_folder = folder / f"job {number}"
        job_folder.mkdir()
        parameters = json.dumps(
            {"folder": str(folder), "number": number, "jobs": jobs, "shares_jvm": shares_jvm, **arguments}
        )
        command = submit_command(job_folder, parameters, script=Path(flow_racer.__file__), conf=JOB_SETTINGS)
        if shares_jvm:
            command = [sys.executable, *command[-2:]]
        with output_of(folder, number).open("w") as output:
            processes.append(
                subprocess.Popen(command, cwd=job_folder, env=environment, stdout=output, stderr=subprocess.STDOUT)
            )
    return processes


def output_of(folder, number):
    return folder / f"job {number}" / "output"


JOB_SETTINGS = {
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.ui.showConsoleProgress": "false",
}


@pytest.mark.parametrize(
    ("seed", "jobs", "turns", "max_versions"),
    [
        (1, 2, 2, 1),
        *(pytest.param(seed, 2 + seed % 3, 12, 1 + seed % 5, marks=pytest.mark.campaign) for seed in range(2, 8)),
    ],
)
def test_jobs_that_run_the_same_flows_load_each_version_once(
    spark, tmp_path, pytestconfig, seed, jobs, turns, max_versions
):
    """The writer changes the source until the jobs have ended. Last loads then bring the remaining versions.

    With an even seed, the jobs also race for the creation of the targets.
    """
    source, targets = tmp_path / "source", {append_changes: tmp_path / "changes", merge_changes: tmp_path / "balances"}
    writer = SourceWriter(spark, source, seed)
    if seed % 2:
        for load in targets:
            load(spark, tmp_path, run="the first run", options={"read": "changes"})
    for _ in range(jobs * turns * max_versions):
        writer.change()
    shared_spark = None if pytestconfig.getoption("--campaign") else spark
    processes = start_jobs(tmp_path, jobs, shared_spark, turns=turns, seed=seed, max_versions=max_versions)
    try:
        while any(process.poll() is None for process in processes):
            if len(list(commits_of(source))) < _MAX_VERSIONS_OF_SOURCE:
                writer.change()
            time.sleep(2 * writer.random.random())
            assert not any(process.poll() for process in processes), [
                output_of(tmp_path, number).read_text()[-3000:] for number in range(jobs)
            ]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    for load in targets:
        load(spark, tmp_path, run="the last run", options={"read": "changes"})
    check_changes_once(targets[append_changes], source)
    check_balances_once(targets[merge_changes], source)
    for table in targets.values():
        check_no_other_files(table)
        assert set(run_counts(table).values()) == {1}
        assert len(load_commits(table)) == sum(run_counts(table).values())

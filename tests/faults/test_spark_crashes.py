"""Each test kills a command at file changes and runs it again. The rows must change exactly once.

The changes are `MOVES`, `CHANGES`, or the first file that matches a pattern. Outside the campaign a test kills at a
sample of them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time

import pytest

from tests.faults.crash_site import CHANGES, MOVES
from tests.faults.killing import check_whole, count_commits_of_run, json_links, kill_at_steps
from tests.support.properties import FEED, VECTORS
from tests.support.selection import sampled
from tests.support.submitting import submit_command
from tests.support.tables import request, sorted_rows, values, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]

RUN = "airflow/dag/task/-1/manual"
OLD_ROWS = [(1, "a"), (2, "a"), (50, "b")]
NEW_ROWS = [(7, "a"), (8, "c")]
MODES = {
    "append": ({}, [*OLD_ROWS, *NEW_ROWS], MOVES),
    "an append with audits": (
        {"audits": [{"name": "no id", "rows": "id IS NULL"}, {"name": "ids", "unique": ["id"]}]},
        [*OLD_ROWS, *NEW_ROWS],
        MOVES,
    ),
    "overwrite": ({"mode": "overwrite"}, NEW_ROWS, MOVES),
    "the partitions written": ({"mode": "overwrite", "partition_overwrite": "dynamic"}, [(50, "b"), *NEW_ROWS], MOVES),
    "rows that match": (
        {"mode": "overwrite", "replace_where": "id < 2 OR id BETWEEN 7 AND 8"},
        [(2, "a"), (50, "b"), *NEW_ROWS],
        MOVES,
    ),
    "ignore": ({"mode": "ignore"}, OLD_ROWS, CHANGES),
}
"""For each case: options of the request, the resulting rows, and the kinds of steps at which the test kills."""
ROW_COMMANDS = {
    "delete": ({"condition": "id IN (1, 50)"}, [(2, "a")]),
    "update": ({"condition": "id IN (1, 50)", "values": {"id": "id + 10"}}, [(2, "a"), (11, "a"), (60, "b")]),
}
"""The arguments of each command that changes rows, and the resulting rows."""


def query_for(rows):
    """A query for these rows that writes one file for each partition."""
    return values("id, day", *[str(row)[1:-1] for row in rows]).replace("SELECT", "SELECT /*+ COALESCE(1) */")


@pytest.mark.campaign
@pytest.mark.parametrize("mode", MODES)
def test_a_write_survives_kills_at_file_changes(spark_site, spark, tmp_path, mode):
    options, rows_after, kinds = MODES[mode]
    template = tmp_path / "template"
    write_rows(
        spark, template, query_for(OLD_ROWS), partition_by=("day",), properties={"delta.checkpointInterval": "1"}
    )
    arguments = {"query": query_for(NEW_ROWS), "run": RUN, **options}
    steps = kill_at_steps(
        spark_site,
        tmp_path,
        template,
        "write",
        rows_before=OLD_ROWS,
        rows_after=sorted_rows(rows_after),
        kinds=kinds,
        **arguments,
    )
    assert len(json_links(steps)) == 1
    moved_file_count = sum(step.startswith("os.rename") and "/day=" in step for step in steps)
    assert moved_file_count == {"ignore": 0, "rows that match": 3}.get(mode, 2)


@pytest.mark.parametrize(
    "properties",
    [{}, FEED, VECTORS, FEED | VECTORS],
    ids=["plain", "feed", "vectors", "both"],
)
@pytest.mark.parametrize("command", ROW_COMMANDS)
@pytest.mark.campaign
def test_a_row_command_survives_kills_at_file_changes(spark_site, spark, tmp_path, command, properties):
    arguments, rows_after = ROW_COMMANDS[command]
    template = tmp_path / "template"
    properties = properties | {"delta.checkpointInterval": "1"}
    write_rows(spark, template, query_for(OLD_ROWS), partition_by=("day",), properties=properties)
    # A delete writes deletion vectors in place and moves no file, so the test kills it at CHANGES.
    writes_vectors = VECTORS.items() <= properties.items() and command == "delete"
    kinds = CHANGES if writes_vectors else MOVES
    steps = kill_at_steps(
        spark_site,
        tmp_path,
        template,
        command,
        rows_before=OLD_ROWS,
        rows_after=sorted_rows(rows_after),
        kinds=kinds,
        run=RUN,
        **arguments,
    )
    assert len(json_links(steps)) == 1
    if writes_vectors:
        assert any("deletion_vector" in step for step in steps)


def test_the_first_write_of_a_table_survives_kills_at_file_changes(spark_site, tmp_path):
    arguments = {"query": query_for(NEW_ROWS), "run": RUN, "mode": "error", "partition_by": ("day",)}
    steps = kill_at_steps(
        spark_site,
        tmp_path,
        None,
        "write",
        rows_before=None,
        rows_after=sorted_rows(NEW_ROWS),
        kinds=CHANGES,
        **arguments,
    )
    assert len(json_links(steps)) == 1


PATTERN_BY_MOMENT = {
    "while Spark writes": "_deltalite_staging/**/*.parquet",
    "at the commit": "_delta_log/*1.json",
}
"""The pattern of the file whose first appearance triggers the kill."""


@pytest.mark.parametrize("moment", sampled(list(PATTERN_BY_MOMENT), {"at the commit"}))
def test_a_job_survives_a_kill_with_its_jvm(spark, tmp_path, moment):
    """The test kills the process group of a `spark-submit` when a file with the moment's pattern appears."""
    table = tmp_path / "t"
    write_rows(spark, table, query_for(OLD_ROWS), properties={"delta.checkpointInterval": "1"})
    write_request = request(table, "SELECT CAST(id AS INT) AS id, 'z' AS day FROM range(100, 20100)", run=RUN)
    assert not any(table.glob(PATTERN_BY_MOMENT[moment]))
    job = subprocess.Popen(
        submit_command(tmp_path, write_request), cwd=tmp_path, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        while not any(table.glob(PATTERN_BY_MOMENT[moment])):
            assert job.poll() is None, f"the job ended before the test saw a file like {PATTERN_BY_MOMENT[moment]}"
            time.sleep(0.002)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)
        job.wait()
    rows_after = sorted_rows([*OLD_ROWS, *((number, "z") for number in range(100, 20_100))])
    check_whole(table, OLD_ROWS, rows_after)
    second_result = write_rows(spark, table, write_request.query, run=RUN)
    assert second_result.skipped or moment != "at the commit"
    check_whole(table, rows_after)
    assert count_commits_of_run(table, RUN) == 1

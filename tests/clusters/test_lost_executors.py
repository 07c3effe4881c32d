"""A killed executor in the middle of the output of a write and of a merge: the job ends, and the table is right."""

from __future__ import annotations

import pytest

from tests.clusters.conftest import EACH_DRIVER, wait_until
from tests.clusters.slow_jobs import create_table, merge_of, running, write_of
from tests.support.background_tasks import BackgroundTask
from tests.support.clusters.executors import kill_executor
from tests.support.clusters.table_checks import check_table, files_without_commit, written_task_numbers

pytestmark = pytest.mark.campaign
LOST = "ExecutorLostFailure"


@EACH_DRIVER
def test_a_write_that_loses_an_executor_has_every_row_once(mode):
    results = []
    # A lost task of this version leaves its files, so the job must not use it.
    conf = {"spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2"}
    with running(mode, write_of(mode, range(80), sleep_ms=250, conf=conf), results) as application_id:
        killed_executor = kill_executor(application_id)
    assert results[0]["version"] == 0 and results[0]["metrics"]["numOutputRows"] == 80
    ends = mode.event_logs.task_ends()
    assert [end.executor for end in ends if end.reason == LOST] == [killed_executor]
    table = mode.local_table("orders")
    check_table(table, [(number, "old") for number in range(80)])
    assert written_task_numbers(table, 0) == [0, 1, 2, 3]
    assert files_without_commit(table) == set()


@EACH_DRIVER
def test_a_merge_that_loses_an_executor_has_every_row_once(mode):
    create_table(mode, range(40))
    results = []
    with running(mode, merge_of(mode, range(60), sleep_ms=400), results) as application_id:
        kill_executor(application_id)
    assert LOST in {end.reason for end in mode.event_logs.task_ends()}
    check_merge(mode, results)


@EACH_DRIVER
def test_a_merge_that_loses_the_computed_rows_of_its_source_replans_and_has_every_row_once(mode, capsys):
    create_table(mode, range(40))
    results = []
    with BackgroundTask(lambda: results.append(mode.run(merge_of(mode, range(60))))) as task:
        wait_until("the source is computed", lambda: is_source_computed(mode))
        kill_executor(mode.event_logs.running_application())
        task.wait(500)
    assert "Replanning after the loss of an executor (retry 1 of 3)" in capsys.readouterr().out
    check_merge(mode, results)


def is_source_computed(mode):
    return any(name.startswith("localCheckpoint ") for name in mode.event_logs.completed_stages())


def check_merge(mode, results):
    """Check the result and the table of a merge of 60 rows into 40."""
    assert results[0]["version"] == 1
    metrics = results[0]["metrics"]
    assert (metrics["numTargetRowsUpdated"], metrics["numTargetRowsInserted"]) == (40, 20)
    table = mode.local_table("orders")
    check_table(table, [(number, "new") for number in range(60)])
    task_numbers = written_task_numbers(table, 1)
    assert len(task_numbers) == len(set(task_numbers))
    assert files_without_commit(table) == set()

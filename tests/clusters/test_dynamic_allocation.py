"""Spark's dynamic allocation: an idle executor is removed in the middle of a job, and the table is right."""

from __future__ import annotations

import pytest

from tests.clusters.conftest import EACH_DRIVER
from tests.clusters.slow_jobs import SLOW_FIRST_TASK, create_table, merge_of, write_of
from tests.support.clusters.table_checks import check_table, files_without_commit, written_task_numbers

pytestmark = pytest.mark.campaign
DYNAMIC_ALLOCATION = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "1",
    "spark.dynamicAllocation.maxExecutors": "2",
    "spark.dynamicAllocation.executorIdleTimeout": "2s",
    # Otherwise Spark keeps an executor with shuffle files until the job has ended.
    "spark.dynamicAllocation.shuffleTracking.timeout": "2s",
}


@EACH_DRIVER
def test_a_write_whose_idle_executor_is_removed_has_every_row_once(mode):
    # Spark keeps both executors until the job begins.
    conf = DYNAMIC_ALLOCATION | {"spark.dynamicAllocation.executorIdleTimeout": "20s"}
    result = mode.run(write_of(mode, range(80), sleep_ms=SLOW_FIRST_TASK.format(2500), conf=conf))
    executors_of_tasks = {end.executor for end in mode.event_logs.task_ends()}
    assert executors_of_tasks & set(mode.event_logs.removed_executors()) != set()
    assert result["version"] == 0 and result["metrics"]["numOutputRows"] == 80
    table = mode.local_table("orders")
    check_table(table, [(number, "old") for number in range(80)])
    assert written_task_numbers(table, 0) == [0, 1, 2, 3]
    assert files_without_commit(table) == set()


@EACH_DRIVER
def test_a_merge_whose_idle_executor_is_removed_has_every_row_once(mode):
    create_table(mode, range(40))
    slow_row = "IF(source.id = 59, 15000, 0)"  # an inserted row, so the task of its file is the slow one
    result = mode.run(merge_of(mode, range(60), sleep_ms=slow_row, conf=DYNAMIC_ALLOCATION))
    assert mode.event_logs.removed_executors() != []
    metrics = result["metrics"]
    assert (metrics["numTargetRowsUpdated"], metrics["numTargetRowsInserted"]) == (40, 20)
    table = mode.local_table("orders")
    check_table(table, [(number, "new") for number in range(60)])
    assert files_without_commit(table) == set()

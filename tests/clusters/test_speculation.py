"""Speculative copies of a slow task: whichever attempt ends first, the table has its rows once."""

from __future__ import annotations

import pytest

from tests.clusters.conftest import EACH_DRIVER, wait_until
from tests.clusters.slow_jobs import SLOW_LAST_TASK, running, write_of
from tests.support.clusters.executors import frozen_executor
from tests.support.clusters.table_checks import (
    check_table,
    files_that_a_vacuum_deletes,
    files_without_commit,
    written_task_numbers,
)

pytestmark = pytest.mark.campaign
SPECULATION = {
    "spark.speculation": "true",
    # A copy starts after a second, also if the machine is busy and the first tasks were slow.
    "spark.speculation.quantile": "0.25",
    "spark.speculation.multiplier": "0.01",
    "spark.speculation.minTaskRuntime": "1s",
    "spark.speculation.efficiency.enabled": "false",
}
ROWS = [(number, "old") for number in range(80)]


@EACH_DRIVER
def test_a_slow_task_and_its_copy_leave_no_row_twice(mode, capsys):
    result = mode.run(write_of(mode, range(80), sleep_ms=SLOW_LAST_TASK.format(500), conf=SPECULATION))
    assert result["version"] == 0 and result["metrics"]["numOutputRows"] == 80
    assert mode.event_logs.has_started_copy()
    check_table_after_speculation(mode, capsys)


@EACH_DRIVER
def test_a_copy_that_replaces_the_task_of_a_frozen_executor_leaves_no_row_twice(mode, capsys):
    results = []
    operator = write_of(mode, range(80), sleep_ms=250, conf=SPECULATION)
    with running(mode, operator, results) as application_id:
        # Every task of the write needs the rows that the first task has read. Its executor delivers them.
        executor_of_source = mode.event_logs.task_ends()[0].executor
        with frozen_executor(application_id, other_than=executor_of_source) as frozen:
            wait_until("the job commits", lambda: mode.commit_files("orders"), seconds=300)
    assert results[0]["version"] == 0 and results[0]["metrics"]["numOutputRows"] == 80
    copies = [end for end in mode.event_logs.task_ends() if end.is_speculative and end.reason == "Success"]
    assert copies != [] and frozen not in {copy.executor for copy in copies}
    check_table_after_speculation(mode, capsys)


def check_table_after_speculation(mode, capsys):
    table = mode.local_table("orders")
    check_table(table, ROWS)
    assert written_task_numbers(table, 0) == [0, 1, 2, 3]
    assert files_without_commit(table) <= files_that_a_vacuum_deletes(table, capsys)

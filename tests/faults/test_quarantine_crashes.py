"""A write with a quarantine is killed and run again: each row is in one of both tables, once."""

from __future__ import annotations

import shutil

import pytest

from tests.faults.crash_site import CHANGES
from tests.faults.killing import check_whole, count_commits_of_run, kill_at_steps
from tests.support.tables import rows, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]

RUN = "airflow/dag/task/-1/manual"
PROGRAM = "write_with_rejected_rows"
ARGUMENTS = {"query": "SELECT /*+ COALESCE(1) */ * FROM VALUES (0), (2) AS rows(x)", "run": RUN}
PUTS = ("os.link", "end")
ROWS_AFTER = [(1,), (2,)]


@pytest.fixture
def template(spark, tmp_path):
    write_rows(spark, tmp_path / "template", "SELECT 1 AS x")
    return tmp_path / "template"


def test_a_write_that_is_killed_between_its_two_commits_leaves_each_row_once(spark_site, tmp_path, template):
    """The quarantine lies beside the table, so its file changes are steps too."""
    table = shutil.copytree(template, tmp_path / "not killed")
    assert spark_site.run(PROGRAM, table, kinds=PUTS, **ARGUMENTS) is None
    check_whole(table, ROWS_AFTER)
    commits = [n for n, step in enumerate(spark_site.steps) if step.endswith(".json") and "/0000" in step]
    assert [" quarantine/" in spark_site.steps[n] for n in commits] == [True, False], (
        "the quarantine is committed first"
    )
    table = shutil.copytree(template, tmp_path / "killed")
    assert spark_site.run(PROGRAM, table, kill_at=commits[1], kinds=PUTS, **ARGUMENTS) is not None
    check_whole(table, rows(template))
    assert rows(f"{table} quarantine")
    assert spark_site.run(PROGRAM, table, kinds=PUTS, **ARGUMENTS) is None  # the program checks the quarantine
    check_whole(table, ROWS_AFTER)
    assert count_commits_of_run(table, RUN) == 1


@pytest.mark.campaign
def test_a_write_with_rejected_rows_survives_kills_at_file_changes(spark_site, tmp_path, template):
    kill_at_steps(
        spark_site, tmp_path, template, PROGRAM,
        rows_before=rows(template), rows_after=ROWS_AFTER, kinds=CHANGES, **ARGUMENTS,
    )  # fmt: skip

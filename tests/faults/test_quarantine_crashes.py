"""A write, a merge and an SCD command with a quarantine are killed and run again: each row is in one table, once."""

from __future__ import annotations

import shutil

import pytest

from tests.faults.crash_site import CHANGES, PUTS
from tests.faults.killing import check_whole, count_commits_of_run, kill_at_steps
from tests.support.scd import apply_rows
from tests.support.tables import rows, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("quick_plans")]

RUN = "airflow/dag/task/-1/manual"
QUERY = "SELECT /*+ COALESCE(1) */ * FROM VALUES (0), (2) AS rows(x)"
PROGRAMS = {
    "write_with_rejected_rows": {},
    "merge_with_rejected_rows": {"on": "target.x = source.x", "inserts": [{"insert": "*"}]},
    "scd_with_rejected_rows": {"keys": ["x"], "sequence_by": "x", "scd_type": 1},
}
FIRST_RUNS = {
    "merge_with_rejected_rows": PROGRAMS["merge_with_rejected_rows"] | {"create_if_missing": True},
    "scd_with_rejected_rows": PROGRAMS["scd_with_rejected_rows"],
}


def make_template(spark, table, program):
    """Make the table of a program, with the row 1."""
    if program == "scd_with_rejected_rows":
        apply_rows(spark, table, "SELECT 1 AS x", **PROGRAMS[program])
    else:
        write_rows(spark, table, "SELECT 1 AS x")
    return table


@pytest.mark.sample("merge_with_rejected_rows")
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_task_that_is_killed_between_its_two_commits_leaves_each_row_once(spark, spark_site, tmp_path, program):
    """The quarantine lies beside the table, so its file changes are steps too."""
    arguments = {"query": QUERY, "run": RUN, **PROGRAMS[program]}
    template = make_template(spark, tmp_path / "template", program)
    table = shutil.copytree(template, tmp_path / "not killed")
    assert spark_site.run(program, table, kinds=PUTS, **arguments) is None
    assert [row[0] for row in rows(table)] == [1, 2]
    rows_after = rows(table)
    check_whole(table, rows_after)
    commits = [n for n, step in enumerate(spark_site.steps) if step.endswith(".json") and "/0000" in step]
    assert [" quarantine/" in spark_site.steps[n] for n in commits] == [True, False], (
        "the quarantine is committed first"
    )
    table = shutil.copytree(template, tmp_path / "killed")
    assert spark_site.run(program, table, kill_at=commits[1], kinds=PUTS, **arguments) is not None
    check_whole(table, rows(template))
    assert rows(f"{table} quarantine")
    assert spark_site.run(program, table, kinds=PUTS, **arguments) is None  # the program checks the quarantine
    check_whole(table, rows_after)
    assert count_commits_of_run(table, RUN) == 1


@pytest.mark.campaign
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_task_with_rejected_rows_survives_kills_at_file_changes(spark, spark_site, tmp_path, program):
    template = make_template(spark, tmp_path / "template", program)
    kill_at_steps(
        spark_site, tmp_path, template, program,
        rows_before=rows(template), kinds=CHANGES, query=QUERY, run=RUN, **PROGRAMS[program],
    )  # fmt: skip
    assert [row[0] for row in rows(tmp_path / "not killed")] == [1, 2]


@pytest.mark.campaign
@pytest.mark.parametrize("program", FIRST_RUNS)
def test_a_first_run_with_rejected_rows_survives_kills_at_file_changes(spark_site, tmp_path, program):
    kill_at_steps(
        spark_site, tmp_path, None, program,
        rows_before=None, kinds=CHANGES, query=QUERY, run=RUN, **FIRST_RUNS[program],
    )  # fmt: skip
    assert [row[0] for row in rows(tmp_path / "not killed")] == [2]

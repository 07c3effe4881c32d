"""The SCD command is killed at file moves and run again: a late row splits a history once.

Audits examine the rows before the commit.
"""

from __future__ import annotations

import json

import pytest

from deltalite import DeltaTable
from tests.faults.crash_site import MOVES
from tests.faults.killing import kill_at_steps
from tests.support.properties import FEED
from tests.support.scd import EVENT_OPTIONS, Event, apply_rows, model_of_history, query_of, visible_rows
from tests.support.tables import rows

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("quick_plans")]

BEFORE = [Event(1, 1, "a", "x"), Event(1, 5, "a", "y"), Event(2, 1, "b", "x")]
LATE = [Event(1, 3, "b", "x"), Event(2, 3, None, None, deletes=True), Event(3, 1, "c", "x")]
OPTIONS = {name: list(value) if isinstance(value, tuple) else value for name, value in EVENT_OPTIONS.items()}
AUDITS = [{"name": "no id", "rows": "id IS NULL"}, {"name": "rows", "row_count": True, "min": 1}]
ARGUMENTS = {**OPTIONS, "track": ["name"], "audits": AUDITS, "run": "airflow/dag/task/-1/manual"}


@pytest.mark.campaign
def test_a_history_survives_a_kill_at_every_file_move(spark_site, spark, tmp_path):
    template = tmp_path / "template"
    apply_rows(spark, template, query_of(BEFORE), **EVENT_OPTIONS, track=("name",), properties=FEED)
    kill_at_steps(
        spark_site,
        tmp_path,
        template,
        "scd",
        rows_before=rows(template),
        kinds=MOVES,
        query=query_of(LATE),
        **ARGUMENTS,
    )
    assert visible_rows(tmp_path / "not killed") == model_of_history([*BEFORE, *LATE])


def test_the_first_run_survives_kills_at_file_moves(spark_site, tmp_path):
    """Outside the campaign, the test kills the program at a sample of the links of files of the log."""
    kill_at_steps(
        spark_site,
        tmp_path,
        None,
        "scd",
        rows_before=None,
        kinds=MOVES if spark_site.is_campaign else ("os.link",),
        query=query_of(BEFORE),
        **ARGUMENTS,
    )
    assert visible_rows(tmp_path / "not killed") == model_of_history(BEFORE)
    audits = json.loads(DeltaTable(str(tmp_path / "not killed")).history()[0]["operationParameters"]["audits"])
    assert [audit["name"] for audit in audits] == ["no id", "rows"]

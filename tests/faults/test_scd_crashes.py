"""The SCD command is killed at every file move and run again: a late row splits a history once."""

from __future__ import annotations

import pytest

from tests.faults.crash_site import MOVES
from tests.faults.killing import kill_at_steps
from tests.support.properties import FEED
from tests.support.scd import EVENT_OPTIONS, Event, apply_rows, query_of
from tests.support.tables import rows

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.campaign]

BEFORE = [Event(1, 1, "a", "x"), Event(1, 5, "a", "y"), Event(2, 1, "b", "x")]
LATE = [Event(1, 3, "b", "x"), Event(2, 3, None, None, deletes=True), Event(3, 1, "c", "x")]
OPTIONS = {name: list(value) if isinstance(value, tuple) else value for name, value in EVENT_OPTIONS.items()}
ARGUMENTS = {**OPTIONS, "track": ["name"], "run": "airflow/dag/task/-1/manual"}


def rows_after(spark, table, *batches):
    """Apply batches to a new table, and return its rows."""
    for batch in batches:
        apply_rows(spark, table, query_of(batch), **EVENT_OPTIONS, track=("name",), properties=FEED)
    return rows(table)


def test_a_history_survives_a_kill_at_every_file_move(spark_site, spark, tmp_path):
    before = rows_after(spark, tmp_path / "template", BEFORE)
    after = rows_after(spark, tmp_path / "expected", BEFORE, LATE)
    kill_at_steps(
        spark_site,
        tmp_path,
        tmp_path / "template",
        "scd",
        rows_before=before,
        rows_after=after,
        kinds=MOVES,
        query=query_of(LATE),
        **ARGUMENTS,
    )


def test_the_first_run_survives_a_kill_at_every_file_move(spark_site, spark, tmp_path):
    kill_at_steps(
        spark_site,
        tmp_path,
        None,
        "scd",
        rows_before=None,
        rows_after=rows_after(spark, tmp_path / "expected", BEFORE),
        kinds=MOVES,
        query=query_of(BEFORE),
        **ARGUMENTS,
    )

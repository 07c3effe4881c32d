"""The merge command is killed at every file move and run again: it changes the rows once."""

from __future__ import annotations

import pytest

from tests.faults.crash_site import MOVES
from tests.faults.killing import json_links, kill_at_steps
from tests.support.properties import FEED, VECTORS
from tests.support.tables import sorted_rows, values, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.campaign]

ROWS_BEFORE = [(1, "a"), (2, "a"), (50, "b")]
ARGUMENTS = {
    "query": values("id, day", "1, 'a'", "50, 'x'", "7, 'c'"),
    "on": "target.id = source.id",
    "matched": [{"delete": True, "condition": "source.day = 'a'"}, {"update": {"day": "source.day"}}],
    "inserts": [{"insert": "*"}],
    "run": "airflow/dag/task/-1/manual",
}
ROWS_AFTER = sorted_rows([(2, "a"), (50, "x"), (7, "c")])


@pytest.mark.parametrize("properties", [FEED, FEED | VECTORS], ids=["files", "vectors"])
def test_a_merge_survives_a_kill_at_every_file_move(spark_site, spark, tmp_path, properties):
    template = tmp_path / "template"
    query = values("id, day", *[str(row)[1:-1] for row in ROWS_BEFORE]).replace("SELECT", "SELECT /*+ COALESCE(1) */")
    write_rows(spark, template, query, partition_by=("day",), properties=properties | {"delta.checkpointInterval": "1"})
    # A merge writes deletion vectors in place and does not move them.
    kinds = MOVES if properties == FEED else (*MOVES, "open to write")
    steps = kill_at_steps(
        spark_site,
        tmp_path,
        template,
        "merge",
        rows_before=ROWS_BEFORE,
        rows_after=ROWS_AFTER,
        kinds=kinds,
        **ARGUMENTS,
    )
    assert len(json_links(steps)) == 1
    assert any("/_change_data/" in step for step in steps) and any("day=" in step for step in steps)

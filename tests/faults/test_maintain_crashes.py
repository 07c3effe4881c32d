"""A maintenance is killed at file moves and run again: each step commits once, and the rows stay the same."""

from __future__ import annotations

import deltalake
import pyarrow as pa
import pytest

from deltalite import DeltaTable
from tests.faults.crash_site import MOVES
from tests.faults.killing import json_links, kill_at_steps
from tests.support.tables import rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]

RUN = "airflow/dag/maintain/-1/manual"
FILES = 3


def test_a_maintenance_survives_kills_at_file_moves(spark_site, tmp_path):
    """Outside the campaign, the test kills the program at a sample of the links of files of the log."""
    template = tmp_path / "template"
    for number in range(FILES):
        deltalake.write_deltalake(str(template), pa.table({"id": [number]}), mode="append")
    steps = kill_at_steps(
        spark_site,
        tmp_path,
        template,
        "maintain",
        rows_before=rows(template),
        rows_after=rows(template),
        kinds=MOVES if spark_site.is_campaign else ("os.link",),
        app_ids=(f"{RUN}/optimize", f"{RUN}/vacuum"),
        run=RUN,
        min_small_files=FILES,
        checkpoint_after_commits=1,
        vacuum_after_days=0,
        vacuum_mode="lite",
    )
    assert len(json_links(steps)) == 3, "an optimize, the start of a vacuum, and its end"
    table = DeltaTable(str(tmp_path / "not killed"))
    assert [commit["operation"] for commit in table.history(limit=3)] == ["VACUUM END", "VACUUM START", "OPTIMIZE"]
    assert table.files().num_rows == 1
    assert (tmp_path / "not killed" / "_delta_log" / f"{FILES:020}.checkpoint.parquet").exists()

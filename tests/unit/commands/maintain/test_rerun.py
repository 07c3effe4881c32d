"""A retry of a maintenance continues it. A cleared task maintains the tables again, or skips with on_rerun='skip'."""

from __future__ import annotations

import deltalake
import pyarrow as pa
import pytest

from deltalite import DeltaTable
from deltalite.commands.maintain import maintain
from deltalite.requests import MaintainRequest, OnRerun, RunIdentity


@pytest.mark.parametrize(
    ("on_rerun", "outcome_after_clear", "ends_after_clear"),
    [(OnRerun.WRITE, "done", 2), (OnRerun.SKIP, "done earlier", 1)],
)
def test_on_rerun_decides_whether_a_cleared_task_repeats_its_steps(
    spark, tmp_path, on_rerun, outcome_after_clear, ends_after_clear
):
    table = tmp_path / "t"

    def append_and_vacuum(generation: int) -> tuple[str, int]:
        """Append a row, and run a task attempt. Return the outcome of its vacuum and the number of ended vacuums."""
        # A commit after the last vacuum makes a vacuum due.
        deltalake.write_deltalake(str(table), pa.table({"id": [1]}), mode="append")
        identity = RunIdentity(
            app_id="ns/dag/maintain/-1/run",
            txn_version=0 if on_rerun is OnRerun.SKIP else generation,
            generation=generation,
            on_rerun=on_rerun,
        )
        request = MaintainRequest(
            tables=(f"file://{table}",), optimize=False, checkpoint=False, vacuum_after_days=0, identity=identity
        )
        (row,) = maintain(spark, request).tables
        operations = [commit["operation"] for commit in DeltaTable(str(table)).history()]
        return row["steps"]["vacuum"]["outcome"], operations.count("VACUUM END")

    assert append_and_vacuum(generation=0) == ("done", 1)
    assert append_and_vacuum(generation=0) == ("done earlier", 1)
    assert append_and_vacuum(generation=1) == (outcome_after_clear, ends_after_clear)
    assert append_and_vacuum(generation=1) == ("done earlier", ends_after_clear)

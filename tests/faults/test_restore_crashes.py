"""A restore is killed at its steps: the table is unchanged or restored, and a second attempt restores it once."""

from __future__ import annotations

import pytest

from deltalite.inspection.verify import verify
from deltalite.storage.local import LocalLogStore
from tests.faults.killing import kill_at_steps

RUN = "airflow/dag/restore/-1/manual"
PROPERTIES = {"delta.checkpointInterval": "3", "delta.enableExpiredLogCleanup": "false"}


@pytest.mark.slow
def test_a_restore_survives_kills_at_its_steps(site, tmp_path):
    template = tmp_path / "template"
    for number in range(3):
        site.run("write_ids", template, run=f"run {number}", ids=[number], replaces=number == 2, properties=PROPERTIES)
    steps = kill_at_steps(
        site, tmp_path, template, "restore", rows_before=[(2,)], rows_after=[(0,), (1,)], run=RUN, version=1
    )
    assert any(step.startswith("os.link") for step in steps), "the restore must commit"
    assert any("checkpoint" in step for step in steps), "the restore must write a checkpoint after the commit"
    table = tmp_path / "not killed"
    assert verify(LocalLogStore(str(table))).findings == ()

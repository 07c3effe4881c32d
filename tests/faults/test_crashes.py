"""Tasks without Spark are killed before and after each call of the storage, and before each file operation."""

from __future__ import annotations

import pytest

from tests.faults.crash_site import CHANGES, EVERYTHING
from tests.faults.killing import kill_at_steps, make_old
from tests.support.selection import sample_every

RUN = "airflow/dag/task/-1/manual"
PROPERTIES_BY_CASE = {
    "checkpoints at every commit": {"delta.checkpointInterval": "1"},
    "checkpoints with sidecars at every commit": {"delta.checkpointInterval": "1", "delta.checkpointPolicy": "v2"},
}


@pytest.mark.parametrize(
    ("case", "replaces", "kinds"),
    sample_every(2, list(zip(PROPERTIES_BY_CASE, (False, True), (EVERYTHING, CHANGES), strict=True))),
)
def test_a_task_survives_kills_at_its_steps(site, tmp_path, case, replaces, kinds):
    """The older versions of the table are beyond the retention, so a log cleanup follows the commit."""
    template = tmp_path / "template"
    for number in range(4):
        site.run("write_ids", template, run=f"run {number}", ids=[number], properties=PROPERTIES_BY_CASE[case])
    make_old(template, 3)
    rows_before = [(0,), (1,), (2,), (3,)]
    rows_after = [(7,), (8,)] if replaces else [*rows_before, (7,), (8,)]
    arguments = {"run": RUN, "ids": [7, 8], "replaces": replaces}
    steps = kill_at_steps(
        site, tmp_path, template, "write_ids", rows_before=rows_before, rows_after=rows_after, kinds=kinds, **arguments
    )
    unseen_kinds = {kind.split()[0] for kind in kinds} - {step.split()[0] for step in steps}
    assert unseen_kinds <= {"os.rmdir", "shutil.rmtree"}
    assert sum(step.startswith("os.remove") and not step.endswith(".tmp") for step in steps) > 2, (
        "no log file was cleaned up"
    )


def test_a_first_write_survives_kills_at_its_steps(site, tmp_path):
    arguments = {"run": RUN, "ids": [7, 8], "properties": {"delta.checkpointInterval": "1"}}
    kill_at_steps(site, tmp_path, None, "write_ids", rows_before=None, rows_after=[(7,), (8,)], **arguments)


def test_a_checkpoint_survives_kills_at_its_steps(site, tmp_path):
    template = tmp_path / "template"
    for number in range(4):
        site.run("write_ids", template, run=f"run {number}", ids=[number])
    rows_before = [(0,), (1,), (2,), (3,)]
    steps = kill_at_steps(site, tmp_path, template, "checkpoint", rows_before=rows_before, rows_after=rows_before)
    assert any(step.startswith("os.rename") for step in steps), "`_last_checkpoint` was never written"

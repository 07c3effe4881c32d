"""Tasks without Spark are killed at each access to storage: before and after each call, between file, sync and link."""

from __future__ import annotations

import pytest

from tests.faults.crash_site import CrashSite
from tests.faults.killing import aged, killed_everywhere

RUN = "airflow/dag/task/-1/manual"


@pytest.fixture(scope="module")
def site():
    site = CrashSite()
    yield site
    site.close()


PROPERTIES = {
    "checkpoints at every commit": {"delta.checkpointInterval": "1"},
    "checkpoints now and then": {},
}


@pytest.mark.parametrize("properties", PROPERTIES)
@pytest.mark.parametrize("replaces", [False, True])
def test_a_task_is_killed_at_every_step(site, tmp_path, properties, replaces):
    """On a table whose older versions have passed their retention, so that a cleanup is due where there is one."""
    template = tmp_path / "template"
    for number in range(4):
        site.run("plain", template, run=f"run {number}", ids=[number], properties=PROPERTIES[properties])
    aged(template, 3)
    before = [(0,), (1,), (2,), (3,)]
    after = [(7,), (8,)] if replaces else [*before, (7,), (8,)]
    task = {"run": RUN, "ids": [7, 8], "replaces": replaces}
    steps = killed_everywhere(site, tmp_path, template, "plain", before=before, after=after, **task)
    assert {"before", "after", "open", "sync", "os.link", "os.remove", "end"} <= {step.split()[0] for step in steps}


def test_a_first_write_is_killed_at_every_step(site, tmp_path):
    task = {"run": RUN, "ids": [7, 8], "properties": {"delta.checkpointInterval": "1"}}
    killed_everywhere(site, tmp_path, None, "plain", before=None, after=[(7,), (8,)], **task)


def test_a_checkpoint_is_killed_at_every_step(site, tmp_path):
    template = tmp_path / "template"
    for number in range(4):
        site.run("plain", template, run=f"run {number}", ids=[number])
    before = [(0,), (1,), (2,), (3,)]
    steps = killed_everywhere(site, tmp_path, template, "checkpoint", before=before, after=before)
    assert any(step.startswith("os.rename") for step in steps), "the hint was never written"

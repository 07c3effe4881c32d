"""Random histories of a source and a target: the target always holds exactly the versions up to its offset.

Each step changes the source, or runs, retries, clears, races or restores the load. After each step the test compares
the target with the source's own history at the version that the offset in the target's log names.
"""

from __future__ import annotations

from random import Random

import pytest

from deltalite import DeltaTable
from deltalite.commands.restore import restore
from deltalite.requests import RestoreRequest
from deltalite.snapshot import Snapshot
from deltalite.storage.local import LocalLogStore
from deltalite.upkeep.checkpoint import write_checkpoint
from tests.support.flows import append_new, merge_changes, offsets
from tests.support.properties import FEED
from tests.support.racing import run_before_commits
from tests.support.tables import delete_rows, optimize_table, rows, update_rows, values, write_rows
from tests.unit.builders import NOON_MS

pytestmark = [pytest.mark.spark, pytest.mark.slow]


class History:
    """A source, a target, and the random steps that change them."""

    def __init__(self, spark, folder, monkeypatch, random, *, reads_changes):
        self.spark, self.source, self.target = spark, folder / "source", folder / "target"
        self.monkeypatch, self.random, self.reads_changes = monkeypatch, random, reads_changes
        self.next_id = self.next_run = 0
        self.runs = []
        self.add_rows()

    def add_rows(self):
        rows_to_add = [f"{self.next_id + n}, 'v{self.next_id + n}'" for n in range(self.random.randint(1, 3))]
        self.next_id += len(rows_to_add)
        write_rows(self.spark, self.source, values("id, name", *rows_to_add), properties=FEED)

    def change_rows(self):
        if not self.reads_changes:
            return self.add_rows()
        condition = f"id % {self.random.randint(2, 4)} = 0"
        if self.random.random() < 0.5:
            return update_rows(self.spark, self.source, {"name": "concat(name, '+')"}, condition)
        return delete_rows(self.spark, self.source, condition)

    def optimize(self):
        optimize_table(self.spark, self.source)

    def checkpoint(self):
        if self.target.exists():
            write_checkpoint(Snapshot.load(LocalLogStore(str(self.target))), now_ms=NOON_MS)

    def load(self, run=None, **options):
        if run is None:
            run, self.next_run = f"run {self.next_run}", self.next_run + 1
            self.runs.append(run)
        source_options = {"max_versions": self.random.choice([None, 1, 2])}
        load = merge_changes if self.reads_changes else append_new
        return load(self.spark, self.target, self.source, options=source_options, run=run, **options)

    def retry(self):
        if self.runs:
            self.load(self.random.choice(self.runs))

    def clear(self):
        if self.runs and not self.reads_changes:
            self.load(self.random.choice(self.runs), on_rerun="write", generation=self.next_run)

    def race(self):
        def rival():
            self.load()
            if self.random.random() < 0.5:
                self.add_rows()

        with self.monkeypatch.context() as patch:
            run_before_commits(patch, rival)
            self.load()

    def restore(self):
        if self.target.exists():
            version = self.random.randint(0, DeltaTable(str(self.target)).version)
            restore(self.spark, RestoreRequest(table=str(self.target), version=version))

    def check(self):
        if not self.target.exists():
            return
        offset = offsets(self.target)["flow"]
        assert rows(self.target) == ([] if offset < 0 else rows(self.source, version=offset))


STEPS = ["add_rows", "change_rows", "optimize", "checkpoint", "load", "load", "retry", "clear", "race", "restore"]


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.campaign) for seed in range(2, 12))])
@pytest.mark.parametrize("reads_changes", [False, True], ids=["appends", "changes"])
def test_the_target_holds_the_versions_up_to_its_offset(spark, tmp_path, monkeypatch, request, seed, reads_changes):
    random = Random(seed)
    history = History(spark, tmp_path, monkeypatch, random, reads_changes=reads_changes)
    taken = []
    for _ in range(25 if request.config.getoption("--campaign") else 14):
        taken.append(random.choice(STEPS))
        getattr(history, taken[-1])()
        history.check()
    while not history.load().skip_reason:
        history.check()
    assert rows(history.target) == rows(history.source), taken

"""Random histories of a source and a target: the target always has the rows that the model of flows predicts.

Two flows load one source into one target: `a` loads changes, and `b` loads appended rows. Each step changes the source,
or runs, retries, clears or races a load, or changes the target. After each step the test compares the target with the
model (`tests.support.flow_model`), which reads the commits without the code of flows.
"""

from __future__ import annotations

import re
from random import Random

import pytest

from deltalite import DeltaTable
from deltalite.commands.restore import restore
from deltalite.commands.table import define_table
from deltalite.commands.vacuum import vacuum
from deltalite.errors import SourceGapError, SourceRowsChangedError
from deltalite.requests import RestoreRequest, TableRequest, VacuumRequest
from deltalite.snapshot import Snapshot
from deltalite.storage.local import LocalLogStore
from deltalite.upkeep.checkpoint import write_checkpoint
from tests.support.flow_model import SourceModel, TargetModel
from tests.support.flows import append_new, merge_balances
from tests.support.properties import FEED
from tests.support.racing import run_before_commits
from tests.support.selection import sampled
from tests.support.tables import delete_rows, delta_rs_rows, optimize_table, update_rows, values, write_rows
from tests.unit.builders import NOON_MS

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("one_task")]

FLOWS = {"a": "changes", "b": "appends"}


class History:
    """A source, a target, and the random steps that change them."""

    def __init__(self, spark, folder, monkeypatch, random, *, merges):
        self.spark, self.folder, self.random, self.monkeypatch = spark, folder, random, monkeypatch
        self.source_path, self.target_path, self.merges = folder / "source", folder / "target", merges
        self.source = SourceModel(self.source_path)
        self.target = TargetModel(self.target_path, self.source, frozenset({"b"}))
        self.next_id = self.next_run = self.next_column = 0
        self.runs = []
        self.append()

    # Steps that change the source.

    def append(self, columns="id, x", **options):
        ids = range(self.next_id, self.next_id + self.random.randint(1, 3))
        self.next_id = ids.stop
        more_values = ", 0" * (columns.count(",") - 1)
        new_rows = (f"{number}, CAST({self.random.randint(1, 9)} AS BIGINT){more_values}" for number in ids)
        write_rows(self.spark, self.source_path, values(columns, *new_rows), properties=FEED, **options)
        self.source.record(is_append=True)

    def add_column(self):
        self.next_column += 1
        self.append(f"id, x, c{self.next_column}", merge_schema=True)

    def update(self):
        update_rows(self.spark, self.source_path, {"x": "x + 1"}, self.condition())
        self.source.record(is_append=False)

    def delete(self):
        delete_rows(self.spark, self.source_path, self.condition())
        self.source.record(is_append=False)

    def condition(self):
        return f"id % {self.random.randint(2, 4)} = 0"

    def overwrite(self):
        self.append(mode="overwrite", overwrite_schema=True)
        self.source.versions[self.source.table_id][-1].is_append = False

    def optimize(self):
        optimize_table(self.spark, self.source_path)
        self.source.record(is_append=True)

    def restore_source(self):
        version = self.random.randint(self.source.first_commit, self.source.newest)
        if not self.source.is_vacuumed:
            restore(self.spark, RestoreRequest(table=str(self.source_path), version=version))
            self.source.record(is_append=False)

    def clean_log(self):
        """Delete the commits before the newest version, as log cleanup does after the retention."""
        write_checkpoint(Snapshot.load(LocalLogStore(str(self.source_path))), now_ms=NOON_MS)
        self.source.first_commit = self.source.newest
        for file in (self.source_path / "_delta_log").glob("*.json"):
            if file.stem.isdigit() and int(file.stem) < self.source.newest:
                file.unlink()

    def vacuum(self):
        """Delete the files that only older versions need, among them change data files."""
        request = VacuumRequest(table=str(self.source_path), retention_hours=0, confirm_short_retention="source")
        vacuum(self.spark, request)
        self.source.is_vacuumed = True
        self.source.record(is_append=True)

    def recreate(self):
        self.source_path.rename(self.folder / f"source before {self.next_id}")
        self.source.first_commit, self.source.is_vacuumed = 0, False
        self.append()

    # Steps that load.

    def load(self, run=None, *, predicts=True, **options):
        """Run a load of a random flow. With `predicts`, the model predicts its outcome, too."""
        flow = self.random.choice(list(FLOWS))
        if run is None:
            run, self.next_run = f"run {self.next_run}", self.next_run + 1
        self.runs.append(run)
        limit = self.random.choice([{}, {"max_versions": 1}, {"max_versions": 2}, {"max_bytes": 1500}])
        on_gap = self.random.choice(["fail", "reload"])
        source_options = {"read": FLOWS[flow], "on_gap": on_gap, **limit}
        if FLOWS[flow] == "appends":
            source_options["on_change"] = self.random.choice(["fail", "skip"])
        offsets, newest = self.target.offsets(flow), self.source.newest
        is_gap, had_run = self.source.is_gap(offsets), bool(self.target.runs[run]) and not options
        try:
            result = self.run_load(flow, run, source_options, options)
        except (SourceGapError, SourceRowsChangedError) as error:
            assert not self.target.read_commits() and not had_run
            if predicts:
                self.check_refusal(error, offsets, is_gap=is_gap, source_options=source_options)
            return flow, run
        loads = self.target.read_commits()
        if predicts:
            is_new = not had_run and (is_gap or not offsets or offsets[self.source.table_id] < newest)
            assert (len(loads) == 1) is is_new is not result.skipped
            assert not (is_new and is_gap and on_gap == "fail")
            if is_new:
                self.check_range(*loads[0], limit, source_options.get("on_change"))
        return flow, run

    def run_load(self, flow, run, source_options, options):
        if self.merges:
            return merge_balances(
                self.spark, self.target_path, self.source_path, flow=flow, run=run, options=source_options, **options
            )
        change = "_change_type" if FLOWS[flow] == "changes" else "'insert'"
        query = f"SELECT '{flow}' AS flow, id, x, {change} AS change FROM source"
        return append_new(
            self.spark, self.target_path, self.source_path,
            flow=flow, run=run, query=query, options=source_options, **options,
        )  # fmt: skip

    def check_refusal(self, error, offsets, *, is_gap, source_options):
        """Check that an error has its reason in the history of the source."""
        if is_gap:
            assert isinstance(error, SourceGapError) and source_options["on_gap"] == "fail"
        elif isinstance(error, SourceRowsChangedError):
            later_versions = self.source.versions[self.source.table_id][offsets[self.source.table_id] + 1 :]
            assert source_options["on_change"] == "fail" and not all(v.is_append for v in later_versions)
        else:
            assert isinstance(error, SourceGapError) and source_options["on_gap"] == "fail"
            (lost_name,) = re.findall(r"no longer exists, perhaps after a vacuum \((.+?)\)", error.problem)
            assert self.source.is_vacuumed and not (self.source_path / lost_name).exists()

    def check_range(self, _flow, after, to, limit, on_change):
        """Check that a load ends at its limit, or before a version that drops a column."""
        newest, versions = self.source.newest, self.source.versions[self.source.table_id]
        last_version = newest if after is None else min(newest, after + limit.get("max_versions", newest))
        if to < last_version and "max_bytes" not in limit:
            assert not versions[to].columns <= versions[to + 1].columns
        if on_change == "fail" and after is not None:
            assert all(version.is_append for version in versions[after + 1 : to + 1])

    def retry(self):
        if self.runs:
            self.load(self.random.choice(self.runs))

    def clear(self):
        if self.runs and not self.merges:
            self.load(self.random.choice(self.runs), on_rerun="write", generation=self.next_run)

    def race(self):
        """Run a load that commits after another load, and perhaps after another version of the source."""

        def rival():
            self.load(predicts=False)
            if self.random.random() < 0.5:
                self.append()

        with self.monkeypatch.context() as patch:
            run_before_commits(patch, rival)
            self.load(predicts=False)

    # Steps that change the target.

    def restore_target(self):
        if self.target.states:
            version = self.random.randrange(len(self.target.states))
            restore(self.spark, RestoreRequest(table=str(self.target_path), version=version))

    def reset(self):
        flow = self.random.choice(list(FLOWS))
        offsets = self.target.offsets(flow)
        if offsets:
            version = self.random.choice([None, self.random.randint(0, self.source.newest)])
            reset = {flow: version if len(offsets) == 1 and self.source.table_id in offsets else None}
            define_table(self.spark, TableRequest(table=str(self.target_path), reset_flows=reset))

    def checkpoint(self):
        if self.target.states:
            write_checkpoint(Snapshot.load(LocalLogStore(str(self.target_path))), now_ms=NOON_MS)

    def check(self, **options):
        """Compare the target with the model."""
        self.target.read_commits()
        if self.target.states:
            (self.target.check_balances if self.merges else self.target.check_rows)(**options)


STEPS = {
    "append": 4, "add_column": 1, "update": 2, "delete": 1, "overwrite": 1, "optimize": 1, "restore_source": 1,
    "clean_log": 1, "vacuum": 1, "recreate": 1, "load": 12, "retry": 2, "clear": 1, "race": 2, "restore_target": 2,
    "reset": 1, "checkpoint": 1,
}  # fmt: skip
"""The weight of each step."""


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.campaign) for seed in range(2, 25))])
@pytest.mark.parametrize("merges", sampled([False, True], [True]), ids=["append", "merge"])
def test_the_target_has_each_version_of_the_source_once(spark, tmp_path, monkeypatch, request, seed, merges):
    random = Random(seed)
    history = History(spark, tmp_path, monkeypatch, random, merges=merges)
    for _ in range(40 if request.config.getoption("--campaign") else 9):
        (step,) = random.choices(list(STEPS), list(STEPS.values()))
        print(step)  # pytest shows the steps of a failed test
        getattr(history, step)()
        history.check()
    if history.target.states:
        history.check(read=delta_rs_rows)
        assert DeltaTable(str(tmp_path / "target")).version == len(history.target.states) - 1

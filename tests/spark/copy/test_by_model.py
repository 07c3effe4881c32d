"""A model predicts the rows, the quarantine and the list of loaded files after random histories of a folder.

Files are added, replaced, touched and deleted. Some are unreadable, or have bad records or a new column. Runs select
files in each way, are retried and cleared, fail between their two commits, and race with another run. Another writer
appends rows, and the table is restored. After each step the test compares the tables with the model.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from deltalite import DeltaTable
from deltalite.commands.restore import restore
from deltalite.commands.table import define_table
from deltalite.errors import SchemaMismatchError, SourceError, StorageError
from deltalite.requests import RestoreRequest, TableRequest
from deltalite.storage.local import LocalLogStore
from tests.support.copy_model import CopyModel, Load, RandomFolder
from tests.support.copying import copy_files, loaded_names
from tests.support.fuzzing import scaled
from tests.support.racing import run_before_commits
from tests.support.tables import write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]

STEPS = 6
FAILURES = (SourceError, SchemaMismatchError)


class History:
    """A random history of one folder, its table and its quarantine."""

    def __init__(self, spark, folder, seed, monkeypatch):
        self.spark, self.monkeypatch = spark, monkeypatch
        self.random = Random(seed)
        self.model = CopyModel()
        self.landing, self.table, self.quarantine = (folder / name for name in ("landing", "table", "quarantine"))
        self.folder = RandomFolder(self.random, self.landing, self.model)
        self.loads = []
        self.journal = [f"seed {seed}"]
        define_table(spark, TableRequest(table=str(self.table), schema="id BIGINT"))
        self.model.remember(0)

    def step(self):
        """Take a random step."""
        steps = [
            self.load,
            self.load,
            self.load,
            self.retry,
            self.clear,
            self.fail,
            self.race,
            self.restore,
            self.append,
        ]
        self.folder.change()
        step = self.random.choice(steps)
        self.journal.append(f"{step.__name__} {sorted(self.model.files.values(), key=lambda file: file.second)}")
        step()
        self.check()

    def new_load(self):
        """Return a load with random parameters."""
        random = self.random
        options = random.choice([
            {}, {}, {}, {"force": True}, {"pattern": "a*"}, {"max_files": 2}, {"has_quarantine": False},
            {"file_names": tuple(random.sample(sorted(self.model.files), min(2, len(self.model.files))))},
        ])  # fmt: skip
        if not options.get("file_names", True):
            options = {}
        if options.get("has_quarantine", True):
            options = {**options, "max_bad_share": random.choice([None, 0.5, 1])}
        load = Load(run=f"run {len(self.loads)}", **options)
        self.loads.append(load)
        return load

    def load(self, load=None):
        """Load files, and compare the result with the model."""
        load = load or self.new_load()
        expected = self.model.copy(load)
        if expected.fails:
            with pytest.raises(FAILURES):
                self.run(load)
            return
        self.check_result(load, expected, self.run(load))

    def run(self, load):
        """Run the copy, and return its result."""
        self.journal.append(str(load))
        quarantine = {"quarantine": str(self.quarantine)} if load.has_quarantine else {}
        return copy_files(
            self.spark, self.table, self.landing, run=load.run, generation=load.generation, on_rerun="write",
            **load.options, **quarantine,
        )  # fmt: skip

    def check_result(self, load, expected, result):
        """Compare the result with the expected outcome."""
        self.journal.append(f"{expected} {result}")
        if expected.is_retry:
            assert result.skipped and not result.skip_reason and not result.committed
        elif not expected.files:
            assert result.skip_reason and not result.committed
        else:
            assert result.committed
            unreadable = [file for file in expected.files if file.is_unreadable]
            readable = [file for file in expected.files if not file.is_unreadable]
            assert result.metrics["numLoadedFiles"] == len(readable)
            assert result.metrics["numOutputRows"] == sum(len(file.ids) for file in readable)
            if load.has_quarantine:
                assert result.metrics["numUnreadableFiles"] == len(unreadable)
                bad_count = len(unreadable) + sum(len(file.bad_records) for file in readable)
                assert result.metrics["numQuarantinedRows"] == result.quarantine.rows == bad_count

    def retry(self):
        """Retry an earlier load that has committed."""
        committed = [load for load in self.loads if load.run in self.model.generations]
        self.load(self.random.choice(committed) if committed else None)

    def clear(self):
        """Run an earlier load again after a clear."""
        if not self.model.generations:
            return self.load()
        run = self.random.choice(sorted(self.model.generations))
        load = next(load for load in self.loads if load.run == run)
        if load.file_names and not set(load.file_names) <= set(self.model.files):
            load = replace(load, file_names=None)
        return self.load(replace(load, generation=self.model.generations[run] + 1))

    def fail(self):
        """Let the commit to the table fail after the commit to the quarantine, then retry the load."""
        load = self.new_load()
        write_if_absent = LocalLogStore.write_if_absent

        def fail_at_table(store, name, data):
            if store.root == str(self.table) and name.startswith("_delta_log/0"):
                raise StorageError("killed", remedy="none")
            return write_if_absent(store, name, data)

        with self.monkeypatch.context() as patch:
            patch.setattr(LocalLogStore, "write_if_absent", fail_at_table)
            try:
                self.run(load)
            except (StorageError, *FAILURES) as error:
                self.journal.append(f"failed: {error}")
        if load.file_names is None and self.random.random() < 0.5:
            self.folder.change()
        if load.has_quarantine and self.model.would_fail(load):  # a retry that fails keeps rows of the first attempt
            load = replace(load, max_bad_share=1)
        self.load(load)

    def race(self):
        """Let another run load files before the commit of a load."""
        rival, load = self.new_load(), self.new_load()
        if rival.force or load.force or not self.model.would_commit(load):
            return self.load(load)
        expected = []

        def run_rival():
            expected.append(self.model.copy(rival))
            if expected[0].fails:
                with pytest.raises(FAILURES):
                    self.run(rival)
            else:
                self.check_result(rival, expected[0], self.run(rival))

        run_before_commits(self.monkeypatch, run_rival)
        result = error = None
        try:
            result = self.run(load)
        except FAILURES as load_error:
            error = load_error
        assert expected, "the rival has run"
        outcome = self.model.copy(load)
        assert outcome.fails == (error is not None)
        if result is not None:
            self.check_result(load, outcome, result)
        return None

    def restore(self):
        """Restore the table to an earlier version."""
        version = self.random.choice(sorted(self.model.versions))
        self.journal.append(f"to {version}")
        restore(self.spark, RestoreRequest(table=str(self.table), version=version))
        self.model.restore(version)

    def append(self):
        """Append a row as another writer."""
        write_rows(self.spark, self.table, "SELECT -1L AS id")
        self.model.ids.append(-1)

    def check(self):
        """Compare the tables with the model."""
        model = self.model
        table = DeltaTable(str(self.table))
        assert sorted(table.to_arrow()["id"].to_pylist()) == sorted(model.ids)
        assert loaded_names(self.table) == sorted(file.name for file in model.loaded)
        rows = DeltaTable(str(self.quarantine)).to_arrow().to_pylist() if self.quarantine.exists() else []
        assert Counter((row["file"].rpartition("/")[2], row["record"], row["run"]) for row in rows) == model.quarantined
        model.remember(table.version)


@pytest.mark.parametrize("seed", range(scaled(1)))
def test_a_random_history_gives_the_rows_of_the_model(spark, tmp_path, monkeypatch, seed):
    history = History(spark, tmp_path, seed, monkeypatch)
    try:
        for _ in range(STEPS):
            history.step()
        history.load(Load(run="the last run", max_bad_share=1))
        history.check()
    except Exception as error:
        raise AssertionError("\n".join([f"{type(error).__name__}: {error}", *history.journal])) from error

"""Sixteen processes append to one table: no commit is lost or doubled."""

from __future__ import annotations

import multiprocessing
import uuid
from pathlib import Path

import deltalake
import pytest

from deltalite.protocol.actions import AddFile, SetTransaction, parse_commit
from deltalite.protocol.file_names import commit_name
from deltalite.snapshot import Snapshot
from deltalite.storage.local import LocalLogStore
from deltalite.txn.commit import commit
from deltalite.upkeep.post_commit import after_commit
from tests.unit.builders import add, create, proposal, txn

WRITERS = 16


def append(table, number, commits, gate, queue):
    """Append repeatedly to the newest version; each commit is a separate run."""
    store, runs_by_version = LocalLogStore(table), {}
    gate.wait()
    for turn in range(commits):
        run, path = f"run {number}/{turn}", f"{uuid.uuid4()}.parquet"
        outcome = commit(store, proposal(Snapshot.load(store).version, add(path), txn(run)))
        after_commit(store, outcome.version)
        runs_by_version[outcome.version] = (run, path)
    queue.put(runs_by_version)


@pytest.mark.parametrize("commits", [5, pytest.param(25, marks=pytest.mark.campaign)])
def test_no_commit_of_many_processes_is_lost_or_doubled(tmp_path, commits):
    table = tmp_path / "t"
    store = create(LocalLogStore(str(table)))
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pandas", "deltalake", "deltalite.upkeep.post_commit"])
    gate, queue = context.Barrier(WRITERS), context.Queue()
    writers = [
        context.Process(target=append, args=(str(table), number, commits, gate, queue)) for number in range(WRITERS)
    ]
    for writer in writers:
        writer.start()
    reports = [queue.get(timeout=120) for _ in writers]
    for writer in writers:
        writer.join(30)
        assert writer.exitcode == 0
    everything = {version: commit for runs_by_version in reports for version, commit in runs_by_version.items()}
    assert sum(map(len, reports)) == len(everything) == WRITERS * commits
    assert sorted(everything) == list(range(1, WRITERS * commits + 1))
    for version, (run, path) in everything.items():
        actions = parse_commit(store.read(commit_name(version)), "x")
        assert [a.path for a in actions if isinstance(a, AddFile)] == [path]
        assert [a.app_id for a in actions if isinstance(a, SetTransaction)] == [run]
    paths = {path for _, path in everything.values()}
    snapshot = Snapshot.load(store)
    assert snapshot.version == WRITERS * commits and set(snapshot.files["path"].to_pylist()) == paths
    assert set(snapshot.transactions) == {run for run, _ in everything.values()}
    assert {Path(uri).name for uri in deltalake.DeltaTable(str(table)).file_uris()} == paths

"""Sixteen processes append to one table: the log contains each commit exactly once."""

from __future__ import annotations

import multiprocessing
import uuid
from pathlib import Path

import deltalake
import pytest

from deltalite.protocol.actions import AddFile, SetTransaction
from deltalite.protocol.file_names import commit_name
from deltalite.snapshot import Snapshot
from deltalite.storage.local import LocalLogStore
from deltalite.txn.commit import commit
from deltalite.upkeep.post_commit import after_commit
from tests.support.commits import parse_commit
from tests.unit.builders import add, create, proposal, txn

WRITERS = 16


def append(table, number, commits, barrier, queue):
    """Append repeatedly to the newest version. Each commit is a separate run.

    Puts `{version: (app id, path of the file)}` into the queue.
    """
    store, run_and_path_by_version = LocalLogStore(table), {}
    barrier.wait()
    for turn in range(commits):
        run, path = f"run {number}/{turn}", f"{uuid.uuid4()}.parquet"
        outcome = commit(store, proposal(Snapshot.load(store).version, add(path), txn(run)))
        after_commit(store, outcome.version)
        run_and_path_by_version[outcome.version] = (run, path)
    queue.put(run_and_path_by_version)


@pytest.mark.parametrize("commits", [5, pytest.param(25, marks=pytest.mark.campaign)])
def test_the_log_contains_each_commit_of_many_processes_exactly_once(tmp_path, commits):
    table = tmp_path / "t"
    store = create(LocalLogStore(str(table)))
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pandas", "deltalake", "deltalite.upkeep.post_commit"])
    barrier, queue = context.Barrier(WRITERS), context.Queue()
    writers = [
        context.Process(target=append, args=(str(table), number, commits, barrier, queue)) for number in range(WRITERS)
    ]
    for writer in writers:
        writer.start()
    reports = [queue.get(timeout=120) for _ in writers]
    for writer in writers:
        writer.join(30)
        assert writer.exitcode == 0
    run_and_path_by_version = {version: run for report in reports for version, run in report.items()}
    assert sum(map(len, reports)) == len(run_and_path_by_version) == WRITERS * commits
    assert sorted(run_and_path_by_version) == list(range(1, WRITERS * commits + 1))
    for version, (run, path) in run_and_path_by_version.items():
        actions = parse_commit(store.read(commit_name(version)), "x")
        assert [action.path for action in actions if isinstance(action, AddFile)] == [path]
        assert [action.app_id for action in actions if isinstance(action, SetTransaction)] == [run]
    paths = {path for _, path in run_and_path_by_version.values()}
    snapshot = Snapshot.load(store)
    assert snapshot.version == WRITERS * commits and set(snapshot.files["path"].to_pylist()) == paths
    assert set(snapshot.transactions) == {run for run, _ in run_and_path_by_version.values()}
    assert {Path(uri).name for uri in deltalake.DeltaTable(str(table)).file_uris()} == paths

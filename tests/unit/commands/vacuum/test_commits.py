"""A vacuum commits its start and its end, also after a retry, beside concurrent writers and after a failure."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from deltalite.commands import vacuum as command
from deltalite.commands.common.committing import now_ms
from deltalite.commands.vacuum import vacuum
from deltalite.errors import (
    StorageError,
    StoragePermissionError,
)
from deltalite.loaded_files.manifest import Manifest, manifest_name
from deltalite.loaded_files.record import add_loaded_files
from deltalite.protocol.actions import LOADED_FILES_APP_ID
from deltalite.protocol.file_names import LAST_VACUUM, LOADED_FILES_DIR
from deltalite.protocol.properties import HOUR_MS
from deltalite.requests import RunIdentity, VacuumRequest
from deltalite.snapshot import Snapshot
from deltalite.storage.fsspec_store import FsspecLogStore
from deltalite.storage.local_tree import LocalTree
from deltalite.storage.opening import listed_tree, open_store
from deltalite.upkeep.vacuum import full_plan
from deltalite.upkeep.vacuum_rules import retention_of
from tests.support.table_history import DAYS
from tests.support.tables import actions_of, folder_content, without_time
from tests.unit.commands.vacuum.vacuuming import OLD_H, WEEK_H, run_vacuum, vacuum_and_list_deleted, write_file
from tests.unit.loaded_files.test_record import files as loaded_files


@pytest.mark.smoke
def test_history_shows_start_and_end_with_the_names_of_delta_spark(history):
    history.append(2)
    size = sum(f.add["size"] for f in history.live.values())
    history._commit(history._remove_actions(history.live.values()), {})
    history.advance_clock(OLD_H)
    result = run_vacuum(history, identity=RunIdentity(app_id="run", details={"dag_id": "d"}), user_metadata="why")
    start, end = (actions_of(history.folder, version)["commitInfo"] for version in (3, 4))
    assert (start["operation"], without_time(start["operationMetrics"])) == (
        "VACUUM START", {"numFilesToDelete": "2", "sizeOfDataToDelete": str(size)},
    )  # fmt: skip
    assert start["operationParameters"] == {"retentionCheckEnabled": True, "defaultRetentionMillis": WEEK_H * HOUR_MS}
    assert (end["operation"], end["operationParameters"]) == ("VACUUM END", {"status": "COMPLETED"})
    assert (end["operationMetrics"]["numDeletedFiles"], end["operationMetrics"]["numVacuumedDirectories"]) == ("2", "3")
    assert "txn" not in actions_of(history.folder, 3) and actions_of(history.folder, 4)["txn"]["appId"] == "run"
    assert (result.operation, result.version, result.committed) == ("VACUUM END", 4, True)
    assert "why" in end["userMetadata"]


def test_the_end_commit_has_the_execution_time_of_the_deletion(history, monkeypatch):
    now_s, sweep = [0.0], command.sweep

    def slow_sweep(tree, plan):
        now_s[0] += 60
        return sweep(tree, plan)

    monkeypatch.setattr(command, "sweep", slow_sweep)
    monkeypatch.setattr(command, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    result = run_vacuum(history)
    end = actions_of(history.folder, result.version)["commitInfo"]
    assert end["operationMetrics"]["executionTimeMs"] == "60000" and result.metrics["executionTimeMs"] == 60_000


def test_a_retried_run_finds_its_end_commit_and_deletes_nothing(history):
    result = run_vacuum(history, identity=RunIdentity(app_id="run"))
    write_file(history, "orphan")
    retried = run_vacuum(history, identity=RunIdentity(app_id="run"))
    assert (retried.skipped, retried.version, retried.metrics) == (True, result.version, result.metrics)
    assert "orphan" in history.files() and len(history.states) == 3


def test_a_vacuum_deletes_the_records_of_loaded_files_that_no_version_names(history):
    history.now_ms = now_ms()  # the store writes records at the time of this machine
    first = add_loaded_files(history.store, Manifest(), loaded_files(("a", 1, 1)), loaded_ms=1)
    for name in ("lost a race", "b"):
        add_loaded_files(history.store, first, loaded_files((name, 1, 1)), loaded_ms=1)
    history._commit([{"txn": {"appId": LOADED_FILES_APP_ID, "version": 2}}], history.live)
    records = {manifest_name(number) for number in range(3)}
    names = {f"{LOADED_FILES_DIR}/{file.name}" for file in (history.folder / LOADED_FILES_DIR).iterdir()}
    assert records < names

    def remaining_manifests():
        return {name for name in records if (history.folder / name).exists()}

    history.advance_clock(29 * 24)
    run_vacuum(history)
    assert remaining_manifests() == records
    history.advance_clock(2 * 24)
    run_vacuum(history, dry_run=True)
    assert remaining_manifests() == records
    run_vacuum(history)
    assert remaining_manifests() == {manifest_name(2)}


def test_a_dry_run_lists_files_and_changes_nothing(history, caplog):
    history.append(2)
    history.replace(None)
    write_file(history, "big/a.parquet", content=b"x" * 3_000_000)
    write_file(history, "big/b.parquet")
    history.advance_clock(OLD_H)
    caplog.set_level("INFO", "deltalite")
    before = folder_content(history.folder)
    result = run_vacuum(history, dry_run=True, identity=RunIdentity(app_id="run"))
    assert folder_content(history.folder) == before
    assert (result.committed, result.version, result.metrics["numFilesToDelete"]) == (False, 2, 4)
    assert "2.9 MiB in 2 files of big" in caplog.text and "would delete big/a.parquet" in caplog.text
    assert len(vacuum_and_list_deleted(history)) == result.metrics["numFilesToDelete"]


def test_a_file_that_cannot_be_deleted_fails_the_vacuum_after_the_other_files(history, monkeypatch):
    for number in range(3):
        write_file(history, f"orphan {number}")
    unlink = os.unlink

    def unlink_or_fail(path, **options):
        if path == "orphan 1":
            raise PermissionError(13, "no", path)
        unlink(path, **options)

    monkeypatch.setattr(os, "unlink", unlink_or_fail)
    with pytest.raises(StoragePermissionError, match=r"deleted 2 files, and could not delete 1\."):
        run_vacuum(history, identity=RunIdentity(app_id="run"))
    history.record_library_commits()
    assert history.files() == {"orphan 1"}
    assert actions_of(history.folder, 2)["commitInfo"]["operationParameters"] == {"status": "FAILED"}
    assert "txn" not in actions_of(history.folder, 2)
    assert not (history.folder / LAST_VACUUM).exists()
    monkeypatch.undo()
    assert run_vacuum(history, identity=RunIdentity(app_id="run")).committed and history.files() == set()


def test_a_file_that_a_rival_restores_before_the_start_stays(history, monkeypatch):
    history.append()
    (old,) = history.live.values()
    history.replace(None)
    history.advance_clock(OLD_H)
    plan_vacuum = command._plan

    def plan_before_rival(*arguments):
        plan = plan_vacuum(*arguments)
        assert plan.files.num_rows == 1
        history._commit([{"add": old.add}], {**history.live, old.add["path"]: old})
        return plan

    monkeypatch.setattr(command, "_plan", plan_before_rival)
    assert vacuum_and_list_deleted(history) == set()
    assert history.read()[3][0] == history.rows_of(3)


def test_two_concurrent_vacuums_delete_each_file_once(history):
    for number in range(300):
        write_file(history, f"a/{number}.parquet")
    requests = [VacuumRequest(table=str(history.folder), identity=RunIdentity(app_id=f"run {n}")) for n in range(2)]
    with ThreadPoolExecutor() as pool:
        results = list(pool.map(lambda request: vacuum(None, request, clock_ms=lambda: history.now_ms), requests))
    assert sum(result.metrics["numDeletedFiles"] for result in results) == 300
    assert all(result.committed for result in results) and history.files() == set()


@pytest.mark.parametrize("kind", ["local", "fsspec"])
def test_a_plan_is_made_without_spark(history, kind):
    import fsspec

    history.append(2)
    history.replace(DAYS[0])
    unreferenced_file = write_file(history, "a b/%41/old.parquet")
    write_file(history, "_hidden/old")
    history.advance_clock(OLD_H)
    local = fsspec.filesystem("file")
    store = open_store(str(history.folder)) if kind == "local" else FsspecLogStore(str(history.folder), local)
    snapshot = Snapshot.load(store)
    retention = retention_of(snapshot.configuration, None, confirmed=False, now_ms=history.now_ms, table=store.root)
    plan = full_plan(snapshot, listed_tree(store), retention)
    expected = vacuum_and_list_deleted(history)
    assert set(plan.files["name"].to_pylist()) == expected and len(expected) == 2 and unreferenced_file in expected
    assert plan.largest_folders(1)[0].name == "day=a b"


def test_a_folder_that_cannot_be_listed_fails_the_vacuum_before_it_deletes(history, monkeypatch):
    write_file(history, "a/orphan")
    write_file(history, "b/orphan")
    list_folder = LocalTree.list

    def list_or_fail(tree, folder):
        if folder == "b":
            raise StorageError("b did not answer.", remedy="")
        return list_folder(tree, folder)

    monkeypatch.setattr(LocalTree, "list", list_or_fail)
    before = folder_content(history.folder)
    with pytest.raises(StorageError, match="b did not answer"):
        run_vacuum(history)
    assert folder_content(history.folder) == before

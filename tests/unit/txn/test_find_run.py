"""The commit of a run is found by its app id, and gives the run's result."""

from __future__ import annotations

import pytest

from deltalite.errors import CommitStateUnknownError, CorruptLogError
from deltalite.log import action_files
from deltalite.markers import parse_marker, result_marker
from deltalite.protocol.file_names import commit_name
from deltalite.requests import RunIdentity
from deltalite.results import OperationResult
from deltalite.txn.find_run import earlier_result, find_run, find_run_commit, result_of_version
from deltalite.upkeep.checkpoint import write_checkpoint
from tests.unit.builders import (
    NOON_MS,
    RequestLog,
    add,
    append_files,
    commit_actions,
    commit_info,
    create,
    load,
    new_store,
    put_raw,
    txn,
)

APP_ID = 'ns/dag "é"/task/-1/manual__2026-01-01T00:00:00+00:00'


@pytest.fixture
def store():
    """Versions 0 to 5. Version 2 is the commit of the run, and version 3 is the commit of another run."""
    store = append_files(create(new_store()), 1)
    commit_actions(store, add("mine"), txn(APP_ID, 0), metrics={"numFiles": 1, "numOutputRows": 7}, name="WRITE")
    commit_actions(store, add("x"), txn("another", 5))
    return append_files(store, 2)


def test_the_result_of_an_earlier_attempt_comes_from_its_commit(store):
    assert find_run(store, RunIdentity(app_id=APP_ID)) == OperationResult(
        table="memory://table", operation="WRITE", version=2, read_version=1, committed=False, skipped=True,
        app_id=APP_ID, txn_version=0, timestamp=NOON_MS + 1000, metrics={"numFiles": 1, "numOutputRows": 7},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("app_id", "txn_version", "version"),
    [
        (APP_ID, 0, 2),
        (APP_ID, 1, None),
        ("another", 0, 3),
        ("another", 5, 3),
        ("another", 6, None),
        ("nobody", 0, None),
    ],
)
def test_a_run_has_committed_if_the_log_has_its_transaction_version_or_higher(store, app_id, txn_version, version):
    result = find_run(store, RunIdentity(app_id=app_id, txn_version=txn_version))
    assert (result and result.version) == version


def test_a_snapshot_before_the_commit_does_not_contain_the_run(store):
    assert earlier_result(load(store, 1), "t", RunIdentity(app_id=APP_ID)) is None
    assert earlier_result(load(store, 2), "t", RunIdentity(app_id=APP_ID)).table == "t"
    assert find_run_commit(store, APP_ID, at_or_below=1) is None


def test_find_run_commit_returns_the_newest_generation(store):
    commit_actions(store, add("again"), add("and again"), txn(APP_ID, 1))
    run_commit = find_run_commit(store, APP_ID, at_or_below=10)
    assert (run_commit.version, run_commit.txn.version, run_commit.added_paths) == (6, 1, {"again", "and again"})
    assert find_run(store, RunIdentity(app_id=APP_ID)).txn_version == 1
    assert find_run_commit(store, APP_ID, at_or_below=5).version == 2


def test_an_app_id_outside_a_transaction_is_ignored(store):
    commit_actions(store, add("x"), user_metadata="another")
    assert find_run_commit(store, "another", at_or_below=10).version == 3


def test_a_run_at_the_end_of_a_large_commit_is_found_in_bounded_memory(store, monkeypatch):
    monkeypatch.setattr(action_files, "_BLOCK_BYTES", 500)
    put_raw(store, 6, [*(add(f"f{n}") for n in range(50)), txn("late", 3), commit_info(operation="X")])
    requests = RequestLog(store)
    run_commit = find_run_commit(store, "late", at_or_below=10)
    assert (run_commit.version, run_commit.txn.version, run_commit.info["operation"]) == (6, 3, "X")
    assert run_commit.added_paths == {f"f{n}" for n in range(50)}
    assert "read" not in {operation for operation, _ in requests.accesses}


def test_the_error_names_the_number_of_a_malformed_line(store, monkeypatch):
    monkeypatch.setattr(action_files, "_BLOCK_BYTES", 500)
    lines = [*(add(f"f{n}") for n in range(50)), {"commitInfo": "late"}]
    put_raw(store, 6, lines)
    with pytest.raises(CorruptLogError, match="The commitInfo in line 51 of"):
        find_run_commit(store, "late", at_or_below=10)


def test_a_malformed_commit_that_does_not_name_the_run_is_ignored(store):
    put_raw(store, 6, b'{"add"')
    assert find_run_commit(store, APP_ID, at_or_below=10).version == 2


def test_a_commit_that_vanishes_during_the_search_is_skipped(store):
    def vanish(operation, name):
        store.files.pop(commit_name(3), None) if operation == "read" else None

    commit_actions(store, add("x"), txn(APP_ID, 7))
    store.before = vanish
    assert find_run_commit(store, "another", at_or_below=10) is None
    assert find_run_commit(store, APP_ID, at_or_below=5).version == 2


def test_a_version_that_a_listing_does_not_show_yet_is_read_by_its_name(store, monkeypatch):
    list_from = store.list_from
    monkeypatch.setattr(store, "list_from", lambda name: list(list_from(name))[:-3])
    assert find_run_commit(store, "another", at_or_below=5).version == 3


def test_a_version_has_the_result_of_its_run_after_its_transaction_has_expired():
    store = create(new_store(), configuration={"delta.setTransactionRetentionDuration": "interval 1 millisecond"})
    commit_actions(store, add("mine"), txn(APP_ID, 4, last_updated_ms=NOON_MS), metrics={"numOutputRows": 7})
    result = result_of_version(store, 1, APP_ID)
    assert (result.version, result.txn_version, result.skipped, result.metrics) == (1, 4, True, {"numOutputRows": 7})
    with pytest.raises(CommitStateUnknownError, match="version 0"):
        result_of_version(store, 0, APP_ID)


def test_a_run_has_committed_although_a_cleanup_deleted_its_commit(store):
    write_checkpoint(load(store), now_ms=NOON_MS)
    for version in range(5):
        del store.files[commit_name(version)]
    result = find_run(store, RunIdentity(app_id=APP_ID))
    assert (result.version, result.operation, result.skipped, result.timestamp) == (None, "UNKNOWN", True, NOON_MS)


def test_a_run_with_an_expired_transaction_has_not_committed():
    store = create(new_store(), configuration={"delta.setTransactionRetentionDuration": "interval 1 day"})
    commit_actions(store, add("mine"), txn(APP_ID, 0, last_updated_ms=NOON_MS))
    assert find_run(store, RunIdentity(app_id=APP_ID)) is None


def test_a_table_that_does_not_exist_has_no_runs():
    assert find_run(new_store(), RunIdentity(app_id=APP_ID)) is None


@pytest.mark.parametrize("metrics", [None, {}, {"a": "x", "b": "", "c": None, "d": "1.5"}])
def test_the_run_of_a_commit_without_valid_metrics_is_found(metrics):
    store = create(new_store())
    put_raw(store, 1, [txn(APP_ID, 0), commit_info(operationMetrics=metrics) if metrics is not None else add("a")])
    assert find_run(store, RunIdentity(app_id=APP_ID)).metrics == {}


@pytest.mark.parametrize(
    "commit_info_values",
    [
        {"operationMetrics": ["numFiles"]},
        {"operationMetrics": "7"},
        {"operationMetrics": {"a": "--5", "b": "\u00b2", "c": "9" * 5000, "d": True, "e": str(2**63)}},
        {"operationParameters": {"sourceVersions": "{"}},
        {"operationParameters": {"sourceVersions": "[1, 2]"}},
        {"operationParameters": {"sourceVersions": '{"source": "3"}'}},
        {"operationParameters": {"sourceVersions": "[" * 100_000}},
        {"operationParameters": ["sourceVersions"]},
        {"operation": {"name": "WRITE"}, "readVersion": "1", "timestamp": "noon"},
        {"operation": None, "readVersion": True, "timestamp": 10**400},
        {"userMetadata": {"dag_id": "x"}},
        {"userMetadata": "{" + '"a":' * 100_000},
    ],
)
def test_provenance_of_unexpected_types_does_not_fail_the_lookup(commit_info_values):
    """Another program may have used the app id. Values of a wrong type count as absent."""
    store = create(new_store())
    put_raw(
        store, 1, [txn(APP_ID, 0, last_updated_ms=NOON_MS), commit_info(**{"operation": "WRITE", **commit_info_values})]
    )
    details = {"idempotency_key": "k", "run_start": "2026-01-01T00:00:00+00:00"}
    result = find_run(store, RunIdentity(app_id=APP_ID, details=details))
    assert (result.version, result.metrics, result.source_versions) == (1, {}, {})
    assert result.operation in ("WRITE", "UNKNOWN")
    assert result.read_version is None
    assert result.timestamp == NOON_MS
    assert parse_marker(result_marker(result)) == result

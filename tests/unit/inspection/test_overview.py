"""The overview of a table, its commits, and the changes of a version: bounded values for a page."""

from __future__ import annotations

import json
import threading

import pytest

from deltalite.errors import VersionNotFoundError
from deltalite.inspection import overview as module
from deltalite.inspection import shown_texts
from deltalite.inspection.commit_effort import CommitEffort
from deltalite.inspection.commit_entries import commit_entries, entries_since, entry_of_version
from deltalite.inspection.overview import MAX_COLUMNS, read_overview
from deltalite.inspection.shown_texts import shown_text
from deltalite.inspection.table_rows import Outcome
from deltalite.inspection.version_changes import MAX_PATHS, read_version_changes
from deltalite.protocol.actions import Protocol
from deltalite.protocol.file_names import commit_name
from deltalite.protocol.schema import PrimitiveType, StructField, StructType
from deltalite.requests import DEFAULT_THRESHOLDS
from deltalite.snapshot import Snapshot
from deltalite.storage.local import LocalLogStore
from deltalite.txn.find_run import CLOCK_SKEW_SECONDS
from deltalite.upkeep.checkpoint import write_checkpoint
from tests.support.valid_table import create_valid_table
from tests.unit.builders import (
    NOON_MS,
    add,
    append_files,
    commit_actions,
    create,
    metadata,
    new_store,
    put_raw,
    struct,
    vector,
)


def overview_of(store, **options):
    return read_overview(store, DEFAULT_THRESHOLDS, now_ms=NOON_MS, **options)


def entry_of(**info):
    """The entry of a commit with this provenance."""
    store = create(new_store())
    put_raw(store, 1, [{"commitInfo": {"timestamp": 1, **info}}])
    [entry] = commit_entries(store, Snapshot.load(store), up_to_version=1, limit=1)
    return entry


@pytest.mark.parametrize(
    ("read_version", "meanwhile"),
    [(0, 1), (1, 0), (None, 0), (-3, 0), (2, 0), (10**30, 0), (True, 0), ("0", 0), (0.5, 0)],
)
def test_the_entry_of_a_commit_counts_the_versions_of_other_writers_since_its_read_version(read_version, meanwhile):
    store = append_files(create(new_store()), 1)
    put_raw(store, 2, [{"commitInfo": {"timestamp": 1, "readVersion": read_version}}])
    [entry] = commit_entries(store, Snapshot.load(store), up_to_version=2, limit=1)
    assert entry.effort.versions_meanwhile == meanwhile


def test_the_duration_and_the_replans_of_a_commit_are_known_if_its_writer_recorded_them():
    assert entry_of(operationMetrics={"executionTimeMs": "65400"}).effort.duration_ms == 65_400
    assert entry_of(operationMetrics={"execution_time_ms": 18}).effort.duration_ms == 18
    assert entry_of(operationMetrics={"executionTimeMs": "-1"}).effort.duration_ms is None
    assert entry_of(operationMetrics={"numReplans": "2"}).effort.replans == 2
    assert entry_of(operation="WRITE").effort == CommitEffort()


def test_only_the_parameters_and_metrics_that_an_entry_shows_are_searched_for_secrets(monkeypatch):
    searched_texts = []
    monkeypatch.setattr(shown_texts, "redacted", lambda text: searched_texts.append(text) or text)
    values = {"empty": "", **{f"name{number}": f"value{number}" for number in range(1_000)}}
    entry = entry_of(operationParameters=values, operationMetrics=values)
    assert entry.parameters == entry.metrics == tuple((f"name{n}", f"value{n}") for n in range(60))
    assert sum(text.startswith("value") for text in searched_texts) == 2 * 60


# --- the overview ---


def test_an_overview_has_the_facts_of_the_newest_version(tmp_path):
    overview = overview_of(create_valid_table(tmp_path / "t"))
    assert (overview.version, overview.live_rows, overview.files) == (5, 4, 2)
    assert [(row.name, row.partition_index) for row in overview.columns] == [("id", None), ("name", None), ("day", 1)]
    assert overview.features == ("changeDataFeed", "deletionVectors")
    assert overview.measures.steps[0].outcome is Outcome.DUE
    assert overview.last_commit is not None and overview.last_commit.version == 5


def test_a_later_read_without_a_new_commit_returns_the_earlier_overview_after_two_requests():
    store = append_files(create(new_store()), 3)
    first = overview_of(store)
    requests = []
    store.before = lambda operation, name: requests.append(operation)
    assert overview_of(store, earlier=first) is first
    assert requests == ["read_start", "read_start"]
    append_files(store, 1)
    assert overview_of(store, earlier=first).version == 4


def test_the_commit_of_a_version_is_read_in_the_thread_of_the_caller():
    store = append_files(create(new_store()), 2)
    snapshot, threads = Snapshot.load(store), set()
    store.before = lambda *_: threads.add(threading.current_thread())
    entry = entry_of_version(store, snapshot)
    assert entry is not None and entry.version == 2
    assert threads == {threading.current_thread()}


def test_the_search_for_commits_since_a_time_ends_at_an_older_commit():
    store = append_files(create(new_store()), 99)
    snapshot, read_names = Snapshot.load(store), []
    times = {
        entry.version: entry.timestamp_ms for entry in commit_entries(store, snapshot, up_to_version=99, limit=100)
    }
    store.before = lambda _operation, name: read_names.append(name)
    since_ms = times[95] + CLOCK_SKEW_SECONDS * 1000
    assert [entry.version for entry in entries_since(store, snapshot, since_ms=since_ms, limit=100)] == [
        *range(99, 94, -1)
    ]
    assert commit_name(60) not in read_names
    assert [entry.version for entry in entries_since(store, snapshot, since_ms=0, limit=3)] == [99, 98, 97]


def test_a_version_whose_commit_the_log_no_longer_holds_has_no_last_commit(tmp_path):
    store = append_files(create(LocalLogStore(str(tmp_path / "t"))), 2)
    write_checkpoint(Snapshot.load(store), now_ms=NOON_MS)
    (tmp_path / "t" / commit_name(2)).unlink()
    overview = overview_of(store)
    assert (overview.version, overview.last_commit) == (2, None)


def test_a_recreated_table_gets_a_new_overview():
    store = append_files(create(new_store()), 3)
    first = overview_of(store)
    store.files.clear()
    create(store, id="other")
    second = overview_of(store, earlier=first)
    assert (second.version, second.table_id) == (0, "other")


def test_an_overview_makes_no_texts_of_columns_that_it_leaves_out(monkeypatch):
    texts = []
    monkeypatch.setattr(module, "shown_text", lambda value, **_options: texts.append(value) or "")
    monkeypatch.setattr(module, "MAX_COLUMNS", 2)
    store = create(new_store(), schema=struct(a="long", b="long", c="long"))
    overview = overview_of(store)
    assert (len(overview.columns), overview.column_count) == (2, 3)
    assert {"a", "b"} <= set(texts) and "c" not in texts


def test_contradictory_numbers_of_rows_are_unknown():
    vector_of_five = {**vector("ab^-aqEH.-t@S}K{vb[*k^"), "cardinality": 5}
    features = ("deletionVectors",)
    protocol = Protocol(min_reader_version=3, min_writer_version=7, reader_features=features, writer_features=features)
    store = new_store()
    file = add("f", stats='{"numRecords": 2}', deletion_vector=vector_of_five)
    commit_actions(store, protocol, metadata(), file, read_version=-1)
    overview = overview_of(store)
    assert (overview.rows, overview.live_rows, overview.deleted_rows_ratio) == (2, None, 0.0)


def test_a_number_of_rows_that_no_double_holds_does_not_hide_the_table():
    store = create(new_store(), add("f", stats=json.dumps({"numRecords": 2**53 + 1})))
    overview = overview_of(store)
    assert overview.rows == 2**53 + 1 and overview.measures is not None


def test_texts_and_columns_of_an_overview_are_bounded():
    fields = tuple(StructField(f"c{number}", PrimitiveType("long")) for number in range(MAX_COLUMNS + 1))
    store = create(new_store(), schema=StructType(fields), description="d" * 5_000,
                   configuration={"user.password": "planted", "k": "v" * 5_000})  # fmt: skip
    overview = overview_of(store)
    assert (len(overview.columns), overview.column_count) == (MAX_COLUMNS, MAX_COLUMNS + 1)
    assert len(overview.description) == 1_001
    assert overview.properties["user.password"] == "***"
    assert len(overview.properties["k"]) == 301


# --- commits ---


@pytest.mark.parametrize(
    ("operation", "metrics", "counts"),
    [
        ("WRITE", {"numOutputRows": "5"}, (5, None, None)),
        ("DELETE", {"numDeletedRows": "2", "numCopiedRows": "9", "numOutputRows": "9"}, (None, 2, None)),
        ("UPDATE", {"numUpdatedRows": "3", "numCopiedRows": "9"}, (None, None, 3)),
        (
            "MERGE",
            {
                "numTargetRowsInserted": "1",
                "numTargetRowsUpdated": "2",
                "numTargetRowsDeleted": "3",
                "numOutputRows": "7",
            },
            (1, 3, 2),
        ),
        # the names of delta-rs, whose values are numbers
        ("WRITE", {"num_added_rows": 7, "num_added_files": 1}, (7, None, None)),
        ("DELETE", {"num_deleted_rows": 1, "num_copied_rows": 4}, (None, 1, None)),
        ("UPDATE", {"num_updated_rows": 2, "num_copied_rows": 4}, (None, None, 2)),
        (
            "MERGE",
            {
                "num_target_rows_inserted": 1,
                "num_target_rows_updated": 2,
                "num_target_rows_deleted": 0,
                "num_output_rows": 5,
            },
            (1, 0, 2),
        ),
        ("MERGE", {"numOutputRows": "7"}, (None, None, None)),
        ("OPTIMIZE", {"numOutputRows": "7"}, (None, None, None)),
        ("WRITE", {"numOutputRows": "many"}, (None, None, None)),
        ("WRITE", {"numOutputRows": "9" * 30}, (None, None, None)),
        ("WRITE", "not a mapping", (None, None, None)),
    ],
)
def test_the_rows_of_a_commit_come_from_its_metrics(operation, metrics, counts):
    entry = entry_of(operation=operation, operationMetrics=metrics)
    assert (entry.rows_added, entry.rows_removed, entry.rows_updated) == counts


def test_a_commit_names_its_task_its_sources_and_its_audits():
    audit = {"name": "ids", "kind": "rows", "on": "batch", "level": "error", "passed": False, "measured": 3}
    entry = entry_of(
        operation="WRITE",
        userMetadata=json.dumps({"dag_id": "d", "task_id": "t", "run_id": "r", "try_number": 2, "generation": 1}),
        operationParameters={
            "mode": "Append",
            "sourceVersions": '{"raw": 4}',
            "audits": json.dumps([{**audit, "threshold": "max_rows=0"}]),
        },
    )
    assert entry.run is not None and (entry.run.dag_id, entry.run.try_number) == ("d", 2)
    assert (entry.generation, entry.user_metadata) == (1, "")
    assert entry.source_versions == {"raw": 4}
    assert [(a.name, a.passed) for a in entry.audits] == [("ids", False)]
    assert entry.parameters == (("mode", "Append"),)


def test_provenance_with_an_impossible_dag_id_names_no_task():
    entry = entry_of(userMetadata=json.dumps({"dag_id": "d" * 251, "task_id": "t"}))
    assert entry.run is None


# --- the changes of a version ---


def test_the_changes_of_a_version_are_its_differences_from_the_previous_version():
    store = create(new_store(), add("a", size_bytes=5), configuration={"old": "1"})
    commit_actions(
        store, metadata({"new": "2"}, struct(id="long", day="string", note="string")), add("b", size_bytes=7)
    )
    changes = read_version_changes(store, 1)
    assert (changes.before, changes.files_added, changes.files_removed, changes.files_kept) == (0, 1, 0, 1)
    assert (changes.bytes_added, changes.total_files, changes.total_bytes) == (7, 2, 12)
    assert changes.added_paths == ("b",)
    assert [(change.subject, change.kind) for change in changes.schema] == [("note", "added")]
    assert [(change.subject, change.kind) for change in changes.properties] == [("new", "added"), ("old", "removed")]


def test_the_first_version_has_nothing_to_compare_with():
    changes = read_version_changes(create(new_store(), add("a")), 0)
    assert (changes.before, changes.rows_before, changes.total_files) == (None, None, 1)


def test_the_paths_of_a_version_are_bounded():
    store = create(new_store())
    commit_actions(store, *(add(f"f{number}") for number in range(MAX_PATHS + 1)))
    changes = read_version_changes(store, 1)
    assert (changes.files_added, len(changes.added_paths)) == (MAX_PATHS + 1, MAX_PATHS)


def test_a_version_that_does_not_exist_is_refused():
    with pytest.raises(VersionNotFoundError):
        read_version_changes(create(new_store()), 7)


# --- texts ---


@pytest.mark.parametrize(
    ("value", "name", "text"),
    [
        (None, "", ""),
        ("a\nb\x1b[1m\u202e", "", "a b\\x1b[1m\\u202e"),
        ({"a": [1]}, "", '{"a": [1]}'),
        ("planted", "fs.s3a.secret.key", "***"),
        ("x password='planted' y", "", "x password=*** y"),
        ("x" * 299 + " token=planted", "", "x" * 299 + " …"),
        ("value", "x" * 5_000, "***"),
    ],
)
def test_a_shown_text_is_one_bounded_line_without_secrets(value, name, text):
    assert shown_text(value, name=name) == text

"""Restore of local tables without Spark: the restored state, the kept state, and rejections that change nothing."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltalite import DeltaTable
from deltalite.commands.restore import command, restore
from deltalite.errors import (
    AppendOnlyError,
    ConcurrentAppendException,
    InvalidRequestError,
    InvalidTableAddressError,
    TableNotFoundError,
    TimestampOutOfRangeError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from deltalite.inspection.verify import verify
from deltalite.protocol.actions import DomainMetadata, Protocol
from deltalite.protocol.clustering import CLUSTERING_DOMAIN, clustering_columns
from deltalite.protocol.features import supported_features
from deltalite.protocol.file_names import commit_name
from deltalite.requests import OnRerun, RestoreRequest, RunIdentity
from deltalite.snapshot import Snapshot
from tests.support.fuzzing import examples
from tests.support.properties import FEED
from tests.support.table_history import DAYS, TableHistory, ids, restore_history
from tests.support.tables import actions_of, delta_rs_arrow, without_time
from tests.unit.builders import (
    add,
    add_rival,
    commit_actions,
    create,
    load,
    metadata,
    new_store,
    newest_version,
    paths,
    put_raw,
    remove,
    txn,
)

MAX_COLUMN_ID = "delta.columnMapping.maxColumnId"
COLUMN_ID, PHYSICAL_NAME = "delta.columnMapping.id", "delta.columnMapping.physicalName"
RUN_IDENTITY = RunIdentity(app_id="airflow/d/restore/-1/r")


def ids_by_delta_rs(history, version=None):
    return sorted(delta_rs_arrow(history.folder, version)["id"].to_pylist())


def row_changes(history, version):
    return sorted((row[2], row[0]) for row in history._changes(version))


@pytest.mark.smoke
def test_a_restored_table_has_the_rows_of_the_older_version_and_all_versions_stay(history):
    history.append(2)
    history.delete_rows()
    history.replace(DAYS[0])
    history.delete_rows()
    history.append()
    expected = {version: history.rows_of(version) for version in range(len(history.states))}
    result = restore_history(history, 2)
    assert (result.operation, result.version, result.read_version, result.committed) == ("RESTORE", 6, 5, True)
    assert ids(history) == ids_by_delta_rs(history) == expected[2]
    assert {v: ids(history, v) for v in expected} == expected
    assert verify(history.store).findings == ()
    assert restore_history(history, 5).version == 7
    assert ids(history) == expected[5], "a restore is undone by a restore"


def test_history_shows_the_restore_with_the_metrics_of_delta_spark(history):
    history.append(2)
    history.replace(DAYS[0])
    result = restore_history(history, 1, user_metadata="why")
    (entry,) = DeltaTable(str(history.folder)).history(limit=1)
    size = sum(f.add["size"] for f in history.states[1].values())
    (removed_size,) = [f.add["size"] for p, f in history.states[2].items() if p not in history.states[1]]
    (restored_size,) = [f.add["size"] for p, f in history.states[1].items() if p not in history.states[2]]
    metrics = {"tableSizeAfterRestore": size, "numOfFilesAfterRestore": 2, "numRemovedFiles": 1,
               "numRestoredFiles": 1, "removedFilesSize": removed_size, "restoredFilesSize": restored_size}  # fmt: skip
    assert entry["operation"] == "RESTORE"
    assert entry["operationParameters"] == {"version": 1, "timestamp": None}
    assert without_time(entry["operationMetrics"]) == {name: str(value) for name, value in metrics.items()}
    assert (entry["userMetadata"], without_time(result.metrics)) == ("why", metrics)


def test_the_change_feed_shows_each_row_that_a_restore_removed_or_added(history):
    history.append()
    history.delete_rows(files=1)
    history.append()
    restore_history(history, 1)
    first, *other_ids = history.rows_of(1)
    removed_ids = sorted(set(history.rows_of(3)) - {first, *other_ids})
    assert row_changes(history, 4) == [("delete", row) for row in removed_ids] + [("insert", first)]


def test_a_restored_file_keeps_the_fields_of_its_add(history):
    history.append()
    name, file = next(iter(history.live.items()))
    body = {**file.add, "tags": {"t": "x", "n": None}, "clusteringProvider": "liquid"}
    history._commit([{"remove": {"path": name, "dataChange": True, "deletionTimestamp": 1}}], {})
    history._commit([{"add": body}], {})
    history._commit([{"remove": {"path": name, "dataChange": True, "deletionTimestamp": 1}}], {})
    restore_history(history, 3)
    (restored_add,) = actions_of(history.folder, 5)["add"]
    assert restored_add == body


@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_a_timestamp_selects_the_version_that_was_current_then(history, has_checkpoint):
    history.append()
    history.advance_clock(1)
    history.append()
    history.advance_clock(1)
    history.append()
    if has_checkpoint:
        history.checkpoint()
    moment = datetime.fromtimestamp((history.times[2] - 1) / 1000, UTC).isoformat()
    result = restore_history(history, timestamp=moment)
    assert ids(history) == history.rows_of(1)
    (entry,) = DeltaTable(str(history.folder)).history(limit=1)
    assert entry["operationParameters"] == {"version": 1, "timestamp": moment}
    assert result.version == 4


def test_a_restore_of_the_current_version_commits_only_with_a_run_identity(history):
    history.append()
    assert not restore_history(history, 1).committed
    assert newest_version(history.store) == 1
    result = restore_history(history, 1, identity=RUN_IDENTITY)
    assert (result.committed, result.version, result.metrics["numRestoredFiles"]) == (True, 2, 0)
    actions = actions_of(history.folder, 2)
    assert actions["txn"]["appId"] == RUN_IDENTITY.app_id
    assert (actions["add"], actions["remove"], "metaData" in actions) == ([], [], False)


def test_a_run_restores_once_and_a_cleared_run_restores_again(history):
    history.append()
    history.append()
    first = restore_history(history, 1, identity=RUN_IDENTITY)
    history.record_library_commits()
    history.append()
    retried = restore_history(history, 1, identity=RUN_IDENTITY)
    assert (retried.skipped, retried.version, retried.metrics) == (True, first.version, first.metrics)
    cleared = restore_history(
        history, 1, identity=RunIdentity(app_id=RUN_IDENTITY.app_id, txn_version=1, on_rerun=OnRerun.WRITE)
    )
    assert (cleared.skipped, cleared.version) == (False, 5)
    assert ids(history) == history.rows_of(1)


def test_transactions_after_the_restored_version_are_kept(history):
    history._commit([{"txn": {"appId": "later", "version": 3, "lastUpdated": 1}}], {})
    restore_history(history, 0)
    assert Snapshot.load(history.store).transactions["later"].version == 3


def test_a_few_files_are_checked_by_name_and_many_by_listing(memory_table, monkeypatch):
    listed_names = []
    list_from = type(memory_table).list_from
    monkeypatch.setattr(
        type(memory_table), "list_from", lambda self, name: listed_names.append(name) or list_from(self, name)
    )
    assert restore_memory_table(1).metrics["numRestoredFiles"] == 1
    assert "" not in listed_names
    commit_actions(memory_table, remove("a"), remove("b"))
    assert restore_memory_table(1).metrics["numRestoredFiles"] == 2
    assert "" in listed_names


def test_an_append_only_table_loses_no_row_but_may_restore_its_properties(tmp_path):
    history = TableHistory(tmp_path / "t")
    body = actions_of(history.folder, 0)["metaData"]
    protocol = actions_of(history.folder, 0)["protocol"]
    new_protocol = {**protocol, "writerFeatures": [*protocol["writerFeatures"], "appendOnly"]}
    append_only = {**body, "configuration": {**body["configuration"], "delta.appendOnly": "true"}}
    history._commit([{"protocol": new_protocol}, {"metaData": append_only}], {})
    restore_history(history, 0)
    assert "delta.appendOnly" not in Snapshot.load(history.store).configuration
    history.record_library_commits()
    history._commit([{"metaData": append_only}], {})
    history.append()
    with pytest.raises(AppendOnlyError, match=r"would remove 1 file\b"):
        restore_history(history, 0)
    assert newest_version(history.store) == 4


def test_schema_and_partitioning_are_restored_with_the_files(tmp_path):
    history = TableHistory(tmp_path / "t")
    history.append(2)
    rows = history.rows_of(1)
    body = actions_of(history.folder, 0)["metaData"]
    schema = json.loads(body["schemaString"])
    schema["fields"] = [{"name": "id", "type": "string", "nullable": True, "metadata": {}}]
    changed_metadata = {**body, "schemaString": json.dumps(schema), "partitionColumns": [], "id": "another"}
    history._commit([*history._remove_actions(history.live.values()), {"metaData": changed_metadata}], {})
    restore_history(history, 1)
    table = DeltaTable(str(history.folder))
    assert (ids(history), table.schema.names) == (rows, ["id", "day"])
    assert table.metadata.partition_columns == ("day",)
    assert table.metadata.id == "another", "it is still the same table"
    assert verify(history.store).findings == ()


def test_a_table_is_restored_across_the_enablement_of_column_mapping(tmp_path):
    history = TableHistory(tmp_path / "t")
    history.append(2)
    rows = history.rows_of(1)
    actions = actions_of(history.folder, 0)
    schema = json.loads(actions["metaData"]["schemaString"])
    for number, (field, name) in enumerate(zip(schema["fields"], ("id", "renamed"), strict=True), 1):
        field["metadata"] = {COLUMN_ID: number, PHYSICAL_NAME: field["name"]}
        field["name"] = name
    properties = {**actions["metaData"]["configuration"], "delta.columnMapping.mode": "name", MAX_COLUMN_ID: "7"}
    protocol = {k: [*v, "columnMapping"] if isinstance(v, list) else v for k, v in actions["protocol"].items()}
    mapped = {**actions["metaData"], "schemaString": json.dumps(schema), "partitionColumns": ["renamed"]}
    history._commit([{"protocol": protocol}, {"metaData": {**mapped, "configuration": properties}}], history.live)
    history.append()
    restore_history(history, 1)
    table = DeltaTable(str(history.folder))
    assert (table.schema.names, ids(history)) == (["id", "day"], rows)
    assert table.metadata.configuration[MAX_COLUMN_ID] == "7"
    assert ids_by_delta_rs(history) == rows
    restore_history(history, 3)
    table = DeltaTable(str(history.folder))
    assert (table.schema.names, ids(history)) == (["id", "renamed"], history.rows_of(3))
    assert table.metadata.configuration[MAX_COLUMN_ID] == "7"
    assert verify(history.store).findings == ()


@pytest.mark.parametrize(
    ("options", "error", "problem"),
    [
        ({"version": 9}, VersionNotFoundError, "9"),
        ({"timestamp": "2001-01-01"}, TimestampOutOfRangeError, "no version at or before"),
        ({"timestamp": "2999-01-01"}, TimestampOutOfRangeError, "future"),
        ({"timestamp": "noon"}, InvalidRequestError, "Invalid time"),
        ({"version": 0, "table": "/nowhere/at/all"}, TableNotFoundError, "nowhere"),
        ({"version": 0, "table": "t@v1"}, InvalidRequestError, "names a version"),
        ({"version": 0, "table": "{{ x }}"}, InvalidTableAddressError, "template"),
    ],
)
def test_the_error_names_the_reason_why_a_restore_is_impossible(history, options, error, problem):
    history.append()
    with pytest.raises(error, match=problem):
        restore(None, RestoreRequest(**{"table": str(history.folder), **options}))
    assert newest_version(history.store) == 1


def test_a_cleaned_up_version_is_rejected(history):
    for _ in range(3):
        history.append()
    history.checkpoint()
    for version in range(3):
        (history.folder / commit_name(version)).unlink()
    with pytest.raises(VersionNotFoundError):
        restore_history(history, 1)


def test_the_error_names_an_unwritable_feature(history):
    protocol = actions_of(history.folder, 0)["protocol"]
    new_protocol = {**protocol, "writerFeatures": [*protocol["writerFeatures"], "collations"]}
    history._commit([{"protocol": new_protocol}], {})
    with pytest.raises(UnsupportedFeatureError, match="collations"):
        restore_history(history, 0)


def test_a_feature_that_was_dropped_later_is_supported_again(history):
    protocol = actions_of(history.folder, 0)["protocol"]
    history._commit([{"protocol": {**protocol, "writerFeatures": protocol["readerFeatures"]}}], {})
    restore_history(history, 0)
    assert supported_features(Snapshot.load(history.store).protocol) == {"deletionVectors", "changeDataFeed"}


@pytest.mark.parametrize("has_rival", [False, True])
def test_the_clustering_of_the_older_version_is_restored_with_its_files(tmp_path, monkeypatch, has_rival):
    clustering = [clustering_domain(column) for column in ("id", "day")]
    protocol = Protocol(min_reader_version=1, min_writer_version=7, writer_features=("clustering", "domainMetadata"))
    store = new_store()
    put_raw(store, 0, [protocol, metadata(), clustering[0]])
    put_raw(store, 1, [clustering[1]])
    monkeypatch.setattr(command, "writable_store", lambda *_a, **_o: store)
    if has_rival:
        add_rival(store, [clustering_domain("id", "day")])
    assert restore_memory_table(0).read_version == (2 if has_rival else 1)
    assert clustering_columns(load(store).domains) == (("id",),)


def clustering_domain(*columns):
    text = json.dumps({"clusteringColumns": [[column] for column in columns]})
    return DomainMetadata(domain=CLUSTERING_DOMAIN, configuration=text, removed=False)


@pytest.fixture
def memory_table(monkeypatch):
    """A table in memory with three versions and the files `a`, `b` and `c`."""
    store = create(new_store(), add("a"))
    commit_actions(store, add("b"))
    commit_actions(store, add("c"), remove("a"))
    for name in "abc":
        store.files[name] = (b"0123456789", 0)
    monkeypatch.setattr(command, "writable_store", lambda *_a, **_o: store)
    return store


def restore_memory_table(version, **options):
    return restore(None, RestoreRequest(table="/t", version=version, **options))


def test_a_concurrent_commit_of_a_rival_is_undone(memory_table):
    memory_table.files["d"] = (b"0123456789", 0)
    add_rival(memory_table, [add("d")], [remove("b"), add("e", data_change=False)])
    assert restore_memory_table(1).read_version == 4
    assert paths(load(memory_table)) == ["a", "b"]


def test_the_error_names_the_last_rival_after_too_many_conflicts(memory_table):
    add_rival(memory_table, [add("d")], [add("e")])
    with pytest.raises(ConcurrentAppendException, match="planned 2 times"):
        restore_memory_table(1, conflict_retries=1)
    assert newest_version(memory_table) == 4


def test_the_commit_of_a_faster_attempt_of_the_run_is_the_result(memory_table):
    add_rival(memory_table, [add("a"), remove("c"), txn(RUN_IDENTITY.app_id)])
    result = restore_memory_table(1, identity=RUN_IDENTITY)
    assert (result.skipped, result.version) == (True, 3)
    assert newest_version(memory_table) == 3


def test_a_property_that_a_rival_sets_concurrently_is_undone(memory_table):
    old_metadata = load(memory_table).metadata
    new_metadata = type(old_metadata)(id="t", schema_string=old_metadata.schema_string, partition_columns=(),
                                configuration={"mine": "1"})  # fmt: skip
    add_rival(memory_table, [new_metadata])
    assert restore_memory_table(1).version == 4
    assert load(memory_table).configuration == {}


STEPS = st.lists(
    st.sampled_from(["append", "delete_rows", "replace", "change", "checkpoint", "restore"]), min_size=1, max_size=7
)


@pytest.mark.slow
@examples(25)
@given(steps=STEPS, choice=st.integers(0, 100))
def test_any_version_of_any_history_is_restored_exactly(tmp_path_factory, steps, choice):
    history = TableHistory(tmp_path_factory.mktemp("h") / "t", FEED)
    for number, step in enumerate(steps):
        arguments = {"replace": [None if number % 2 else DAYS[0]], "restore": [number // 2]}.get(step, [])
        if step != "restore" or number // 2 < len(history.states):
            getattr(history, step)(*arguments)
    expected = {version: history.rows_of(version) for version in range(len(history.states))}
    version = choice % len(expected)
    restore_history(history, version, identity=RUN_IDENTITY)
    assert ids(history) == expected[version]
    assert {v: ids(history, v) for v in expected} == expected
    assert verify(history.store).findings == ()

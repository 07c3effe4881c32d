"""A checkpoint has the state of its snapshot, for this library and other engines, without expired tombstones."""

from __future__ import annotations

import json

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltalite.errors import CorruptLogError
from deltalite.log.last_checkpoint import LastCheckpoint, read_last_checkpoint
from deltalite.log.last_checkpoint_checksum import is_intact
from deltalite.protocol.actions import Protocol
from deltalite.protocol.file_names import LAST_CHECKPOINT, checkpoint_name, commit_name
from deltalite.storage.local import LocalLogStore
from deltalite.upkeep import checkpoint, checkpoint_rows
from deltalite.upkeep.checkpoint import estimate_file_count, write_checkpoint
from deltalite.upkeep.checkpoint_rows import CheckpointRows
from tests.support.tables import delta_rs_rows
from tests.unit.builders import (
    NOON_MS,
    PROTOCOL,
    RequestLog,
    add,
    append_files,
    commit_actions,
    create,
    load,
    metadata,
    new_store,
    newest_version,
    remove,
    struct,
    txn,
)
from tests.unit.logs import rich_store, state_of, with_damaged_pages

WEEK_MS = 7 * 86_400_000


def rows_of(store, version, kind):
    table = pq.read_table(pa.BufferReader(store.files[checkpoint_name(version)][0]))
    return [row for row in table[kind].to_pylist(maps_as_pydicts="strict") if row is not None]


def test_the_snapshot_from_the_checkpoint_equals_its_source():
    store = rich_store()
    before = state_of(load(store))
    write_checkpoint(load(store), now_ms=NOON_MS)
    for version in (0, 1):
        del store.files[commit_name(version)]
    snapshot = load(store)
    assert snapshot.segment.checkpoint.version == 1 and not snapshot.segment.entries
    assert state_of(snapshot) == before
    assert set(snapshot.domains) == {"delta.unknown"}
    assert set(snapshot.transactions) == {"run/ü", "old"}


def test_each_row_has_one_action_and_adds_change_no_data():
    store = rich_store()
    write_checkpoint(load(store), now_ms=NOON_MS)
    table = pq.read_table(pa.BufferReader(store.files[checkpoint_name(1)][0]))
    assert set(table.schema.names) == {"protocol", "metaData", "txn", "domainMetadata", "add", "remove"}
    assert all(sum(value is not None for value in row.values()) == 1 for row in table.to_pylist())
    assert {row["dataChange"] for kind in ("add", "remove") for row in rows_of(store, 1, kind)} == {False}
    assert not {"stats", "tags"} & set(rows_of(store, 1, "remove")[0])


def test_the_hint_describes_the_content_of_the_checkpoint():
    store = rich_store()
    hint = write_checkpoint(load(store), now_ms=NOON_MS)
    data = store.files[checkpoint_name(1)][0]
    # The eight actions are protocol, metadata, two transactions, one domain, two files and one tombstone.
    assert hint == LastCheckpoint(version=1, size=8, size_bytes=len(data), num_of_add_files=2)
    assert read_last_checkpoint(store) == hint
    assert list(json.loads(store.files[LAST_CHECKPOINT][0]))[:2] == ["version", "size"]


def test_the_checkpoint_is_complete_before_the_hint_points_at_it():
    store = append_files(create(new_store()), 1)
    snapshot = load(store)
    requests = RequestLog(store)
    write_checkpoint(snapshot, now_ms=NOON_MS)
    writes = [name for operation, name in requests.accesses if operation.startswith("write")]
    assert writes == [f"{1:020d}.checkpoint.parquet", "_last_checkpoint"]


@pytest.mark.parametrize(
    ("configuration", "age_ms", "is_kept"),
    [
        ({}, WEEK_MS, False),
        ({}, WEEK_MS - 1, True),
        ({}, None, False),
        ({"delta.deletedFileRetentionDuration": "interval 1 hour"}, 3_600_000, False),
        ({"delta.deletedFileRetentionDuration": "interval 1 hour"}, 3_599_999, True),
    ],
)
def test_a_tombstone_stays_while_readers_may_need_the_file(configuration, age_ms, is_kept):
    store = create(new_store(), add("a"), configuration=configuration)
    commit_actions(store, remove("a", deletion_timestamp_ms=None if age_ms is None else NOON_MS - age_ms))
    write_checkpoint(load(store), now_ms=NOON_MS)
    assert [row["path"] for row in rows_of(store, 1, "remove")] == (["a"] if is_kept else [])
    assert not rows_of(store, 1, "add")


def test_expired_transactions_are_omitted():
    store = create(new_store(), configuration={"delta.setTransactionRetentionDuration": "interval 1 day"})
    now_ms = load(store).loaded_at_ms
    commit_actions(store, txn("fresh", last_updated_ms=now_ms))
    commit_actions(store, txn("old", last_updated_ms=now_ms - 2 * 86_400_000))
    commit_actions(store, txn("timeless", last_updated_ms=None))
    write_checkpoint(load(store), now_ms=now_ms)
    assert [row["appId"] for row in rows_of(store, 3, "txn")] == ["fresh"]


@pytest.mark.parametrize(("hint_before", "hint_after"), [(None, 4), (2, 4), (4, 4), (6, 6)])
def test_the_hint_never_moves_backwards(hint_before, hint_after):
    store = append_files(create(new_store()), 6)
    if hint_before is not None:
        write_checkpoint(load(store, hint_before), now_ms=NOON_MS)
    write_checkpoint(load(store, 4), now_ms=NOON_MS)
    assert read_last_checkpoint(store).version == hint_after
    assert checkpoint_name(4) in store.files


def test_an_existing_checkpoint_is_not_changed():
    store = append_files(create(new_store()), 1)
    write_checkpoint(load(store, 0), now_ms=NOON_MS)
    written_file = store.files[checkpoint_name(0)]
    write_checkpoint(load(store, 0), now_ms=NOON_MS + 1)
    assert store.files[checkpoint_name(0)] == written_file


def test_a_checkpoint_that_is_built_from_a_checkpoint_has_the_whole_state():
    store = append_files(create(new_store(), add("a"), add("b")), 2)
    for version in (1, 2):
        commit_actions(store, remove("a" if version == 1 else "b"))
        write_checkpoint(load(store), now_ms=NOON_MS)
    before = state_of(load(store))
    last_version = load(store).version
    for version in range(last_version + 1):
        del store.files[commit_name(version)]
    assert state_of(load(store)) == before
    assert sorted(row["path"] for row in rows_of(store, last_version, "remove")) == ["a", "b"]


def test_delta_rs_reads_the_checkpoint(tmp_path):
    store = LocalLogStore(str(tmp_path))
    table_metadata = metadata(partition_columns=("day",), schema=struct(id="long", day="string"))
    commit_actions(store, PROTOCOL, table_metadata, read_version=-1)
    for number, day in enumerate(["a", "b/c", None]):
        name = f"f{number}.parquet"
        pq.write_table(pa.table({"id": [number]}), tmp_path / name)
        size = (tmp_path / name).stat().st_size
        commit_actions(store, add(name, partition_values={"day": day}, size_bytes=size), txn("run", number))
    commit_actions(store, remove("f0.parquet"))
    write_checkpoint(load(store), now_ms=NOON_MS)
    for version in range(5):
        (tmp_path / commit_name(version)).unlink()
    table = deltalake.DeltaTable(str(tmp_path))
    assert table.version() == 4
    assert table.transaction_version("run") == 2
    assert delta_rs_rows(tmp_path) == [(1, "b/c"), (2, None)]


V2_PROTOCOL = Protocol(
    min_reader_version=3, min_writer_version=7, reader_features=("v2Checkpoint",), writer_features=("v2Checkpoint",)
)
V2_POLICY = {"delta.checkpointPolicy": "v2"}


def v2_store(files=7):
    store = new_store()
    commit_actions(
        store, V2_PROTOCOL, metadata(V2_POLICY), *(add(f"f{n}") for n in range(files)), txn("run", 3), read_version=-1
    )
    commit_actions(store, remove("f0"))
    return store


def names_of(store, part):
    return sorted(name for name in store.files if part in name)


def test_the_v2_policy_writes_sidecars_and_describes_their_content():
    store = v2_store()
    before = state_of(load(store))
    hint = write_checkpoint(load(store), now_ms=NOON_MS, sidecar_actions=3)
    (main_file,), sidecars = names_of(store, ".checkpoint."), names_of(store, "_sidecars/")
    rows = pq.read_table(pa.BufferReader(store.files[main_file][0]))
    sidecar_schema = pq.read_schema(pa.BufferReader(store.files[sidecars[0]][0]))
    for kind in ("add", "remove"):  # delta-spark expects these columns in the main file too
        assert rows.schema.field(kind).type == sidecar_schema.field(kind).type
        assert rows[kind].null_count == rows.num_rows
    tags = [row["tags"] for row in rows["checkpointMetadata"].to_pylist(maps_as_pydicts="strict") if row]
    size_bytes = sum(len(store.files[name][0]) for name in sidecars)
    assert tags == [{"sidecarNumActions": "7", "sidecarSizeInBytes": str(size_bytes), "numOfAddFiles": "6"}]
    assert [pq.read_metadata(pa.BufferReader(store.files[name][0])).num_rows for name in sidecars].count(3) == 2
    assert (hint.size, hint.num_of_add_files) == (rows.num_rows + 7, 6)
    for version in (0, 1):
        del store.files[commit_name(version)]
    assert state_of(load(store)) == before


def test_the_policy_applies_only_if_the_protocol_has_the_feature():
    store = append_files(create(new_store(), configuration=V2_POLICY), 1)
    write_checkpoint(load(store), now_ms=NOON_MS)
    assert names_of(store, ".checkpoint.") == [checkpoint_name(1)] and not names_of(store, "_sidecars/")


def test_the_sidecars_are_complete_before_the_checkpoint_names_them():
    store = v2_store()
    snapshot = load(store)
    requests = RequestLog(store)
    write_checkpoint(snapshot, now_ms=NOON_MS, sidecar_actions=3)
    writes = [name for operation, name in requests.accesses if operation.startswith("write")]
    assert [".checkpoint." in name for name in writes] == [False, False, False, True, False]
    assert writes[-1] == "_last_checkpoint"


FILES_WITH_STATS = [
    add("a", partition_values={"day": "1"}, stats='{"numRecords":3,"minValues":{"id":4},"nullCount":{"id":0}}')
]


@pytest.mark.parametrize(
    ("properties", "columns"),
    [
        ({}, {"stats", "stats_parsed", "partitionValues_parsed"}),
        ({"delta.checkpoint.writeStatsAsStruct": "false"}, {"stats"}),
        ({"delta.checkpoint.writeStatsAsJson": "false"}, {"stats_parsed", "partitionValues_parsed"}),
        ({"delta.checkpoint.writeStatsAsJson": "false", "delta.checkpoint.writeStatsAsStruct": "false"}, set()),
    ],
)
def test_statistics_are_written_in_the_forms_of_the_table_properties(properties, columns):
    schema = struct(id="long", day="integer")
    store = create(new_store(), *FILES_WITH_STATS, configuration=properties, partition_columns=("day",), schema=schema)
    write_checkpoint(load(store), now_ms=NOON_MS)
    (row,) = rows_of(store, 0, "add")
    assert {"stats", "stats_parsed", "partitionValues_parsed"} & set(row) == columns
    if "stats_parsed" in columns:
        assert (row["stats_parsed"]["numRecords"], row["stats_parsed"]["minValues"]) == (3, {"id": 4})
        assert row["partitionValues_parsed"] == {"day": 1}
    del store.files[commit_name(0)]
    read_back = load(store).files["stats"].to_pylist()[0]
    assert (read_back is not None and json.loads(read_back)["minValues"] == {"id": 4}) == bool(columns)


def test_the_hint_has_a_valid_checksum_of_its_content():
    store = append_files(create(new_store()), 1)
    write_checkpoint(load(store), now_ms=NOON_MS)
    data = store.files[LAST_CHECKPOINT][0]
    assert "checksum" in json.loads(data) and is_intact(data)
    assert not is_intact(data.replace(b'"version":1', b'"version":2'))


def test_an_unreadable_checkpoint_is_replaced(caplog):
    store = append_files(create(new_store()), 1)
    store.files[checkpoint_name(1)] = (b"PAR1 broken PAR1", 0)
    assert write_checkpoint(load(store), now_ms=NOON_MS) is not None
    assert load(store).segment.checkpoint.version == 1 and len(rows_of(store, 1, "add")) == 1


def test_a_readable_checkpoint_is_not_written_again_but_its_hint_is():
    store = append_files(create(new_store()), 1)
    write_checkpoint(load(store), now_ms=NOON_MS)
    written_file = store.files[checkpoint_name(1)]
    del store.files[LAST_CHECKPOINT]
    assert write_checkpoint(load(store), now_ms=NOON_MS + 1) is None
    assert store.files[checkpoint_name(1)] == written_file
    assert read_last_checkpoint(store) == LastCheckpoint(version=1, size=-1, num_of_add_files=1)


@pytest.mark.parametrize(
    ("hint", "files"),
    [({"size": 9, "numOfAddFiles": 7}, 7), ({"size": 9, "numOfAddFiles": 0}, 0), ({"size": 9}, 9), ({"size": -1}, 0)],
)
def test_the_number_of_files_is_estimated_from_the_hint_and_the_later_commits(hint, files):
    store = append_files(create(new_store()), 1)
    write_checkpoint(load(store), now_ms=NOON_MS)
    store.files[LAST_CHECKPOINT] = (json.dumps({"version": 1, **hint}).encode(), 0)
    assert estimate_file_count(load(store)) == files
    commit_actions(store, *(add(f"{number}", stats="{}" * 1000) for number in range(50)))
    commit_actions(store, add("new"), remove("1"))
    assert estimate_file_count(load(store)) == files + 50


@pytest.mark.parametrize("make_store", [lambda: append_files(create(new_store()), 2), v2_store])
def test_an_incomplete_checkpoint_is_not_published(make_store, monkeypatch):
    store = make_store()
    all_files = CheckpointRows.files
    monkeypatch.setattr(CheckpointRows, "files", lambda self: ((kind, rows[1:]) for kind, rows in all_files(self)))
    with pytest.raises(CorruptLogError, match="instead of"):
        write_checkpoint(load(store), now_ms=NOON_MS)
    assert not names_of(store, ".checkpoint.") and LAST_CHECKPOINT not in store.files


def test_a_large_checkpoint_is_built_on_disk_in_bounded_blocks(monkeypatch):
    store = create(new_store(), *(add(f"{number}", stats='{"numRecords":1}') for number in range(9)))
    monkeypatch.setattr(checkpoint, "_MAX_IN_MEMORY_BYTES", 1)
    monkeypatch.setattr(checkpoint_rows, "_BLOCK_BYTES", 1)
    assert write_checkpoint(load(store), now_ms=NOON_MS).num_of_add_files == 9
    assert [adds for adds in adds_by_row_group(store.files[checkpoint_name(0)][0]) if adds] == [1] * 9
    assert load(store).segment.checkpoint_at_version is not None and len(rows_of(store, 0, "add")) == 9


def adds_by_row_group(data):
    with pq.ParquetFile(pa.BufferReader(data)) as file:
        groups = (file.read_row_group(number, columns=["add.path"])["add"] for number in range(file.num_row_groups))
        return [len(adds) - adds.null_count for adds in groups]


@pytest.mark.parametrize("make_store", [lambda: append_files(create(new_store()), 2), v2_store])
def test_the_checkpoint_restarts_if_an_older_checkpoint_is_damaged(make_store):
    """The paths in the damaged checkpoint are readable, so its files are counted. Its statistics are unreadable."""
    store = make_store()
    version = newest_version(store)
    write_checkpoint(load(store), now_ms=NOON_MS)
    commit_actions(store, add("new", stats='{"numRecords":1}'))
    (damaged_file, *_) = [name for name in store.files if "_sidecars/" in name] or names_of(
        store, f"{version}.checkpoint"
    )
    data = store.files[damaged_file][0]
    store.files[damaged_file] = (with_damaged_pages(data, "add.stats"), 0)
    snapshot = load(store)
    expected = snapshot.files_with(["path"])["path"].to_pylist()
    assert snapshot.segment.checkpoint.version == version
    write_checkpoint(snapshot, now_ms=NOON_MS)
    new_snapshot = load(store)
    assert new_snapshot.segment.checkpoint_at_version is not None
    assert sorted(new_snapshot.files["path"].to_pylist()) == sorted(expected)

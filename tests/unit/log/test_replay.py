"""A replay keeps the newest action: the protocol, the metadata, and one for each app id, domain and file."""

from __future__ import annotations

import logging
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltalite.errors import CorruptCheckpointError, CorruptLogError
from deltalite.log import replay as replaying
from deltalite.log.file_table import ADD_TYPES, file_key
from deltalite.log.state import BlocksInvalidated
from deltalite.protocol.actions import AddCDCFile, DomainMetadata
from deltalite.protocol.file_names import checkpoint_name, commit_name, compaction_name
from deltalite.snapshot import Snapshot
from deltalite.upkeep.checkpoint import write_checkpoint
from deltalite.upkeep.compaction import write_compaction
from tests.unit.builders import (
    NOON_MS,
    PROTOCOL,
    add,
    append_files,
    commit_actions,
    commit_info,
    create,
    load,
    metadata,
    new_store,
    paths,
    put_raw,
    remove,
    txn,
    vector,
)
from tests.unit.logs import with_damaged_pages

DAY_MS = 86_400_000


def domain(name, configuration="{}", removed=False):
    return DomainMetadata(domain=name, configuration=configuration, removed=removed)


def table(*commits, checkpoint_at=None):
    """A table with these commits, each a list of actions. Version 0 also has a protocol and metadata."""
    store = new_store()
    for version, actions in enumerate(commits):
        put_raw(store, version, [PROTOCOL, metadata(), *actions] if version == 0 else actions)
        if version == checkpoint_at:
            write_checkpoint(Snapshot.load(store), now_ms=NOON_MS)
    return store


def files_and_tombstones(store):
    """The keys of the active files and the paths of the removed files."""
    snapshot = load(store)
    keys = [
        file_key(row["path"], row["deletionVector"])
        for row in snapshot.files_with(["path", "deletionVector"]).to_pylist()
    ]
    return sorted(keys), sorted(snapshot.tombstones(["path"])["path"].to_pylist())


# Each case has commits, the expected active files and the expected tombstones. The test replays the commits alone, and
# with a checkpoint after each version.
FILES = {
    "added": ([[add("a")], [add("b")]], ["a", "b"], []),
    "removed": ([[add("a"), add("b")], [remove("a")]], ["b"], ["a"]),
    "added again": ([[add("a")], [remove("a")], [add("a")]], ["a"], []),
    "removed twice": ([[add("a")], [remove("a")], [remove("a")]], [], ["a"]),
    "restated": ([[add("a", size_bytes=1)], [add("a", size_bytes=2, data_change=False)]], ["a"], []),
    "replaced in one commit": ([[add("a")], [remove("a"), add("b")]], ["b"], ["a"]),
    "add before remove in one commit": ([[add("a")], [add("b"), remove("a")]], ["b"], ["a"]),
    # The active file has `%20` in its name.
    "spaces and percent": ([[add("a%20b"), add("a%2520b")], [remove("a b")]], ["a%20b"], ["a b"]),
    "upper and lower hex": ([[add("p=%C3%BC")], [remove("p=%c3%bc")]], [], ["p=%c3%bc"]),
    "raw and encoded letters": ([[add("p=ü")], [remove("p=%C3%BC")]], [], ["p=%C3%BC"]),
    "absolute spellings": (
        [[add("file:/x/a"), add("/x/b")], [remove("/x/a"), remove("file:///x/b")]],
        [],
        ["/x/a", "file:///x/b"],
    ),
    "not normalised": (
        [[add("d//x"), add("./y"), add("e/../z")], [remove("d/x"), remove("y"), remove("z")]],
        [],
        ["d/x", "y", "z"],
    ),
    "not normalised, and with a vector": (
        [[add("d//x")], [remove("d/x"), add("d/x", deletion_vector=vector("v"))]],
        ["d/x\nuv"],
        ["d/x"],
    ),
    "a vector makes another file": (
        [[add("a")], [remove("a"), add("a", deletion_vector=vector("v"))]],
        ["a\nuv"],
        ["a"],
    ),
    "another vector": (
        [
            [add("a", deletion_vector=vector("v", 1))],
            [remove("a", deletion_vector=vector("v", 1)), add("a", deletion_vector=vector("v", 2))],
        ],
        ["a\nuv@2"],
        ["a"],
    ),
    "a remove with another vector removes nothing": (
        [[add("a", deletion_vector=vector("v", 1))], [remove("a", deletion_vector=vector("v"))]],
        ["a\nuv@1"],
        ["a"],
    ),
    "an offset of zero differs from no offset": (
        [[add("a", deletion_vector=vector("v", 0))], [remove("a", deletion_vector=vector("v"))]],
        ["a\nuv@0"],
        ["a"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FILES)
def test_the_newest_action_on_a_file_counts(case):
    commits, active, removed = FILES[case]
    for checkpoint_at in (None, *range(len(commits))):
        assert files_and_tombstones(table(*commits, checkpoint_at=checkpoint_at)) == (active, removed)


def test_a_restated_file_has_the_newer_fields():
    store = table([add("a", size_bytes=1), add("b")], [add("a", size_bytes=2, stats="{}")], checkpoint_at=0)
    rows = {row["path"]: (row["size"], row["stats"]) for row in load(store).files.to_pylist()}
    assert rows == {"a": (2, "{}"), "b": (10, None)}


def test_the_newest_action_that_is_not_about_a_file_counts_with_and_without_a_checkpoint():
    commits = (
        [txn("x", 1), txn("y", 9), domain("d", "old"), domain("e", "gone"), domain("f"),
         commit_info(operation="first")],
        [replace(PROTOCOL, min_writer_version=4), txn("x", 5), domain("d", "new"), domain("f", removed=True)],
        [metadata({"k": "v"}), txn("x", 3), domain("e", removed=True), domain("f", "back"),
         commit_info(operation="last")],
    )  # fmt: skip
    for checkpoint_at in (None, 0, 1, 2):
        snapshot = load(table(*commits, checkpoint_at=checkpoint_at))
        assert {t.app_id: t.version for t in snapshot.transactions.values()} == {"x": 3, "y": 9}
        assert {d.domain: d.configuration for d in snapshot.domains.values()} == {"d": "new", "f": "back"}
        assert (snapshot.protocol.min_writer_version, snapshot.configuration) == (4, {"k": "v"})
        assert snapshot.commit_info == {"operation": "last"}


def test_the_provenance_of_a_snapshot_comes_from_the_newest_commit_or_is_none():
    assert load(table([commit_info(operation="first")], [add("a")])).commit_info is None
    store = table([commit_info(operation="first")], checkpoint_at=0)
    del store.files[commit_name(0)]
    assert load(store).commit_info is None


def test_change_data_files_are_never_part_of_a_table():
    cdc = AddCDCFile(path="_change_data/c", partition_values={}, size_bytes=1, data_change=False)
    assert files_and_tombstones(table([add("a")], [cdc, add("b")], checkpoint_at=0)) == (["a", "b"], [])


@pytest.mark.parametrize(
    ("actions", "missing"),
    [([PROTOCOL], "metadata"), ([metadata()], "protocol"), ([add("a")], "protocol")],
)
def test_a_table_without_protocol_or_metadata_raises_a_corrupt_log_error(actions, missing):
    store = new_store()
    put_raw(store, 0, actions)
    with pytest.raises(CorruptLogError, match=f"no {missing} up to version 0"):
        load(store)


@pytest.mark.parametrize(
    "body",
    [
        {"add": {"partitionValues": {}, "size": 1}},
        {"add": {"path": None}},
        {"remove": {"path": 5}},
        {"add": {"path": "a", "deletionVector": "u"}},
        {"add": {"path": "a", "size": "big", "partitionValues": {}, "modificationTime": 1, "dataChange": True}},
        {"add": {"path": "a", "size": 2**63, "partitionValues": {}, "modificationTime": 1, "dataChange": True}},
        {"add": {"path": "a", "size": 1, "partitionValues": {"p": 1}, "modificationTime": 1, "dataChange": True}},
        {"txn": {"appId": "x"}},
        {"metaData": {"id": "x"}},
    ],
)
def test_a_malformed_action_raises_a_corrupt_log_error(body):
    store = table([add("a")])
    put_raw(store, 1, [body])
    with pytest.raises(CorruptLogError):
        assert load(store).files


@pytest.mark.parametrize("values", [[], [{"key": "p", "value": "1"}], [None]])
@pytest.mark.parametrize("key", ["partitionValues", "tags"])
def test_a_list_in_place_of_a_map_raises_a_corrupt_log_error(key, values):
    body = {"path": "b", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True, key: values}
    store = table([add("a")])
    put_raw(store, 1, [{"add": body}])
    with pytest.raises(CorruptLogError, match=f"add action: `{key}` is .* wrong type"):
        assert load(store).files


def test_a_malformed_provenance_of_an_old_commit_is_ignored():
    store = table([{"commitInfo": {"timestamp": "never"}}], [add("a")])
    assert paths(load(store)) == ["a"]


def without_columns(data, kind, *columns):
    """A checkpoint without some fields of one action, or without the action if `columns` is empty."""
    rows = pq.read_table(pa.BufferReader(data))
    if not columns:
        smaller_rows = rows.drop_columns([kind])
    else:
        struct = rows[kind].combine_chunks()
        kept_fields = [i for i, f in enumerate(struct.type) if f.name not in columns]
        narrower_struct = pa.StructArray.from_arrays(
            [struct.field(i) for i in kept_fields], fields=[struct.type[i] for i in kept_fields], mask=struct.is_null()
        )
        smaller_rows = rows.set_column(rows.schema.names.index(kind), kind, narrower_struct)
    sink = pa.BufferOutputStream()
    pq.write_table(smaller_rows, sink)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        ("add", ["stats", "tags", "deletionVector", "baseRowId", "defaultRowCommitVersion", "clusteringProvider"]),
        ("remove", ["deletionVector", "partitionValues", "size", "extendedFileMetadata"]),
        ("txn", []),
        ("domainMetadata", []),
        ("remove", []),
    ],
)
def test_columns_that_a_checkpoint_lacks_are_null(kind, columns):
    store = table(
        [add("a"), add("b", stats="{}")], [remove("a", deletion_timestamp_ms=NOON_MS)], [add("c")], checkpoint_at=1
    )
    name = checkpoint_name(1)
    store.files[name] = (without_columns(store.files[name][0], kind, *columns), 0)
    snapshot = load(store)
    assert snapshot.segment.checkpoint.version == 1
    assert paths(snapshot) == ["b", "c"]
    full = snapshot.files_with(list(ADD_TYPES))
    assert full.schema == pa.schema(list(ADD_TYPES.items()))
    assert snapshot.tombstones(["path"])["path"].to_pylist() == (["a"] if (kind, columns) != ("remove", []) else [])


def corrupt_checkpoint(store, version, where="footer"):
    data = bytearray(store.files[checkpoint_name(version)][0])
    if where == "footer":
        data[-20:] = b"\0" * 20
    else:
        data = with_damaged_pages(bytes(data), "add.path")
    store.files[checkpoint_name(version)] = (bytes(data), 0)


@pytest.fixture
def store_with_checkpoints():
    """Versions 1 to 6 add a file each, and there are checkpoints at 2 and 4."""
    store = append_files(create(new_store()), 6)
    for version in (2, 4):
        write_checkpoint(load(store, version), now_ms=NOON_MS)
    return store


@pytest.mark.parametrize("where", ["footer", "pages"])
@pytest.mark.parametrize("damaged", [[4], [2, 4]])
def test_a_damaged_checkpoint_is_replaced_by_older_log_files(store_with_checkpoints, caplog, where, damaged):
    for version in damaged:
        corrupt_checkpoint(store_with_checkpoints, version, where)
    with caplog.at_level(logging.WARNING):
        snapshot = load(store_with_checkpoints)
        assert paths(snapshot) == [f"f{v}" for v in range(1, 7)]
        assert snapshot.tombstones(["path"]).num_rows == 0
    assert "Falling back" in caplog.text


@pytest.mark.parametrize("where", ["footer", "pages"])
def test_the_error_names_a_damaged_checkpoint_without_earlier_commits(store_with_checkpoints, where):
    corrupt_checkpoint(store_with_checkpoints, 4, where)
    for version in range(4):
        del store_with_checkpoints.files[commit_name(version)]
    del store_with_checkpoints.files[checkpoint_name(2)]
    with pytest.raises(
        CorruptCheckpointError, match=f"{checkpoint_name(4)} of memory://table cannot be read"
    ) as caught:
        assert load(store_with_checkpoints).files
    assert not caught.value.retryable


def test_a_vanished_checkpoint_is_skipped(store_with_checkpoints):
    store_with_checkpoints.before = lambda op, name: op == "open" and store_with_checkpoints.files.pop(name, None)
    assert paths(load(store_with_checkpoints)) == [f"f{v}" for v in range(1, 7)]


@pytest.mark.parametrize(
    ("retention", "age_ms", "is_kept"),
    [
        (None, None, True),
        (None, 20_000 * DAY_MS, True),
        ("interval 1 day", None, False),
        ("interval 1 day", 2 * DAY_MS, False),
        ("interval 1 day", DAY_MS // 2, True),
    ],
)
def test_a_transaction_expires_by_the_retention_of_the_table_and_never_without_one(retention, age_ms, is_kept):
    store = new_store()
    configuration = {} if retention is None else {"delta.setTransactionRetentionDuration": retention}
    create(store, configuration=configuration)
    updated_ms = None if age_ms is None else load(store).loaded_at_ms - age_ms
    commit_actions(store, txn("x", last_updated_ms=updated_ms))
    assert ("x" in load(store).transactions) is is_kept


@pytest.mark.parametrize("keeps_statistics", [True, False])
@pytest.mark.parametrize("case", FILES)
def test_blocks_of_files_are_the_same_with_kept_and_reread_statistics(case, keeps_statistics, monkeypatch):
    monkeypatch.setattr(replaying, "_MAX_HELD_BYTES", 1_000_000 if keeps_statistics else -1)
    commits = [[_with_stats(action, version) for action in actions] for version, actions in enumerate(FILES[case][0])]
    for checkpoint_at in (None, *range(len(commits))):
        snapshot = load(table(*commits, checkpoint_at=checkpoint_at))
        blocks = list(snapshot.file_blocks(["path", "stats", "deletionVector"], max_rows=1))
        assert {block.num_rows for block in blocks} <= {0, 1}
        stats_by_file = {file_key(r["path"], r["deletionVector"]): r["stats"] for b in blocks for r in b.to_pylist()}
        rows = snapshot.files.to_pylist()
        assert stats_by_file == {file_key(row["path"], row["deletionVector"]): row["stats"] for row in rows}
        assert sorted(stats_by_file) == FILES[case][1] and None not in stats_by_file.values()


def _with_stats(action, version):
    return replace(action, stats=f'{{"numRecords":{version}}}')


def test_a_compaction_with_statistics_that_cannot_be_read_again_is_skipped(monkeypatch):
    store = append_files(create(new_store()), 3)
    write_compaction(store, 1, 3)
    name = compaction_name(1, 3)
    monkeypatch.setattr(replaying, "_MAX_HELD_BYTES", -1)
    snapshot = load(store)
    assert snapshot.files_with(["path"]).num_rows == 3
    store.files[name] = (b"{", 0)
    with pytest.raises(BlocksInvalidated):
        list(snapshot.file_blocks(["path", "stats"], max_rows=9))
    assert [sorted(p for b in snapshot.file_blocks(["path", "stats"], max_rows=9) for p in b["path"].to_pylist())] == [
        ["f1", "f2", "f3"]
    ]
    assert paths(snapshot) == ["f1", "f2", "f3"]


@pytest.mark.parametrize("rewritten_files", [slice(None, None, -1), slice(0, 4)], ids=["other order", "fewer files"])
def test_a_checkpoint_that_is_rewritten_during_a_read_restarts_the_read(rewritten_files):
    """Another engine may write the same checkpoint again, with its rows in another order."""
    names = [f"f{number}" for number in range(6)]
    store, rewritten_store = (
        table([add(name) for name in added_names], [remove("f0")], checkpoint_at=0)
        for added_names in (names, names[rewritten_files])
    )
    checkpoint = checkpoint_name(0)
    accesses = []

    def rewrite(operation, name):
        accesses.append((operation, name))
        if accesses.count(("open", checkpoint)) == 2:
            store.files[checkpoint] = rewritten_store.files[checkpoint]

    snapshot = load(store)
    assert paths(snapshot) == names[1:]
    store.before = rewrite
    with pytest.raises(BlocksInvalidated):
        list(snapshot.file_blocks(["path"], max_rows=2))
    assert sorted(p for b in snapshot.file_blocks(["path"], max_rows=2) for p in b["path"].to_pylist()) == names[1:]

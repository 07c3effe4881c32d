"""A checkpoint of any kind gives the same state as the commits. Other log files replace an unreadable checkpoint."""

from __future__ import annotations

import errno
import json
import logging
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltalite.errors import CorruptCheckpointError, CorruptLogError, StorageError, StoragePermissionError
from deltalite.log.checkpoint_reader import read_head, sidecar_names
from deltalite.log.listing import CheckpointKind
from deltalite.protocol.file_names import checkpoint_name, commit_name
from deltalite.upkeep.checkpoint import write_checkpoint
from tests.unit.builders import NOON_MS, RequestLog, add, append_files, commit_actions, create, load, new_store, paths
from tests.unit.logs import rich_store, state_of, to_json_lines, to_parquet, uuid_name, write_parts, write_v2

KINDS = {
    "classic": (CheckpointKind.CLASSIC, lambda store, v: write_checkpoint(load(store, v), now_ms=NOON_MS)),
    "one part": (CheckpointKind.MULTI_PART, lambda store, v: write_parts(store, v, 1)),
    "three parts": (CheckpointKind.MULTI_PART, lambda store, v: write_parts(store, v, 3)),
    "classic name, V2 content": (CheckpointKind.CLASSIC, lambda store, v: write_v2(store, v, checkpoint_name(v))),
    "classic name, sidecars": (
        CheckpointKind.CLASSIC,
        lambda store, v: write_v2(store, v, checkpoint_name(v), sidecars=2),
    ),
    "Parquet": (CheckpointKind.UUID_NAMED, lambda store, v: write_v2(store, v, uuid_name(v, "parquet"))),
    "Parquet and a sidecar": (
        CheckpointKind.UUID_NAMED,
        lambda store, v: write_v2(store, v, uuid_name(v, "parquet"), sidecars=1),
    ),
    "JSON": (CheckpointKind.UUID_NAMED, lambda store, v: write_v2(store, v, uuid_name(v, "json"))),
    "JSON and sidecars": (
        CheckpointKind.UUID_NAMED,
        lambda store, v: write_v2(store, v, uuid_name(v, "json"), sidecars=3),
    ),
}


def delete_commits(store, up_to):
    for version in range(up_to + 1):
        del store.files[commit_name(version)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_checkpoint_has_the_state_of_the_commits(kind):
    store = rich_store()
    commit_actions(store, add("later"), read_version=1)
    expected = [state_of(load(store, version)) for version in (1, 2)]
    checkpoint_kind, write = KINDS[kind]
    write(store, 1)
    delete_commits(store, 1)
    for version, expected_state in zip((1, 2), expected, strict=True):
        snapshot = load(store, version)
        assert (snapshot.segment.checkpoint.version, snapshot.segment.checkpoint.kind) == (1, checkpoint_kind)
        assert state_of(snapshot) == expected_state


@pytest.mark.parametrize("kind", ["parquet", "json"])
@pytest.mark.parametrize(
    "path_format", ["{}", "_sidecars/{}", "_delta_log/_sidecars/{}", "file:/moved/since/_delta_log/_sidecars/{}"]
)
def test_sidecars_are_found_with_any_spelling_of_their_path(path_format, kind):
    store = rich_store()
    expected = state_of(load(store))
    names = write_v2(store, 1, uuid_name(1, kind), sidecars=2, path_format=path_format)
    delete_commits(store, 1)
    assert state_of(load(store)) == expected
    checkpoint = load(store).segment.checkpoint
    assert list(sidecar_names(store, checkpoint)) == names
    assert read_head(store, checkpoint).sources == (uuid_name(1, kind), *names)


def test_sidecars_are_opened_only_when_the_files_are_read():
    store = rich_store()
    names = write_v2(store, 1, uuid_name(1, "json"), sidecars=2)
    requests = RequestLog(store)
    snapshot = load(store)
    assert snapshot.transactions and snapshot.domains
    opened_files = [name for operation, name in requests.accesses if operation == "open"]
    assert opened_files == [uuid_name(1, "json").rpartition("/")[2]]
    assert snapshot.files.num_rows == 2
    assert {("open", name.rpartition("/")[2]) for name in names} <= set(requests.accesses)


def cut_end(store, name):
    store.files[name] = (store.files[name][0][:-20], 0)


def make_empty(store, name):
    store.files[name] = (b"", 0)


def delete_file(store, name):
    del store.files[name]


def replace_content(content):
    def damage(store, name):
        store.files[name] = (content, 0)

    return damage


def replace_paths(paths):
    """Return a function that damages a Parquet file: `paths` computes the paths of its adds from their number."""

    def damage(store, name):
        table = pq.read_table(pa.BufferReader(store.files[name][0]))
        adds = table["add"].combine_chunks()
        members = [paths(len(adds)) if f.name == "path" else adds.field(f.name) for f in adds.type]
        changed_adds = pa.StructArray.from_arrays(members, names=[f.name for f in adds.type], mask=adds.is_null())
        store.files[name] = (to_parquet(table.set_column(table.column_names.index("add"), "add", changed_adds)), 0)

    return damage


JSON, PARQUET = uuid_name(4, "json"), uuid_name(4, "parquet")
DAMAGES = {
    "half a JSON file": lambda store: write_damaged(store, JSON, cut_end),
    "half a Parquet file": lambda store: write_damaged(store, PARQUET, cut_end),
    "not Parquet at all": lambda store: write_damaged(store, PARQUET, replace_content(b"x" * 100)),
    "no paths": lambda store: write_damaged(store, PARQUET, replace_paths(lambda count: pa.nulls(count, pa.string()))),
    "numbers for paths": lambda store: write_damaged(
        store, PARQUET, replace_paths(lambda count: pa.array(range(count)))
    ),
    "paths that are not UTF-8": lambda store: write_damaged(
        store, PARQUET, replace_paths(lambda count: pa.array([b"\xff"] * count, pa.binary()).view(pa.string()))
    ),
    "JSON that is not UTF-8": lambda store: write_damaged(store, JSON, replace_content(b"\xff\xfe\xfd\n")),
    "a line that is a list": lambda store: write_damaged(store, JSON, replace_content(b"[]\n")),
    "a malformed action": lambda store: write_damaged(
        store, JSON, replace_content(b'{"checkpointMetadata":{"version":4}}\n{"txn":{}}')
    ),
    "nothing but its version": lambda store: write_damaged(
        store, JSON, replace_content(b'{"checkpointMetadata":{"version":4}}')
    ),
    "a malformed file": lambda store: write_damaged(
        store,
        JSON,
        lambda store, name: replace_content(store.files[name][0] + b'{"add":{"path":"a","size":"x"}}')(store, name),
    ),
    "a missing sidecar": lambda store: write_damaged_sidecar(store, delete_file),
    "an empty sidecar": lambda store: write_damaged_sidecar(store, make_empty),
    "a damaged sidecar": lambda store: write_damaged_sidecar(store, cut_end),
    "no version": lambda store: write_v2(store, 4, JSON, stated_versions=()),
    "another version": lambda store: write_v2(store, 4, PARQUET, stated_versions=(3,)),
    "two versions": lambda store: write_v2(store, 4, PARQUET, stated_versions=(4, 4)),
    "a sidecar without a path": lambda store: write_v2(store, 4, JSON, sidecars=1, path_format=""),
    "a sidecar that is a folder": lambda store: write_v2(store, 4, JSON, sidecars=1, path_format=".."),
}


def write_damaged(store, name, damage):
    write_v2(store, 4, name)
    damage(store, name)


def write_damaged_sidecar(store, damage):
    damage(store, write_v2(store, 4, JSON, sidecars=2)[1])


@pytest.fixture
def log():
    """Versions 1 to 6 add a file each, and there is a checkpoint at 2."""
    store = append_files(create(new_store()), 6)
    write_checkpoint(load(store, 2), now_ms=NOON_MS)
    return store


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("replacement", ["a checkpoint of the same version", "an older checkpoint", "the commits"])
def test_an_unreadable_checkpoint_is_replaced_by_other_log_files(log, damage, replacement, caplog):
    DAMAGES[damage](log)
    if replacement == "a checkpoint of the same version":
        rows = pq.read_table(pa.BufferReader(log.files[checkpoint_name(2)][0]))
        log.files[checkpoint_name(4)] = (to_parquet(rows), 0)
        delete_commits(log, 4)  # so that only a checkpoint contains version 4
        expected, checkpoint_version = ["f1", "f2", "f5", "f6"], 4
    elif replacement == "an older checkpoint":
        delete_commits(log, 2)
        expected, checkpoint_version = [f"f{v}" for v in range(1, 7)], 2
    else:
        del log.files[checkpoint_name(2)]
        expected, checkpoint_version = [f"f{v}" for v in range(1, 7)], None
    with caplog.at_level(logging.WARNING):
        snapshot = load(log)
        assert paths(snapshot) == expected
    assert (snapshot.segment.checkpoint and snapshot.segment.checkpoint.version) == checkpoint_version
    assert snapshot.version == 6 and "Falling back" in caplog.text


@pytest.mark.parametrize("damage", DAMAGES)
def test_an_unreadable_checkpoint_without_alternatives_raises_a_permanent_error(log, damage):
    DAMAGES[damage](log)
    delete_commits(log, 4)
    del log.files[checkpoint_name(2)]
    with pytest.raises(CorruptLogError) as caught:
        assert load(log).files
    assert isinstance(caught.value, CorruptCheckpointError) and not caught.value.retryable


@pytest.mark.parametrize("name", [JSON, PARQUET])
@pytest.mark.parametrize(
    ("storage_error", "typed_error"),
    [
        (PermissionError(errno.EACCES, "Permission denied"), StoragePermissionError),
        (OSError(errno.EIO, "Input/output error"), StorageError),
    ],
)
def test_a_checkpoint_that_storage_does_not_return_is_not_corrupt(log, name, storage_error, typed_error):
    write_v2(log, 4, name)

    def fail_open(operation, opened_name):
        if (operation, opened_name) == ("open", name):
            raise storage_error

    log.before = fail_open
    with pytest.raises(StorageError, match=f"read {re.escape(name)} of memory://table") as caught:
        load(log)
    assert type(caught.value) is typed_error


def test_adds_of_a_json_checkpoint_may_have_their_statistics_as_an_object():
    store = rich_store()
    write_v2(store, 1, JSON.replace(f"{4:020d}", f"{1:020d}"))
    name = uuid_name(1, "json")
    lines = [json.loads(line) for line in store.files[name][0].splitlines()]
    parsed = {"numRecords": 7, "minValues": {"id": 1, "x": 0.1}, "maxValues": {"id": 2}, "nullCount": {"id": 0}}
    for line in lines:
        if "add" in line and "stats" in line["add"]:
            line["add"] |= {"stats": None, "stats_parsed": parsed}
    store.files[name] = (b"\n".join(json.dumps(line).encode() for line in lines), 0)
    stats = [json.loads(text) for text in load(store).files["stats"].to_pylist() if text]
    # The bound of `x` is omitted, because a double may be a rounded decimal.
    assert stats == [{**parsed, "minValues": {"id": 1}}]


@pytest.mark.parametrize(
    "text_type",
    [pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.dictionary(pa.int32(), pa.string())],
)
def test_texts_may_have_another_arrow_type_than_string(text_type):
    def retype(kind):
        if pa.types.is_string(kind):
            return text_type
        if pa.types.is_struct(kind):
            return pa.struct([f.with_type(retype(f.type)) for f in kind])
        if pa.types.is_list(kind):
            return pa.list_(retype(kind.value_type))
        return kind

    store = rich_store()
    expected = state_of(load(store))
    write_v2(store, 1, uuid_name(1, "parquet"))
    rows = pq.read_table(pa.BufferReader(store.files[uuid_name(1, "parquet")][0]))
    schema = pa.schema([f.with_type(retype(f.type)) for f in rows.schema])
    retyped = pa.Table.from_pylist(rows.to_pylist(), schema)
    store.files[uuid_name(1, "parquet")] = (to_parquet(retyped), 0)
    delete_commits(store, 1)
    assert state_of(load(store)) == expected


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_a_file_that_a_checkpoint_lists_twice_counts_once(log, kind):
    name = uuid_name(6, kind)
    write_v2(log, 6, name)
    content = log.files[name][0]
    rows = pq.read_table(pa.BufferReader(content)) if kind == "parquet" else content.splitlines(keepends=True)
    doubled_content = (
        to_parquet(pa.concat_tables([rows, rows.slice(rows.num_rows - 3)]))
        if kind == "parquet"
        else (b"".join([*rows, *rows[-3:]]))
    )
    log.files[name] = (doubled_content, 0)
    delete_commits(log, 6)
    assert paths(load(log)) == [f"f{v}" for v in range(1, 7)]
    commit_actions(log, add("f7"), read_version=6)
    assert paths(load(log)) == [f"f{v}" for v in range(1, 8)]


def test_rows_of_other_kinds_and_unknown_columns_are_ignored():
    store = rich_store()
    expected = state_of(load(store))
    write_v2(store, 1, uuid_name(1, "parquet"))
    rows = pq.read_table(pa.BufferReader(store.files[uuid_name(1, "parquet")][0]))
    wider_rows = rows.append_column("novelty", pa.array([{"x": 1}] * rows.num_rows))
    store.files[uuid_name(1, "parquet")] = (to_parquet(wider_rows), 0)
    delete_commits(store, 1)
    assert state_of(load(store)) == expected
    preferred = uuid_name(1, "json", "90a083e8-7026-4e79-81be-64bd76c43a11")
    store.files[preferred] = (to_json_lines(wider_rows), 0)
    assert state_of(load(store)) == expected
    assert load(store).segment.checkpoint.names == (preferred,)


def test_a_v2_checkpoint_with_a_classic_name_must_have_the_version_of_its_name(log):
    write_v2(log, 4, checkpoint_name(4), stated_versions=(3,))
    assert load(log).segment.checkpoint.version == 2
    assert paths(load(log)) == [f"f{v}" for v in range(1, 7)]

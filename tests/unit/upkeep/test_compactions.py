"""A version has the same state from any sufficient set of log files: commits, compactions or a checkpoint."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltalite.errors import CorruptLogError
from deltalite.protocol.actions import DomainMetadata
from deltalite.protocol.file_names import checkpoint_name, commit_name, compaction_name
from deltalite.upkeep import compaction
from deltalite.upkeep.checkpoint import write_checkpoint
from deltalite.upkeep.post_commit import after_commit
from tests.support.fuzzing import examples
from tests.unit.builders import (
    NOON_MS,
    PROTOCOL,
    RequestLog,
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
from tests.unit.logs import state_of, uuid_name, write_checksum, write_compaction, write_v2

# The path of each file, and the id of its deletion vector.
FILE_KEYS = [("a", None), ("b", None), ("c d", None), ("a", "v"), ("a", "w"), ("b", "v")]


def action_of(kind, number, size):
    path, encoded_uuid = FILE_KEYS[number]
    vector_field = {"deletion_vector": vector(encoded_uuid, 1)} if encoded_uuid else {}
    return add(path, size_bytes=size, **vector_field) if kind == "add" else remove(path, **vector_field)


kinds_by_file = st.dictionaries(st.integers(0, len(FILE_KEYS) - 1), st.sampled_from(["add", "remove"]), max_size=4)
commits = st.lists(st.tuples(kinds_by_file, st.integers(0, 2), st.booleans()), min_size=2, max_size=7)


def store_with(commits):
    """A store with a table, and one more version for each drawn commit."""
    store = new_store()
    put_raw(store, 0, [PROTOCOL, metadata()])
    for version, (files, app, has_metadata) in enumerate(commits, 1):
        actions = [action_of(kind, number, version) for number, kind in files.items()]
        metadata_actions = [metadata({"k": str(version)})] if has_metadata else []
        put_raw(store, version, [*actions, txn(f"app {app}", version), *metadata_actions])
    return store


@pytest.mark.slow
@given(commits=commits, data=st.data())
@examples(60)
def test_a_version_has_the_same_state_from_commits_compactions_and_checkpoints(commits, data):
    store = store_with(commits)
    last_version = len(commits)
    expected = [state_of(load(store, version)) for version in range(last_version + 1)]
    versions = st.integers(0, last_version)
    for first, end in data.draw(st.lists(st.tuples(versions, versions), max_size=4), label="compactions"):
        if first < end:
            write_compaction(store, first, end)
    for version, kind in data.draw(
        st.lists(st.tuples(versions, st.sampled_from(["classic", "parquet", "json"])), max_size=2), label="checkpoints"
    ):
        if kind == "classic":
            write_checkpoint(load(store, version), now_ms=NOON_MS)
        else:
            write_v2(store, version, uuid_name(version, "json" if kind == "json" else "parquet"), sidecars=version % 3)
    for version in range(last_version + 1):
        assert state_of(load(store, version)) == expected[version]


@pytest.fixture
def log():
    """Versions 1 to 4 and 6 add `f<version>`, and 5 removes `f1` and `f3`. A compaction covers the versions 2 to 5."""
    store = append_files(create(new_store()), 4)
    commit_actions(store, remove("f1"), remove("f3"))
    append_files(store, 1)
    write_compaction(store, 2, 5)
    return store


EXPECTED = ["f2", "f4", "f6"]


def test_a_compaction_is_read_and_its_commits_are_not(log):
    requests = RequestLog(log)
    assert paths(load(log)) == EXPECTED
    read_names = [name for operation, name in requests.accesses if operation in ("read", "read_start", "open")]
    name_of_compaction = compaction_name(2, 5).rpartition("/")[2]
    assert read_names == ["_last_checkpoint", f"{6:020d}.json", name_of_compaction, f"{1:020d}.json", f"{0:020d}.json"]


def test_the_commits_within_a_compaction_may_be_missing(log):
    for version in (2, 3, 4):
        del log.files[commit_name(version)]
    assert paths(load(log)) == EXPECTED


def test_the_provenance_comes_from_a_commit_within_a_compaction(log):
    put_raw(log, 7, [commit_info(operation="LAST"), add("f7")])
    write_compaction(log, 6, 7)
    assert load(log).commit_info == {"operation": "LAST"}
    del log.files[commit_name(7)]
    snapshot = load(log)
    assert (snapshot.version, snapshot.commit_info) == (7, None)
    assert paths(snapshot) == ["f2", "f4", "f6", "f7"]


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"add":{}}', b'{"add":{"path":"a","size":"x"}}', b'{"txn":{}}'])
def test_a_damaged_compaction_is_replaced_by_its_commits(log, content, caplog):
    log.files[compaction_name(2, 5)] = (content, 0)
    with caplog.at_level(logging.WARNING):
        assert paths(load(log)) == EXPECTED
    assert compaction_name(2, 5) in caplog.text
    del log.files[commit_name(4)]
    with pytest.raises(CorruptLogError, match=compaction_name(2, 5)) as caught:
        load(log)
    assert type(caught.value) is CorruptLogError


def test_a_vanished_compaction_is_replaced_by_its_commits(log):
    log.before = lambda operation, name: operation == "read" and "compacted" in name and log.files.pop(name, None)
    assert paths(load(log)) == EXPECTED


def test_a_damaged_commit_raises_an_error(log):
    log.files[commit_name(6)] = (b'{"add":{"path":"a","size":"x"}}', 0)
    with pytest.raises(CorruptLogError, match=f"{commit_name(6)} contains an invalid add action: `size` is 'x'"):
        load(log)


def test_a_version_keeps_a_file_that_its_commit_adds_and_removes(log):
    """The protocol forbids such a commit. Readers keep the file."""
    for actions in ([add("x"), remove("x")], [remove("x"), add("x")], [remove("x"), add("x"), remove("x")]):
        put_raw(log, 7, actions)
        for _ in range(2):
            assert paths(load(log)) == [*EXPECTED, "x"]
            assert sorted(load(log).tombstones(["path"])["path"].to_pylist()) == ["f1", "f3"]
            write_checkpoint(load(log), now_ms=NOON_MS)
        del log.files[checkpoint_name(7)]


@given(commits=commits, data=st.data())
@examples(60)
def test_a_written_compaction_has_the_state_of_its_commits(commits, data):
    store = store_with(commits)
    last_version = len(commits)
    expected = [state_of(load(store, version)) for version in range(last_version + 1)]
    first = data.draw(st.integers(0, last_version - 1), label="first")
    assert compaction.write_compaction(store, first, last_version)
    for version in range(first + 1, last_version):
        del store.files[commit_name(version)]
    assert state_of(load(store, last_version)) == expected[last_version]


def test_unknown_fields_survive_in_a_compaction():
    store = create(new_store())
    put_raw(
        store,
        1,
        b'{"add":{"path":"a","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true,"new":{"x":1}}}',
    )
    append_files(store, 1)
    compaction.write_compaction(store, 1, 2)
    assert b'"new":{"x":1}' in store.files[compaction_name(1, 2)][0]


@pytest.mark.parametrize("actions", [[add("a"), remove("a")], [remove("a"), add("a")]])
def test_a_written_compaction_keeps_a_file_that_a_commit_adds_and_removes(actions):
    store = create(new_store(), add("a"))
    put_raw(store, 1, actions)
    append_files(store, 1)
    expected = state_of(load(store))
    assert compaction.write_compaction(store, 1, 2)
    assert load(store).segment.compactions and state_of(load(store)) == expected


def test_a_range_that_is_too_large_or_has_a_gap_gets_no_compaction(monkeypatch):
    store = append_files(create(new_store()), 3)
    monkeypatch.setattr(compaction, "_MAX_BYTES", 10)
    assert not compaction.write_compaction(store, 1, 3)
    monkeypatch.undo()
    del store.files[commit_name(2)]
    assert not compaction.write_compaction(store, 1, 3)


@pytest.mark.parametrize(("interval", "expected_ranges"), [(10, []), (25, [(1, 10), (11, 20), (26, 35)])])
def test_distant_checkpoints_have_compactions_between_them(interval, expected_ranges):
    store = create(new_store(), configuration={"delta.checkpointInterval": str(interval)})
    for version in range(1, 37):
        append_files(store, 1)
        after_commit(store, version, clock_ms=lambda: NOON_MS)
    assert sorted(name for name in store.files if "compacted" in name) == [
        compaction_name(*ends) for ends in expected_ranges
    ]
    assert len(paths(load(store))) == 36


UNRECONCILED = {
    "an add and a remove": [add("a"), remove("a")],
    "a remove and an add": [remove("a"), add("a")],
    "in another spelling": [add("d/x"), remove("d//x")],
    "with a vector": [add("a", deletion_vector=vector("v")), remove("a", deletion_vector=vector("v"))],
    "an add twice": [add("a"), add("a", size_bytes=11)],
    "a remove twice": [remove("a"), remove("a")],
    "a transaction twice": [txn("app", 1), txn("app", 2)],
    "two metadata": [metadata({"k": "1"}), metadata({"k": "2"})],
    "two protocols": [PROTOCOL, PROTOCOL],
    "a domain twice": [DomainMetadata(domain="d", configuration=text, removed=False) for text in "12"],
}


@pytest.mark.parametrize("has_checksum", [False, True])
@pytest.mark.parametrize("actions", UNRECONCILED.values(), ids=UNRECONCILED)
def test_an_unreconciled_compaction_is_not_used_while_its_commits_exist(actions, has_checksum, caplog):
    store = create(new_store(), add("f0"))
    for version, action in enumerate(actions, 1):
        put_raw(store, version, [action])
    expected = state_of(load(store))
    if has_checksum:
        write_checksum(store, 2)
    lines = b"".join(store.files[commit_name(version)][0] for version in range(1, 3))
    store.files[compaction_name(1, 2)] = (lines, 0)
    caplog.set_level(logging.WARNING)
    assert state_of(load(store)) == expected
    assert "was never reconciled" in caplog.text
    del store.files[commit_name(1)]
    with pytest.raises(CorruptLogError, match="was never reconciled"):
        state_of(load(store))


def test_a_compaction_may_remove_a_file_and_add_it_with_a_vector():
    store = append_files(create(new_store(), add("f0")), 1)
    put_raw(store, 2, [remove("a"), add("a", deletion_vector=vector("v"))])
    write_compaction(store, 1, 2)
    assert len(load(store).segment.compactions) == 1
    assert paths(load(store)) == ["a", "f0", "f1"]

"""Two writers delete rows of one file. Both commit if their rows differ. They conflict if both delete the same row."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from deltalite import DeltaTable
from deltalite.columnar.deletion_vectors.files import write_vectors
from deltalite.columnar.deletion_vectors.reading import vector_positions
from deltalite.columnar.deletion_vectors.roaring import decode
from deltalite.columnar.deletion_vectors.roaring_encoding import encode
from deltalite.errors import (
    CommitStateUnknownError,
    ConcurrentAppendException,
    ConcurrentModificationException,
    StorageError,
)
from deltalite.log.file_table import file_key
from deltalite.protocol.actions import AddFile, Protocol
from deltalite.protocol.file_names import commit_name
from deltalite.storage.local import LocalLogStore
from deltalite.txn.commit import commit
from deltalite.txn.proposal import ReadSet
from tests.support.commits import parse_commit
from tests.support.fuzzing import examples
from tests.support.tables import delta_rs_arrow
from tests.unit.builders import Clock, add, commit_actions, load, metadata, new_store, proposal, remove, struct

FEATURE = ("deletionVectors",)
PROTOCOL = Protocol(min_reader_version=3, min_writer_version=7, reader_features=FEATURE, writer_features=FEATURE)
STATS = '{"numRecords":100}'


class EveryRow:
    """A row test for which every file may have a matching row."""

    def may_match(self, _partition_values, _stats):
        return True


EVERY_ROW = EveryRow()


def positions(*rows):
    return pa.array(sorted(rows), pa.int64())


def create_table(store, *names):
    commit_actions(
        store, PROTOCOL, metadata(schema=struct(id="long")), *(add(n, stats=STATS) for n in names), read_version=-1
    )
    return store


def deletion_of(store, rows, *, version=None, row_level=True, row_tests=(EVERY_ROW,), more_actions=()):
    """A proposal that deletes rows in a version of the table. `rows` maps the names of files to positions."""
    snapshot = load(store, version)
    files = {row["path"]: row for row in snapshot.files.to_pylist()}
    old_vectors = {name: files[name]["deletionVector"] for name in rows}
    new_vectors = write_vectors(
        store, [positions(*{*deleted_rows, *rows_in(store, old_vectors[name])}) for name, deleted_rows in rows.items()]
    )
    removes = [remove_of(name, old_vector) for name, old_vector in old_vectors.items()]
    adds = [
        add(name, stats=STATS, deletion_vector=descriptor, size_bytes=files[name]["size"])
        for name, descriptor in zip(rows, new_vectors, strict=True)
    ]
    keys = frozenset(file_key(name, old_vector) for name, old_vector in old_vectors.items())
    reads = ReadSet(keys=keys, row_tests=tuple(row_tests))
    current = proposal(
        snapshot.version, *removes, *adds, *more_actions, base=(snapshot.protocol, snapshot.metadata), reads=reads
    )
    return replace(current, row_level=row_level)


def rows_in(store, descriptor):
    return [] if descriptor is None else vector_positions(store, descriptor).to_pylist()


def remove_of(name, deletion_vector):
    return remove(name, size_bytes=10, deletion_vector=deletion_vector)


def commit_deletion(store, deletion):
    return commit(store, deletion, clock_ms=Clock(), pause=lambda _s: None).version


def vector_files(store):
    return {name for name in store.files if name.startswith("deletion_vector")}


def adds_of_commit(store, version):
    actions = parse_commit(store.files[commit_name(version)][0], commit_name(version))
    return [action for action in actions if isinstance(action, AddFile)]


def removed_rows(store, name="f"):
    (row,) = [row for row in load(store).files.to_pylist() if row["path"] == name]
    return rows_in(store, row["deletionVector"])


def test_deletes_of_different_rows_of_one_file_both_commit():
    store = create_table(new_store(), "f")
    current, winning = deletion_of(store, {"f": {1, 2}}), deletion_of(store, {"f": {3, 99}})
    assert commit_deletion(store, winning) == 1
    assert commit_deletion(store, current) == 2
    assert removed_rows(store) == [1, 2, 3, 99]
    assert len(vector_files(store)) == 2, "the vector of the winning commit and the merged vector"
    assert load(store).files["deletionVector"].to_pylist()[0]["cardinality"] == 4


def test_a_vector_file_stays_while_one_of_its_vectors_is_in_use():
    store = create_table(new_store(), "f", "g")
    current, winning = deletion_of(store, {"f": {1}, "g": {5}}), deletion_of(store, {"f": {2}})
    commit_deletion(store, winning)
    commit_deletion(store, current)
    assert (removed_rows(store), removed_rows(store, "g")) == ([1, 2], [5])


def test_two_deletes_of_the_same_row_conflict_and_leave_no_file():
    store = create_table(new_store(), "f", "g")
    current, winning = deletion_of(store, {"f": {1}, "g": {5}}), deletion_of(store, {"f": {2}, "g": {5}})
    commit_deletion(store, winning)
    before = dict(store.files)
    with pytest.raises(ConcurrentModificationException, match="version 1"):
        commit_deletion(store, current)
    assert store.files == before


def test_an_operation_that_is_not_row_level_conflicts():
    store = create_table(new_store(), "f")
    current, winning = deletion_of(store, {"f": {1}}, row_level=False), deletion_of(store, {"f": {2}})
    commit_deletion(store, winning)
    with pytest.raises(ConcurrentModificationException):
        commit_deletion(store, current)


def test_rows_that_the_winning_commit_wrote_conflict():
    store = create_table(new_store(), "f")
    current, winning = (
        deletion_of(store, {"f": {1}}),
        deletion_of(store, {"f": {2}}, more_actions=(add("updated", stats=STATS),)),
    )
    commit_deletion(store, winning)
    with pytest.raises(ConcurrentAppendException):
        commit_deletion(store, current)
    deletion_without_row_tests = deletion_of(store, {"f": {7}}, version=0, row_tests=())
    assert commit_deletion(store, deletion_without_row_tests) == 2
    assert removed_rows(store) == [2, 7]


def test_restored_rows_conflict():
    store = create_table(new_store(), "f")
    commit_deletion(store, deletion_of(store, {"f": {1, 2}}))
    current = deletion_of(store, {"f": {3}})
    (row,) = load(store).files.to_pylist()
    (restored_vector,) = write_vectors(store, [positions(2)])
    commit_actions(store, remove_of("f", row["deletionVector"]), add("f", stats=STATS, deletion_vector=restored_vector))
    with pytest.raises(ConcurrentModificationException):
        commit_deletion(store, current)


def test_rows_removed_from_a_file_that_was_only_read_do_not_conflict():
    store = create_table(new_store(), "f", "g")
    current = deletion_of(store, {"f": {1}})
    commit_deletion(store, deletion_of(store, {"g": {1}}))
    assert commit_deletion(store, current) == 2
    assert (removed_rows(store, "f"), removed_rows(store, "g")) == ([1], [1])


@pytest.mark.parametrize("replacement_files", [(), (add("f2", stats=STATS),)])
def test_a_completely_removed_file_conflicts(replacement_files):
    store = create_table(new_store(), "f", "g")
    deletion = deletion_of(store, {"g": {1}}, row_tests=())
    complete_removal = replace(
        deletion, removes=(*deletion.removes, remove("f")), adds=(*deletion.adds, *replacement_files)
    )
    commit_deletion(store, deletion_of(store, {"f": {3}}))
    with pytest.raises(ConcurrentModificationException):
        commit_deletion(store, complete_removal)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("killed")])
def test_merged_vectors_stay_if_an_unexpected_error_ends_the_commit(error):
    store = create_table(new_store(), "f")
    current = deletion_of(store, {"f": {1}})
    commit_deletion(store, deletion_of(store, {"f": {2}}))

    def fail_after_put(operation, name):
        if operation == "write_if_absent" and name.endswith("2.json"):
            raise error

    store.after = fail_after_put
    with pytest.raises(type(error)):
        commit_deletion(store, current)
    store.after = lambda _operation, _name: None
    assert removed_rows(store) == [1, 2]


def test_a_removed_file_that_was_only_read_does_not_conflict():
    store = create_table(new_store(), "f", "g")
    deletion = deletion_of(store, {"f": {1}}, row_tests=())
    current = replace(deletion, reads=ReadSet(keys=deletion.reads.keys | {"g"}))
    commit_actions(store, remove("g"))
    assert commit_deletion(store, current) == 2


def test_a_conflict_after_a_merge_of_vectors_leaves_no_file():
    store = create_table(new_store(), "f")
    current = deletion_of(store, {"f": {1}})
    commit_deletion(store, deletion_of(store, {"f": {2}}))
    commit_deletion(store, deletion_of(store, {"f": {1}}))
    before = dict(store.files)
    with pytest.raises(ConcurrentModificationException, match="version 2"):
        commit_deletion(store, current)
    assert store.files == before


def test_merged_vectors_of_a_lost_race_are_deleted_and_used_vectors_stay():
    store = create_table(new_store(), "f", "g")
    current = deletion_of(store, {"f": {1}, "g": {1}})
    rivals = [deletion_of(store, {"f": {2}}), deletion_of(store, {"f": {3}, "g": {3}}, version=0)]
    commit_deletion(store, rivals[0])
    first_vectors = vector_files(store)
    late_rivals = [rivals[1]]

    def commit_late_rival(operation, name):
        if operation == "write_if_absent" and name.endswith("2.json") and late_rivals:
            commit_deletion(store, late_rivals.pop())

    store.before = commit_late_rival
    assert commit_deletion(store, current) == 3
    assert (removed_rows(store, "f"), removed_rows(store, "g")) == ([1, 2, 3], [1, 3])
    # These are the merged vectors of the late rival and of the current transaction.
    assert len(vector_files(store) - first_vectors) == 2


def test_merged_vectors_stay_if_the_commit_state_is_unknown():
    store = create_table(new_store(), "f")
    current = deletion_of(store, {"f": {1}})
    commit_deletion(store, deletion_of(store, {"f": {2}}))
    before = set(store.files)

    def fail_put(operation, name):
        if operation == "write_if_absent" and name.endswith("2.json"):
            raise CommitStateUnknownError("No answer.", remedy="Look.")

    store.before = fail_put
    with pytest.raises(CommitStateUnknownError):
        commit_deletion(store, current)
    assert len(set(store.files) - before) == 1


def test_merged_vectors_stay_if_a_commit_with_the_name_of_a_deleted_version_cannot_be_deleted():
    """Log cleanup deletes commits faster than the writer reads them, and storage does not delete the new commit."""
    store = create_table(new_store(), "f")
    current = deletion_of(store, {"f": {1}})
    commit_deletion(store, deletion_of(store, {"f": {2}}))
    before = set(store.files)

    def delete_commits(operation, name):
        if operation == "write_if_absent" and name.endswith("2.json"):
            store.files.pop(commit_name(1), None)
        if (operation, name) == ("delete", commit_name(2)):
            raise StorageError("No answer.", remedy="Try again.")

    store.before = delete_commits
    with pytest.raises(CommitStateUnknownError, match=r"could not be deleted \(No answer\.\)"):
        commit_deletion(store, current)
    store.before = lambda _operation, _name: None
    assert commit_name(2) in store.files
    assert len(vector_files(store) - before) == 1
    assert all(rows_in(store, added.deletion_vector) == [1, 2] for added in adds_of_commit(store, 2))


deletions = st.lists(
    st.dictionaries(st.sampled_from(["f", "g"]), st.sets(st.integers(0, 9), min_size=1, max_size=3), min_size=1),
    min_size=2, max_size=5,
)  # fmt: skip


@given(deletions=deletions)
@examples(60)
def test_every_commit_removes_exactly_its_rows(deletions):
    """All writers read the first version. A writer commits unless another writer has deleted one of its rows."""
    store = create_table(new_store(), "f", "g")
    expected = {"f": set(), "g": set()}
    for deletion, rows in [(deletion_of(store, rows), rows) for rows in deletions]:
        has_new_rows_only = all(not expected[name] & deleted_rows for name, deleted_rows in rows.items())
        try:
            commit_deletion(store, deletion)
        except ConcurrentModificationException:
            assert not has_new_rows_only
        else:
            assert has_new_rows_only
            for name, deleted_rows in rows.items():
                expected[name] |= deleted_rows
        assert {name: set(removed_rows(store, name)) for name in expected} == expected


def test_other_engines_read_the_merged_rows(tmp_path):
    store = LocalLogStore(str(tmp_path))
    pq.write_table(pa.table({"id": pa.array(range(100), pa.int64())}), tmp_path / "f")
    size = (tmp_path / "f").stat().st_size
    commit_actions(
        store, PROTOCOL, metadata(schema=struct(id="long")), add("f", stats=STATS, size_bytes=size), read_version=-1
    )
    current, winning = deletion_of(store, {"f": {1, 2}}), deletion_of(store, {"f": {98}})
    commit_deletion(store, winning)
    commit_deletion(store, current)
    expected = [number for number in range(100) if number not in (1, 2, 98)]
    assert DeltaTable(str(tmp_path)).to_arrow()["id"].to_pylist() == expected
    assert sorted(delta_rs_arrow(tmp_path)["id"].to_pylist()) == expected


row_sets = st.one_of(
    st.sets(st.integers(0, 2**40), max_size=40),
    st.tuples(st.integers(0, 2**33), st.integers(1, 70_000), st.integers(1, 3)).map(
        lambda t: set(range(t[0], t[0] + t[1] * t[2], t[2]))
    ),
)


@given(rows=row_sets)
@examples(60)
def test_the_reference_implementation_reads_the_encoded_rows(rows):
    data = encode(positions(*rows))
    assert set(BitMap64.deserialize(data[4:])) == rows
    assert decode(data, len(rows)).to_pylist() == sorted(rows)

"""A file that loses rows gets a new vector with all its deleted rows, or is removed if no row remains.

New vector files are deleted if their commit fails.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltalite.columnar.deletion_vectors.reading import vector_positions
from deltalite.commands.row_changes import deletion_vectors
from deltalite.commands.row_changes.deletion_vectors import VectorFiles
from deltalite.errors import CorruptDataFileError, StorageError
from deltalite.log.file_table import ADD_TYPES, table_of
from deltalite.protocol.actions import AddFile
from deltalite.storage.memory import MemoryLogStore
from tests.support.vectors import inline_vector


def positions(*rows):
    return pa.array(rows, pa.int64())


def files(*descriptions):
    """A table of files, each described by its path, its number of rows or None, and its deleted rows."""
    bodies = []
    for path, count, deleted_rows in descriptions:
        body = {"path": path, "partitionValues": {"day": "a"}, "size": 9, "modificationTime": 5, "dataChange": True,
                "tags": {"own": "x"}, "clusteringProvider": "liquid"}  # fmt: skip
        body["stats"] = None if count is None else json.dumps({"numRecords": count})
        body["deletionVector"] = inline_vector(deleted_rows) if deleted_rows else None
        bodies.append(body)
    return table_of(bodies, ADD_TYPES, AddFile)


@pytest.fixture
def store():
    return MemoryLogStore()


def vectors_in(store):
    return [name for name in stored_names(store) if "deletion_vector" in name]


def stored_names(store):
    return sorted(store.files)


def test_a_new_vector_also_has_the_rows_deleted_earlier_and_the_file_keeps_its_fields(store):
    table = files(("1.parquet", 10, [3]), ("2.parquet", 10, []), ("3.parquet", 10, []))
    with VectorFiles(store) as vectors:
        new_vectors = vectors.delete_rows(table, [(0, positions(0, 9)), (2, positions(4))])
        vectors.keep_published()
    assert new_vectors.file_numbers == [0, 2]
    assert (new_vectors.vectors_added, new_vectors.vectors_updated, new_vectors.vectors_removed) == (2, 1, 1)
    first, second = new_vectors.adds
    assert (first.path, second.path) == ("1.parquet", "3.parquet")
    assert vector_positions(store, first.deletion_vector).to_pylist() == [0, 3, 9]
    assert vector_positions(store, second.deletion_vector).to_pylist() == [4]
    assert first.deletion_vector["cardinality"] == 3
    assert (first.tags, first.clustering_provider, first.modification_time_ms, first.size_bytes) == (
        {"own": "x"}, "liquid", 5, 9,
    )  # fmt: skip
    assert first.partition_values == {"day": "a"} and first.data_change
    assert json.loads(first.stats) == {"numRecords": 10, "tightBounds": False}
    assert len(vectors_in(store)) == 1


def write_data_file(store, name, count):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": list(range(count))}), sink)
    store.write(name, sink.getvalue().to_pybytes())


def test_a_file_that_loses_its_last_row_is_only_removed(store):
    table = files(("1.parquet", 3, [1]), ("2.parquet", 2, []))
    write_data_file(store, "1.parquet", 3)
    write_data_file(store, "2.parquet", 2)
    with VectorFiles(store) as vectors:
        new_vectors = vectors.delete_rows(table, [(0, positions(0, 2)), (1, positions(0, 1))])
    assert new_vectors.file_numbers == [0, 1] and new_vectors.adds == [] and vectors_in(store) == []
    assert (new_vectors.vectors_added, new_vectors.vectors_removed) == (0, 1)


def test_the_footer_gives_a_row_count_that_the_statistics_lack(store):
    write_data_file(store, "a b.parquet", 3)
    table = files(("a%20b.parquet", None, []))
    with VectorFiles(store) as vectors:
        (add,) = vectors.delete_rows(table, [(0, positions(1))]).adds
        assert json.loads(add.stats)["numRecords"] == 3
        assert vectors.delete_rows(table, [(0, positions(0, 1, 2))]).adds == []
        with pytest.raises(CorruptDataFileError, match=r"gone\.parquet"):
            vectors.delete_rows(files(("gone.parquet", None, [])), [(0, positions(1))])


def test_a_wrong_row_count_in_the_statistics_loses_no_other_row(store):
    write_data_file(store, "1.parquet", 3)
    with VectorFiles(store) as vectors:
        (add,) = vectors.delete_rows(files(("1.parquet", 2, [])), [(0, positions(0, 1))]).adds
        assert vector_positions(store, add.deletion_vector).to_pylist() == [0, 1]
    assert json.loads(add.stats)["numRecords"] == 3


@pytest.mark.parametrize("size", [1, 2, 4, 100])
def test_the_size_of_a_vector_file_is_limited(store, monkeypatch, size):
    monkeypatch.setattr(deletion_vectors, "_POSITIONS_PER_VECTOR_FILE", size)
    table = files(*((f"{n}.parquet", 10, []) for n in range(5)))
    deletions = [(n, positions(n, n + 1)) for n in range(5)]
    with VectorFiles(store) as vectors:
        new_vectors = vectors.delete_rows(table, iter(deletions))
        vectors.keep_published()
    assert [vector_positions(store, add.deletion_vector).to_pylist() for add in new_vectors.adds] == [
        [n, n + 1] for n in range(5)
    ]
    assert len(vectors_in(store)) == {1: 5, 2: 5, 4: 3, 100: 1}[size]


def test_uncommitted_vectors_are_removed_and_keep_all_keeps_them(store):
    table = files(("1.parquet", 10, []))
    with VectorFiles(store) as vectors:
        vectors.delete_rows(table, [(0, positions(1))])
        assert len(vectors_in(store)) == 1
    assert vectors_in(store) == []
    with VectorFiles(store) as vectors:
        vectors.delete_rows(table, [(0, positions(1))])
        vectors.keep_all()
    assert len(vectors_in(store)) == 1


def test_a_vector_that_cannot_be_removed_is_left_for_a_vacuum(store, monkeypatch):
    def refuse(_name):
        raise StorageError("no", remedy="none")

    monkeypatch.setattr(store, "delete", refuse)
    with VectorFiles(store) as vectors:
        vectors.delete_rows(files(("1.parquet", 10, [])), [(0, positions(1))])
    assert len(vectors_in(store)) == 1

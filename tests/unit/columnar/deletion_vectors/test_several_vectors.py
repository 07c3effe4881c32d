"""Several deletion vectors are read with few requests."""

from __future__ import annotations

from threading import Barrier
from uuid import UUID

import pyarrow as pa
import pytest

from deltalite.columnar.deletion_vectors import reading
from deltalite.columnar.deletion_vectors.reading import positions_of_vectors, vector_positions
from deltalite.errors import CorruptDataFileError
from deltalite.storage.memory import MemoryLogStore
from tests.support.vectors import inline_vector, vector, vector_file, z85
from tests.unit.columnar.deletion_vectors.stored_vectors import NAME, ROWS, descriptor, store_with


@pytest.fixture
def read_sizes(monkeypatch):
    """The sizes of the reads of the files in a `MemoryLogStore`, for each opening of a file."""
    sizes, open_file = [], MemoryLogStore.open

    class RecordingFile(pa.PythonFile):
        def read(self, nbytes=None):
            sizes[-1].append(nbytes)
            return super().read(nbytes)

    def open_recording(store, name):
        sizes.append([])
        return RecordingFile(open_file(store, name), "r")

    monkeypatch.setattr(MemoryLogStore, "open", open_recording)
    return sizes


def test_only_the_bytes_of_the_vector_are_read(read_sizes):
    content, offsets = vector_file(vector(range(0, 700_000, 2)), vector(ROWS), vector(range(0, 100_000, 3)))
    assert vector_positions(store_with(content), descriptor(offset=offsets[1])).to_pylist() == ROWS
    assert read_sizes == [[1, 8 + len(vector(ROWS))]]


def test_a_vector_at_the_beginning_of_its_file_is_read_with_the_version_of_the_file(read_sizes):
    content, _ = vector_file(vector(ROWS), vector(range(0, 100_000, 3)))
    assert vector_positions(store_with(content), descriptor()).to_pylist() == ROWS
    assert read_sizes == [[1 + 8 + len(vector(ROWS))]]


def test_neighbours_in_a_file_are_read_with_one_request_up_to_a_limit(read_sizes, monkeypatch):
    row_sets = [[1], [2, 3], ROWS, list(range(0, 700_000, 2)), [7]]
    content, offsets = vector_file(*map(vector, row_sets))
    vectors = [
        descriptor(offset=offset, sizeInBytes=len(vector(rows)), cardinality=len(rows))
        for rows, offset in zip(row_sets, offsets, strict=True)
    ]
    store = store_with(content)

    def sizes_of_reads(*indexes):
        read_sizes.clear()
        positions = positions_of_vectors(store, [vectors[index] for index in indexes])
        assert [array.to_pylist() for array in positions] == [row_sets[index] for index in indexes]
        (sizes,) = read_sizes
        return sizes

    def size(first, last):
        start = 0 if first == 0 else offsets[first]  # the first read has the version of the file too
        return offsets[last] + 8 + len(vector(row_sets[last])) - start

    assert sizes_of_reads(2, 0, 1, 0) == [size(0, 2)]
    assert sizes_of_reads(0, 1, 2, 4) == [size(0, 2), size(4, 4)], "the gap is too large"
    assert sizes_of_reads(0, 1, 2, 3, 4) == [size(0, 4)]
    assert sizes_of_reads(4) == [1, size(4, 4)], "the version is not near"
    monkeypatch.setattr(reading, "_MAX_READ_BYTES", size(0, 1))
    assert sizes_of_reads(0, 1, 2, 3, 4) == [size(0, 1), size(2, 2), size(3, 3), size(4, 4)]


def test_vectors_of_the_log_and_of_several_files_keep_their_order():
    other_id = UUID(int=5)
    store = store_with(vector_file(vector(ROWS))[0])
    store.write(f"deletion_vector_{other_id}.bin", vector_file(vector([4]))[0])
    other_vector = descriptor(pathOrInlineDv=z85(other_id.bytes), sizeInBytes=len(vector([4])), cardinality=1)
    vectors = [other_vector, inline_vector([9]), descriptor(), inline_vector([]), other_vector]
    positions = positions_of_vectors(store, vectors)
    assert [array.to_pylist() for array in positions] == [[4], [9], ROWS, [], [4]]
    assert positions_of_vectors(store, []) == []


def test_a_damaged_vector_among_others_is_named():
    content, offsets = vector_file(vector([1]), vector(ROWS))
    damaged_vector = descriptor(offset=offsets[1])
    intact_vector = descriptor(sizeInBytes=len(vector([1])), cardinality=1)
    with pytest.raises(CorruptDataFileError, match=f"at byte {offsets[1]} of '{NAME}'"):
        positions_of_vectors(store_with(content[:-1] + bytes([content[-1] ^ 1])), [damaged_vector, intact_vector])


def test_several_files_are_read_concurrently():
    """Each read waits for the other, so sequential reads would never end."""
    barrier = Barrier(2, timeout=10)
    store = MemoryLogStore()
    vectors = []
    for number in range(2):
        file_id = UUID(int=number)
        store.write(f"deletion_vector_{file_id}.bin", vector_file(vector(ROWS))[0])
        vectors.append(descriptor(pathOrInlineDv=z85(file_id.bytes)))
    store.before = lambda _operation, _name: barrier.wait()
    assert [array.to_pylist() for array in positions_of_vectors(store, vectors)] == [ROWS, ROWS]

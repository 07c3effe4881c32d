"""The reader of deletion vectors: the positions of the deleted rows of a data file.

A file may contain many vectors. The reader reads only the requested vectors, and small gaps between them. It checks
version, offset, size, checksum, format and number of positions. An invalid vector raises `CorruptDataFileError`,
because without the vector the table would show deleted rows. Positions are the indexes of rows in the data file, from
0.
Protocol: Deletion Vectors; Deletion Vector File Storage Format.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.columnar.deletion_vectors import roaring
from deltalite.columnar.deletion_vectors.descriptors import (
    FRAME_FIELD_BYTES,
    LOG_REMEDY,
    VectorDescriptor,
    parse_descriptor,
)
from deltalite.errors import CorruptDataFileError, StorageError
from deltalite.protocol import z85
from deltalite.sizes import counted

if TYPE_CHECKING:
    from deltalite.storage.log_store import LogStore

FILE_VERSION: Final = 1
_MAX_THREADS: Final = 16
# One request reads neighbouring vectors, with at most this gap between them and at most `_MAX_READ_BYTES` together.
_MAX_GAP_BYTES: Final = 64 << 10
_MAX_READ_BYTES: Final = 8 << 20
_REMEDY: Final = "Restore the deletion vector from a backup, or run RESTORE to a version that does not need it."


def vector_positions(store: LogStore, descriptor: Mapping[str, Any]) -> pa.Int64Array:
    """Return the positions of the deleted rows of a data file, strictly increasing.

    `descriptor` is the `deletionVector` of the file's `add` action. The caller must check that the positions are below
    the data file's number of rows.

    Raises:
        CorruptDataFileError: the vector is missing or damaged, or differs from the descriptor.
        StorageError: the operating system or the network failed.
    """
    return positions_of_vectors(store, [descriptor])[0]


def positions_of_vectors(store: LogStore, descriptors: Sequence[Mapping[str, Any]]) -> list[pa.Int64Array]:
    """Return the positions of each vector, as `vector_positions` does.

    A file of vectors is opened once, and vectors that lie near each other in it are read with one request. Several
    files are read in parallel, because each may be on an object store.

    Raises:
        CorruptDataFileError, StorageError: see `vector_positions`.
    """
    vectors = [parse_descriptor(descriptor, store.root) for descriptor in descriptors]
    positions: dict[int, pa.Int64Array] = {}
    indexes_by_file: dict[str, list[int]] = {}
    for index, vector in enumerate(vectors):
        if vector.file is None:
            positions[index] = _decode_positions(vector, _inline_data(vector))
        else:
            indexes_by_file.setdefault(vector.file, []).append(index)

    def read_file(file: str) -> None:
        indexes = sorted(indexes_by_file[file], key=lambda index: vectors[index].offset)
        data_of_vectors = _stored_data(store, file, [vectors[index] for index in indexes])
        for index, data in zip(indexes, data_of_vectors, strict=True):
            positions[index] = _decode_positions(vectors[index], data)

    if len(indexes_by_file) == 1:  # threads would only delay the decoding
        read_file(*indexes_by_file)
    elif indexes_by_file:
        num_threads = min(_MAX_THREADS, len(indexes_by_file))
        with ThreadPoolExecutor(max_workers=num_threads, thread_name_prefix="vector") as pool:
            list(pool.map(read_file, indexes_by_file))
    return [positions[index] for index in range(len(vectors))]


def mask_without_rows(positions: pa.Int64Array, start: int, count: int) -> pa.BooleanArray | None:
    """Return a mask of the `count` rows from position `start` on: False for the rows at `positions`.

    `positions` is a result of `vector_positions`. Returns None if the mask would be True for each row.
    """
    positions_in_range = positions_within(positions, range(start, start + count))
    if not len(positions_in_range):
        return None
    flags = bytearray(b"\x01") * count
    for position in pc.subtract(positions_in_range, start).to_pylist():
        flags[position] = 0
    return pa.Array.from_buffers(pa.uint8(), count, [None, pa.py_buffer(flags)]).cast(pa.bool_())


def positions_within(positions: pa.Int64Array, rows: range) -> pa.Int64Array:
    """Return the positions in the range `rows`; `positions` is strictly increasing."""
    first = bisect_left(positions, rows.start, key=lambda position: position.as_py())
    end = bisect_left(positions, rows.stop, lo=first, key=lambda position: position.as_py())
    return positions.slice(first, end - first)


def check_positions(positions: pa.Int64Array, num_rows: int, file_name: str) -> None:
    """Check that each of the strictly increasing `positions` is a row of a data file with `num_rows` rows.

    Raises:
        CorruptDataFileError: a position is beyond the last row. The message names `file_name`.
    """
    if len(positions) and positions[-1].as_py() >= num_rows:
        raise CorruptDataFileError(
            f"A deletion vector selects the row at index {positions[-1].as_py()} of the data file '{file_name}', but "
            f"the file has {counted(num_rows, 'row')}.",
            remedy=LOG_REMEDY,
        )


def _decode_positions(vector: VectorDescriptor, data: bytes) -> pa.Int64Array:
    if not data and not vector.cardinality:
        return pa.array([], pa.int64())
    try:
        return roaring.decode(data, vector.cardinality)
    except roaring.MalformedBitmapError as error:
        raise _vector_error(vector.location, f"is malformed: {error}") from error


def _inline_data(vector: VectorDescriptor) -> bytes:
    """Return the bytes of an inline vector."""
    try:
        data = z85.decode(vector.text)
    except ValueError as error:
        raise _vector_error(vector.location, f"is not valid Z85: {error}") from error
    if vector.size_bytes > len(data):
        raise _vector_error(vector.location, f"has {counted(len(data), 'byte')} where the log says {vector.size_bytes}")
    return data[: vector.size_bytes]  # encoders pad inline vectors to a multiple of four bytes


def _stored_data(store: LogStore, name: str, vectors: Sequence[VectorDescriptor]) -> Iterator[bytes]:
    """Yield the bytes of each vector of a file. The vectors are in the order of their offsets."""
    try:
        with store.open(name) as handle:
            yield from _read_frames(handle, vectors)
    except FileNotFoundError as error:
        raise CorruptDataFileError(
            f"The deletion vector file '{name}' of the table {store.root} does not exist.", remedy=_REMEDY
        ) from error
    except OSError as error:
        raise StorageError(
            f"The deletion vector file '{name}' of the table {store.root} could not be read: {error}.",
            remedy="Check the storage, then retry the task.",
        ) from error


def _read_frames(handle: pa.NativeFile, vectors: Sequence[VectorDescriptor]) -> Iterator[bytes]:
    """Yield the bytes of each vector, with few reads of the file."""
    length = handle.size()
    for vector in vectors:
        if vector.end > length:
            needed = f"{counted(vector.size_bytes, 'byte')}, and {2 * FRAME_FIELD_BYTES} more for its size and checksum"
            problem = f"needs {needed}, but the file ends after {counted(length, 'byte')}"
            raise _vector_error(vector.location, problem)
    first_group, *later_groups = _groups_of_neighbours(vectors)
    # Byte 0 is the file's version. The same request reads the first group if the group is near.
    if first_group[0].offset > _MAX_GAP_BYTES:
        _check_version(handle.read(1), first_group[0])
        later_groups = [first_group, *later_groups]
    else:
        data = handle.read(_end_of(first_group))
        _check_version(data, first_group[0])
        yield from (_data_of_frame(data[vector.offset : vector.end], vector) for vector in first_group)
    for group in later_groups:
        start = group[0].offset
        handle.seek(start)
        data = handle.read(_end_of(group) - start)
        yield from (_data_of_frame(data[vector.offset - start : vector.end - start], vector) for vector in group)


def _end_of(vectors: Sequence[VectorDescriptor]) -> int:
    return max(vector.end for vector in vectors)


def _check_version(data: bytes, vector: VectorDescriptor) -> None:
    """Check the version of the file of a vector. `data` begins at the first byte of the file."""
    if data[0] != FILE_VERSION:
        problem = f"is in a file of version {data[0]} where {FILE_VERSION} is expected"
        raise _vector_error(vector.location, problem)


def _groups_of_neighbours(vectors: Sequence[VectorDescriptor]) -> Iterator[list[VectorDescriptor]]:
    """Yield groups of vectors: one request reads a group. `vectors` is in the order of the offsets."""
    group = [vectors[0]]
    for vector in vectors[1:]:
        if vector.offset - group[-1].end > _MAX_GAP_BYTES or vector.end - group[0].offset > _MAX_READ_BYTES:
            yield group
            group = []
        group.append(vector)
    yield group


def _data_of_frame(frame: bytes, vector: VectorDescriptor) -> bytes:
    """Return the bytes of a vector. Check the size before it and the checksum after it, which are big-endian."""
    stored_size, data = int.from_bytes(frame[:FRAME_FIELD_BYTES], "big"), frame[FRAME_FIELD_BYTES:-FRAME_FIELD_BYTES]
    if stored_size != vector.size_bytes:
        problem = f"has {counted(stored_size, 'byte')} where the log says {vector.size_bytes}"
        raise _vector_error(vector.location, problem)
    checksum, stored_checksum = zlib.crc32(data), int.from_bytes(frame[-FRAME_FIELD_BYTES:], "big")
    if checksum != stored_checksum:
        problem = f"has the checksum {checksum:08x} where {stored_checksum:08x} is expected"
        raise _vector_error(vector.location, problem)
    return data


def _vector_error(location: str, problem: str) -> CorruptDataFileError:
    return CorruptDataFileError(f"The deletion vector {location} {problem}.", remedy=_REMEDY)

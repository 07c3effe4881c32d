"""The reader of deletion vectors: the positions of the deleted rows of a data file.

The descriptor in the log contains the vector, or names its file by a uuid (a file of the table) or by an absolute path.
A file may contain many vectors; the reader reads only the bytes of the requested vector. It checks version, offset,
size, checksum, format and number of rows. An invalid vector raises `CorruptDataFileError`, because without the vector
the table would show deleted rows. Positions are the indexes of rows in the data file, from 0. Protocol: Deletion
Vectors; Deletion Vector File Storage Format.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.columnar.deletion_vectors import roaring
from deltalite.errors import CorruptDataFileError, StorageError
from deltalite.protocol import z85
from deltalite.protocol.paths import decode_path, is_absolute
from deltalite.sizes import counted

if TYPE_CHECKING:
    from deltalite.storage.log_store import LogStore

FILE_VERSION: Final = 1
_UUID_CHARACTERS: Final = 20
# In a file, the size of a vector stands before it and its CRC-32 after it, each in four bytes.
FRAME_BYTES: Final = 4
_REMEDY: Final = "Restore the deletion vector from a backup, or run RESTORE to a version that does not need it."
_LOG_REMEDY: Final = "Repair the log with the engine that wrote it, or run RESTORE to an earlier version."


def vector_positions(store: LogStore, descriptor: Mapping[str, Any]) -> pa.Int64Array:
    """Return the positions of the deleted rows of a data file, strictly increasing.

    `descriptor` is the `deletionVector` of the file's `add` action. The caller must check that the positions are below
    the data file's number of rows.

    Raises:
        CorruptDataFileError: the vector is missing or damaged, or differs from the descriptor.
        StorageError: the operating system or the network failed.
    """
    name = file_name(descriptor)
    location = f"of '{name}'" if name is not None else "in the log"
    location = f"{location} of the table {store.root}"
    cardinality, size = _count(descriptor, "cardinality", location), _count(descriptor, "sizeInBytes", location)
    if name is None:
        data = _decode_inline(descriptor["pathOrInlineDv"], size, location)
    else:
        offset = _offset(descriptor, location)
        location = f"at byte {offset} {location}"
        data = _read_stored(store, name, offset, size, location)
    if not data and not cardinality:
        return pa.array([], pa.int64())
    try:
        return roaring.decode(data, cardinality)
    except roaring.MalformedBitmapError as error:
        raise _vector_error(location, f"is malformed: {error}") from error


def mask_without_rows(positions: pa.Int64Array, start: int, count: int) -> pa.BooleanArray | None:
    """Return a mask of the `count` rows from position `start` on: False for the rows at `positions`.

    `positions` is a result of `vector_positions`. Returns None if none of these rows is at `positions`, so that
    no filter is needed.
    """
    first = bisect_left(positions, start, key=lambda position: position.as_py())
    end = bisect_left(positions, start + count, lo=first, key=lambda position: position.as_py())
    if first == end:
        return None
    flags = bytearray(b"\x01") * count
    for position in pc.subtract(positions.slice(first, end - first), start).to_pylist():
        flags[position] = 0
    return pa.Array.from_buffers(pa.uint8(), count, [None, pa.py_buffer(flags)]).cast(pa.bool_())


def file_name(descriptor: Mapping[str, Any]) -> str | None:
    """Return the decoded name of the vector's file: relative to the table's root, or absolute. None if inline.

    Raises:
        CorruptDataFileError: the descriptor is invalid.
    """
    storage_type, text = descriptor.get("storageType"), descriptor.get("pathOrInlineDv")
    if not isinstance(text, str):
        raise _descriptor_error(descriptor, "has no pathOrInlineDv")
    match storage_type:
        case "i":
            return None
        case "u":
            prefix, encoded_uuid = text[:-_UUID_CHARACTERS], text[-_UUID_CHARACTERS:]
            try:
                uuid = UUID(bytes=z85.decode(encoded_uuid))
            except ValueError as error:
                raise _descriptor_error(descriptor, f"has no uuid in Z85: {error}") from error
            return f"{prefix}/deletion_vector_{uuid}.bin" if prefix else f"deletion_vector_{uuid}.bin"
        case "p":
            path = decode_path(text)
            if not is_absolute(path):
                raise _descriptor_error(descriptor, "has storage type 'p', but its path is not absolute")
            return path
        case _:
            raise _descriptor_error(descriptor, "has a storage type other than 'u', 'i' and 'p'")


def _decode_inline(text: str, size: int, location: str) -> bytes:
    try:
        data = z85.decode(text)
    except ValueError as error:
        raise _vector_error(location, f"is not valid Z85: {error}") from error
    if size > len(data):
        raise _vector_error(location, f"has {counted(len(data), 'byte')} where the log says {size}")
    return data[:size]  # encoders pad inline vectors to a multiple of four bytes


def _read_stored(store: LogStore, name: str, offset: int, size: int, location: str) -> bytes:
    try:
        with store.open(name) as handle:
            return _read_frame(handle, offset, size, location)
    except FileNotFoundError as error:
        raise CorruptDataFileError(
            f"The deletion vector file '{name}' of the table {store.root} does not exist.", remedy=_REMEDY
        ) from error
    except OSError as error:
        raise StorageError(
            f"The deletion vector file '{name}' of the table {store.root} could not be read: {error}.",
            remedy="Check the storage, then retry the task.",
        ) from error


def _read_frame(handle: pa.NativeFile, offset: int, size: int, location: str) -> bytes:
    """Read the bytes of one vector and check its frame: the size before it, and the checksum after it (big-endian)."""
    length = handle.size()
    if offset + FRAME_BYTES + size + FRAME_BYTES > length:
        lengths = (
            f"{counted(size, 'byte')}, its size and its checksum, but the file ends after {counted(length, 'byte')}"
        )
        raise _vector_error(location, f"needs {lengths}")
    version = handle.read(1)[0]
    if version != FILE_VERSION:
        raise _vector_error(location, f"is in a file of version {version} where {FILE_VERSION} is expected")
    handle.seek(offset)
    frame: bytes = handle.read(FRAME_BYTES + size + FRAME_BYTES)
    stored_size, data = int.from_bytes(frame[:FRAME_BYTES], "big"), frame[FRAME_BYTES:-FRAME_BYTES]
    if stored_size != size:
        raise _vector_error(location, f"has {counted(stored_size, 'byte')} where the log says {size}")
    checksum, stored_checksum = zlib.crc32(data), int.from_bytes(frame[-FRAME_BYTES:], "big")
    if checksum != stored_checksum:
        raise _vector_error(location, f"has the checksum {checksum:08x} where {stored_checksum:08x} is expected")
    return data


def _offset(descriptor: Mapping[str, Any], location: str) -> int:
    """Return the offset of the vector. A missing offset means 1, the first vector: byte 0 is the file's version."""
    offset = descriptor.get("offset")
    if offset is None:
        return 1
    if not isinstance(offset, int) or isinstance(offset, bool) or offset < 1:
        raise CorruptDataFileError(
            f"The deletion vector {location} has the offset {offset!r}, but vectors begin at byte 1.",
            remedy=_LOG_REMEDY,
        )
    return offset


def _count(descriptor: Mapping[str, Any], field: str, location: str) -> int:
    number = descriptor.get(field)
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise CorruptDataFileError(
            f"The deletion vector {location} has the {field} {number!r}, which is not a count.", remedy=_LOG_REMEDY
        )
    return number


def _vector_error(location: str, problem: str) -> CorruptDataFileError:
    return CorruptDataFileError(f"The deletion vector {location} {problem}.", remedy=_REMEDY)


def _descriptor_error(descriptor: Mapping[str, Any], problem: str) -> CorruptDataFileError:
    return CorruptDataFileError(f"The deletion vector {dict(descriptor)!r:.300} {problem}.", remedy=_LOG_REMEDY)

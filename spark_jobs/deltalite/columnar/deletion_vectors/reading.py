"""The reader of deletion vectors: the positions of the deleted rows of a data file.

The descriptor in the log has the location of a vector: in the log, in a file of the table whose name contains a uuid,
or in a file at an absolute path. A file may contain many vectors; only the bytes of one are read. Version, offset,
size, checksum, format and number of rows are checked. An invalid vector raises `CorruptDataFileError`, because without
the vector the table would show deleted rows. Positions are the indexes of rows in the data file, from 0. Protocol:
Deletion Vectors; Deletion Vector File Storage Format.
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

if TYPE_CHECKING:
    from deltalite.storage.log_store import LogStore

FILE_VERSION: Final = 1
_UUID_CHARACTERS: Final = 20
# A vector follows its size and precedes its CRC-32, each in four bytes.
FRAME_BYTES: Final = 4
_REMEDY: Final = "Restore the deletion vector from a backup, or run RESTORE to a version that does not need it."
_LOG_REMEDY: Final = "Repair the log with the engine that wrote it, or run RESTORE to an earlier version."


def deleted_rows(store: LogStore, descriptor: Mapping[str, Any]) -> pa.Int64Array:
    """Read the positions of the deleted rows of a data file, strictly increasing.

    `descriptor` is the `deletionVector` of the file's `add` action. The caller must check that the positions are below
    the data file's number of rows.

    Raises:
        CorruptDataFileError: the vector is missing or damaged, or differs from the descriptor.
        StorageError: the operating system or the network failed.
    """
    name = file_name(descriptor)
    where = f"of '{name}'" if name is not None else "in the log"
    where = f"{where} of the table {store.root}"
    cardinality, size = _count(descriptor, "cardinality", where), _count(descriptor, "sizeInBytes", where)
    if name is None:
        data = _decode_inline(descriptor["pathOrInlineDv"], size, where)
    else:
        offset = _offset(descriptor, where)
        where = f"at byte {offset} {where}"
        data = _read_stored(store, name, offset, size, where)
    if not data and not cardinality:
        return pa.array([], pa.int64())
    try:
        return roaring.decode(data, cardinality)
    except roaring.MalformedBitmapError as error:
        raise _corrupt_vector(where, f"is malformed: {error}") from error


def kept_rows(deleted: pa.Int64Array, start: int, count: int) -> pa.BooleanArray | None:
    """Return a mask of the `count` rows from position `start` on: True for a row that is not deleted.

    `deleted` is the result of `deleted_rows`. Returns None if no row is deleted, so that no filter is needed.
    """
    first = bisect_left(deleted, start, key=lambda position: position.as_py())
    end = bisect_left(deleted, start + count, lo=first, key=lambda position: position.as_py())
    if first == end:
        return None
    flags = bytearray(b"\x01") * count
    for position in pc.subtract(deleted.slice(first, end - first), start).to_pylist():
        flags[position] = 0
    return pa.Array.from_buffers(pa.uint8(), count, [None, pa.py_buffer(flags)]).cast(pa.bool_())


def file_name(descriptor: Mapping[str, Any]) -> str | None:
    """Return the decoded name of the vector's file: relative to the table's root, or absolute. None if inline.

    Raises:
        CorruptDataFileError: the descriptor is invalid.
    """
    storage_type, text = descriptor.get("storageType"), descriptor.get("pathOrInlineDv")
    if not isinstance(text, str):
        raise _bad_descriptor(descriptor, "has no pathOrInlineDv")
    match storage_type:
        case "i":
            return None
        case "u":
            prefix, encoded = text[:-_UUID_CHARACTERS], text[-_UUID_CHARACTERS:]
            try:
                uuid = UUID(bytes=z85.decode(encoded))
            except ValueError as error:
                raise _bad_descriptor(descriptor, f"has no uuid in Z85: {error}") from error
            return f"{prefix}/deletion_vector_{uuid}.bin" if prefix else f"deletion_vector_{uuid}.bin"
        case "p":
            path = decode_path(text)
            if not is_absolute(path):
                raise _bad_descriptor(descriptor, "has storage type 'p', but its path is not absolute")
            return path
        case _:
            raise _bad_descriptor(descriptor, "has a storage type other than 'u', 'i' and 'p'")


def _decode_inline(text: str, size: int, where: str) -> bytes:
    try:
        data = z85.decode(text)
    except ValueError as error:
        raise _corrupt_vector(where, f"is not valid Z85: {error}") from error
    if size > len(data):
        raise _corrupt_vector(where, f"has {len(data)} bytes where the log says {size}")
    return data[:size]  # encoders pad to a multiple of four


def _read_stored(store: LogStore, name: str, offset: int, size: int, where: str) -> bytes:
    try:
        with store.open(name) as handle:
            return _read_frame(handle, offset, size, where)
    except FileNotFoundError as error:
        raise CorruptDataFileError(
            f"The deletion vector file '{name}' of the table {store.root} does not exist.", remedy=_REMEDY
        ) from error
    except OSError as error:
        raise StorageError(
            f"The deletion vector file '{name}' of the table {store.root} could not be read: {error}.",
            remedy="Try again.",
        ) from error


def _read_frame(handle: pa.NativeFile, offset: int, size: int, where: str) -> bytes:
    """Read the bytes of one vector and check its frame: the size before it, and the checksum after it (big-endian)."""
    length = handle.size()
    if offset + FRAME_BYTES + size + FRAME_BYTES > length:
        raise _corrupt_vector(
            where, f"needs {size} bytes and two numbers around them, but the file ends after {length} bytes"
        )
    version = handle.read(1)[0]
    if version != FILE_VERSION:
        raise _corrupt_vector(where, f"is in a file of version {version} where {FILE_VERSION} is expected")
    handle.seek(offset)
    frame: bytes = handle.read(FRAME_BYTES + size + FRAME_BYTES)
    stated, data = int.from_bytes(frame[:FRAME_BYTES], "big"), frame[FRAME_BYTES:-FRAME_BYTES]
    if stated != size:
        raise _corrupt_vector(where, f"has {stated} bytes where the log says {size}")
    checksum, expected = zlib.crc32(data), int.from_bytes(frame[-FRAME_BYTES:], "big")
    if checksum != expected:
        raise _corrupt_vector(where, f"has the checksum {checksum:08x} where {expected:08x} is expected")
    return data


def _offset(descriptor: Mapping[str, Any], where: str) -> int:
    """Return the offset of the vector; 1, the first vector, if it is absent, because byte 0 is the file's version."""
    offset = descriptor.get("offset")
    if offset is None:
        return 1
    if not isinstance(offset, int) or isinstance(offset, bool) or offset < 1:
        raise CorruptDataFileError(
            f"The deletion vector {where} has the offset {offset!r}, but vectors begin at byte 1.", remedy=_LOG_REMEDY
        )
    return offset


def _count(descriptor: Mapping[str, Any], field: str, where: str) -> int:
    number = descriptor.get(field)
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise CorruptDataFileError(
            f"The deletion vector {where} has the {field} {number!r}, which is not a count.", remedy=_LOG_REMEDY
        )
    return number


def _corrupt_vector(where: str, problem: str) -> CorruptDataFileError:
    return CorruptDataFileError(f"The deletion vector {where} {problem}.", remedy=_REMEDY)


def _bad_descriptor(descriptor: Mapping[str, Any], problem: str) -> CorruptDataFileError:
    return CorruptDataFileError(f"The deletion vector {dict(descriptor)!r:.300} {problem}.", remedy=_LOG_REMEDY)

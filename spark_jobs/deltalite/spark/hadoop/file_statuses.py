"""Conversion of Java's `FileStatus[]` to Python values, with a constant number of calls to the JVM.

Hadoop serializes each status as a length-prefixed Protocol Buffers message (FileStatusProto). This module reads the
fields with these numbers: 1 type (1 is a folder, 2 a file, 3 a link), 2 path, 3 length, 7 modification time.
`native_relation` has the opposite conversion.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from deltalite.spark.runtime.java_classes import java_class

_FOLDER, _FILE = 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedEntry:
    """A file or folder as Hadoop lists it. A link is neither a file nor a folder.

    `uri` is not percent-encoded and has a scheme. Times are milliseconds since 1970 (UTC).
    """

    uri: str
    is_file: bool
    is_folder: bool
    size_bytes: int
    modified_ms: int

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.uri.rpartition("/")[2]


def listed_entries(jvm: Any, statuses: Any) -> list[ListedEntry]:
    """Return the entries of a Java `FileStatus[]`."""
    classes = java_class(jvm, "java.lang.Class")
    writable = java_class(jvm, "org.apache.hadoop.io.ArrayWritable")(classes.forName("org.apache.hadoop.fs.FileStatus"))
    count = len(statuses)
    array = java_class(jvm, "java.lang.reflect.Array").newInstance(
        classes.forName("org.apache.hadoop.io.Writable"), count
    )
    java_class(jvm, "java.lang.System").arraycopy(statuses, 0, array, 0, count)
    writable.set(array)
    sink = java_class(jvm, "java.io.ByteArrayOutputStream")()
    writable.write(java_class(jvm, "java.io.DataOutputStream")(sink))
    return list(_parse(sink.toByteArray()))


def _parse(data: bytes) -> Iterator[ListedEntry]:
    """Yield the entries of a serialized array."""
    (count,) = struct.unpack_from(">i", data)
    offset = 4
    for _ in range(count):
        (length,) = struct.unpack_from(">i", data, offset)
        fields = dict(_fields(data[offset + 4 : offset + 4 + length]))
        offset += 4 + length
        yield ListedEntry(
            uri=bytes(fields[2]).decode(),
            is_file=fields.get(1) == _FILE,
            is_folder=fields.get(1) == _FOLDER,
            size_bytes=int(fields.get(3, 0)),
            modified_ms=int(fields.get(7, 0)),
        )


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the number and the value of each field. Fields of a fixed length are skipped."""
    offset = 0
    while offset < len(message):
        key, offset = _varint(message, offset)
        match key & 7:
            case 0:
                value, offset = _varint(message, offset)
                yield key >> 3, value
            case 1:
                offset += 8
            case 2:
                length, offset = _varint(message, offset)
                yield key >> 3, message[offset : offset + length]
                offset += length
            case 5:
                offset += 4
            case wire_type:
                raise ValueError(f"Hadoop's FileStatusProto has a field of the unknown wire type {wire_type}.")


def _varint(message: bytes, offset: int) -> tuple[int, int]:
    """Return the integer in base 128 at the offset, and the offset after it."""
    value = shift = 0
    while True:
        byte = message[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004  the highest bit means that more bytes follow
            return value, offset
        shift += 7

"""Conversion of Java's `FileStatus[]` to Python values, with a constant number of calls to the JVM.

Hadoop serializes each status as a length-prefixed Protocol Buffers message (FileStatusProto). The fields read here are
1 type (1 is a folder, 2 a file, 3 a link), 2 path, 3 length, 7 modification time. `native_relation` has the opposite
conversion.
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
    """A file or folder as Hadoop lists it. A link is neither.

    `uri` is unescaped and has a scheme; times are milliseconds since 1970 (UTC).
    """

    uri: str
    is_file: bool
    is_folder: bool
    size_bytes: int
    modified_ms: int

    @property
    def name(self) -> str:
        """The name in its folder."""
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
    return list(_parsed(sink.toByteArray()))


def _parsed(data: bytes) -> Iterator[ListedEntry]:
    (count,) = struct.unpack_from(">i", data)
    at = 4
    for _ in range(count):
        (length,) = struct.unpack_from(">i", data, at)
        fields = dict(_fields(data[at + 4 : at + 4 + length]))
        at += 4 + length
        yield ListedEntry(
            uri=bytes(fields[2]).decode(),
            is_file=fields.get(1) == _FILE,
            is_folder=fields.get(1) == _FOLDER,
            size_bytes=int(fields.get(3, 0)),
            modified_ms=int(fields.get(7, 0)),
        )


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        match key & 7:
            case 0:
                value, at = _varint(message, at)
                yield key >> 3, value
            case 1:
                at += 8
            case 2:
                length, at = _varint(message, at)
                yield key >> 3, message[at : at + length]
                at += length
            case 5:
                at += 4
            case kind:
                raise ValueError(f"Hadoop's FileStatusProto has a field of the unknown kind {kind}.")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004  the highest bit means that more bytes follow
            return value, at
        shift += 7

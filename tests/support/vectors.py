"""Deletion vectors for tests, built with the reference implementation of roaring bitmaps."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from typing import Any

from pyroaring import BitMap64

from deltalite.columnar.deletion_vectors.roaring import PORTABLE_MAGIC

_Z85_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def z85(data: bytes) -> str:
    """The Z85 text of bytes. The number of bytes must be a multiple of four."""
    numbers = (number for (number,) in struct.iter_unpack(">I", data))
    return "".join(_Z85_ALPHABET[number // 85**power % 85] for number in numbers for power in (4, 3, 2, 1, 0))


def vector(rows: Iterable[int]) -> bytes:
    """The serialized bitmap of row positions, with its magic number."""
    return struct.pack("<I", PORTABLE_MAGIC) + BitMap64(rows).serialize()


def with_size_and_checksum(data: bytes) -> bytes:
    """A serialized bitmap with its size before it and its checksum after it, as in a deletion vector file."""
    return struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data))


def vector_file(*vectors: bytes) -> tuple[bytes, list[int]]:
    """The bytes of a deletion vector file, and the offset of each vector."""
    content, offsets = b"\x01", []
    for data in vectors:
        offsets.append(len(content))
        content += with_size_and_checksum(data)
    return content, offsets


def inline_vector(rows: Iterable[int]) -> dict[str, Any]:
    """The descriptor of a deletion vector that is stored in the log itself. `rows` are the deleted positions."""
    positions = sorted(set(rows))
    data = vector(positions)
    text = z85(data + bytes(-len(data) % 4))
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(data), "cardinality": len(positions)}

"""The encoder of roaring bitmaps: from sorted row positions to bytes.

The encoder writes the portable layout, which `roaring` decodes. The upper 32 bits of a position select the bitmap, and
the next 16 bits the container. A container of up to 4,096 values is a sorted array, and a larger container is a bitmap.
The encoder writes no runs. Python loops over containers, not over values. Protocol: Deletion Vector Format;
RoaringFormatSpec.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.columnar.deletion_vectors.roaring import (
    CONTAINER_SIZE,
    COOKIE_WITHOUT_RUNS,
    MAX_IN_ARRAY,
    PORTABLE_MAGIC,
    all_values,
)

# The bytes of the cookie, of the number of containers, and of the offset of a container.
_FIELD_BYTES = 4


def encode(positions: pa.Int64Array) -> bytes:
    """Serialize a deletion vector (magic number first); positions are strictly increasing and not negative."""
    bitmaps = [(key, list(containers)) for key, containers in groupby(_containers(positions), lambda c: c[0] >> 16)]
    header = struct.pack("<Iq", PORTABLE_MAGIC, len(bitmaps))
    return header + b"".join(struct.pack("<I", key) + _bitmap32(containers) for key, containers in bitmaps)


def _containers(positions: pa.Int64Array) -> Iterator[tuple[int, pa.Int64Array]]:
    """Yield each container: the upper 48 bits of its positions, and the array of their lower 16 bits."""
    if not len(positions):
        return
    keys = pc.run_end_encode(pc.shift_right(positions, 16))
    begin = 0
    for key, end in zip(keys.values.to_pylist(), keys.run_ends.to_pylist(), strict=True):
        yield key, pc.subtract(positions.slice(begin, end - begin), key << 16)
        begin = end


def _bitmap32(containers: list[tuple[int, pa.Int64Array]]) -> bytes:
    """Serialize a bitmap: cookie, number of containers, keys and cardinalities, offsets, and the containers."""
    headers = b"".join(struct.pack("<HH", key & 0xFFFF, len(values) - 1) for key, values in containers)
    bodies = [_container(values) for _, values in containers]
    offset = 2 * _FIELD_BYTES + len(headers) + _FIELD_BYTES * len(bodies)
    offsets = []
    for body in bodies:
        offsets.append(struct.pack("<I", offset))
        offset += len(body)
    return struct.pack("<II", COOKIE_WITHOUT_RUNS, len(containers)) + headers + b"".join((*offsets, *bodies))


def _container(values: pa.Int64Array) -> bytes:
    if len(values) <= MAX_IN_ARRAY:
        return _bytes_of(values.cast(pa.uint16()), 2 * len(values))
    flags = pc.is_in(all_values(), value_set=values)
    return _bytes_of(flags, CONTAINER_SIZE // 8)


def _bytes_of(values: pa.Array, size: int) -> bytes:
    """Return the first `size` bytes of the values' buffer; `values` is a new array and not a slice."""
    data: bytes = values.buffers()[1].to_pybytes()[:size]
    return data

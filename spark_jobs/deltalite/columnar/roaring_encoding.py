"""Roaring bitmaps: from sorted row positions to bytes.

The counterpart of `roaring`, in the portable layout: positions are divided by their upper 32 bits into bitmaps and by
the next 16 into containers. A container of up to 4,096 values is a sorted array, any other a bitmap; runs are for
readers only. Values stay in Arrow: only containers pass through Python. Protocol: Deletion Vector Format;
RoaringFormatSpec.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.columnar.roaring import CONTAINER_SIZE, COOKIE_WITHOUT_RUNS, MAX_IN_ARRAY, PORTABLE_MAGIC, places

# Where the containers of a bitmap begin is said in 32 bits for each of them.
_HEADER_BYTES = 4


def encode(positions: pa.Int64Array) -> bytes:
    """The serialized deletion vector (magic number first) of positions that are strictly increasing, not negative."""
    bitmaps = [(key, list(containers)) for key, containers in groupby(_containers(positions), lambda c: c[0] >> 16)]
    header = struct.pack("<Iq", PORTABLE_MAGIC, len(bitmaps))
    return header + b"".join(struct.pack("<I", key) + _bitmap32(containers) for key, containers in bitmaps)


def _containers(positions: pa.Int64Array) -> Iterator[tuple[int, pa.Int64Array]]:
    """The containers with their upper 48 bits, and the lower 16 of their values."""
    if not len(positions):
        return
    encoded = pc.run_end_encode(pc.shift_right(positions, 16))
    begin = 0
    for key, end in zip(encoded.values.to_pylist(), encoded.run_ends.to_pylist(), strict=True):
        yield key, pc.subtract(positions.slice(begin, end - begin), key << 16)
        begin = end


def _bitmap32(containers: list[tuple[int, pa.Int64Array]]) -> bytes:
    """Cookie, number of containers, their keys and cardinalities, where they begin, and the containers."""
    headers = b"".join(struct.pack("<HH", key & 0xFFFF, len(values) - 1) for key, values in containers)
    bodies = [_container(values) for _, values in containers]
    begin = 2 * _HEADER_BYTES + len(headers) + _HEADER_BYTES * len(bodies)
    offsets = []
    for body in bodies:
        offsets.append(struct.pack("<I", begin))
        begin += len(body)
    return struct.pack("<II", COOKIE_WITHOUT_RUNS, len(containers)) + headers + b"".join((*offsets, *bodies))


def _container(values: pa.Int64Array) -> bytes:
    if len(values) <= MAX_IN_ARRAY:
        return _bytes_of(values.cast(pa.uint16()), 2 * len(values))
    flags = pc.is_in(places(), value_set=values)
    return _bytes_of(flags, CONTAINER_SIZE // 8)


def _bytes_of(values: pa.Array, size: int) -> bytes:
    """The values' own buffer, which begins with the first of them: they have just been made."""
    data: bytes = values.buffers()[1].to_pybytes()[:size]
    return data

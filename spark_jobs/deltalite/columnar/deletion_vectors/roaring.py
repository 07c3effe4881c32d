"""The decoder of roaring bitmaps: from bytes to sorted row positions.

A deletion vector is a magic number and a sequence of 32-bit roaring bitmaps. The key of a bitmap is the upper 32 bits
of its values. A bitmap has up to 65,536 containers, one for each value of the next 16 bits. A container is a sorted
array, a bitmap of 65,536 bits, or a list of runs.

The decoder first compares the number of values in the headers with the expected number, so a damaged header cannot make
it allocate memory. Arrow then decodes the values, container by container. Values that are not strictly increasing,
missing bytes and wrong counts raise `MalformedBitmapError`.
Protocol: Deletion Vector Format; RoaringFormatSpec.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Final, assert_never

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.sizes import counted

PORTABLE_MAGIC: Final = 1681511377
# The format before standardization, which Spark still reads.
NATIVE_MAGIC: Final = 1681511376

_COOKIE_WITH_RUNS: Final = 12347
COOKIE_WITHOUT_RUNS: Final = 12346
# Bitmaps with runs and fewer containers than this have no table of offsets.
_NO_OFFSETS_BELOW: Final = 4
MAX_IN_ARRAY: Final = 4096
CONTAINER_SIZE: Final = 2**16
_BITMAP_BYTES: Final = CONTAINER_SIZE // 8
# Delta keeps the highest bit of a key free, so that positions are positive in 64 bits.
_MAX_KEYS: Final = 2**31


class MalformedBitmapError(ValueError):
    """The bytes are not a valid bitmap of the expected cardinality; the message is the reason, without a full stop."""


class _ContainerKind(Enum):
    """The form of a container's data."""

    ARRAY = "array"
    BITMAP = "bitmap"
    RUNS = "runs"


@dataclass(frozen=True, slots=True)
class _Container:
    """The bytes of one container; `base` is the number to add to its 16-bit values."""

    kind: _ContainerKind
    base: int
    cardinality: int
    data: memoryview


def decode(data: bytes | memoryview, cardinality: int) -> pa.Int64Array:
    """Decode a serialized deletion vector (magic number first) to values that are increasing and not negative.

    Bytes after the last bitmap are ignored, as in Spark.

    Raises:
        MalformedBitmapError: the bytes are not valid, or do not have exactly `cardinality` values.
    """
    containers = list(_containers(_Reader(memoryview(data))))
    num_rows = sum(container.cardinality for container in containers)
    if num_rows != cardinality:
        raise MalformedBitmapError(f"it holds {counted(num_rows, 'row')} instead of {cardinality}")
    if not containers:
        return pa.array([], pa.int64())
    values = pa.concat_arrays([_values(container) for container in containers])
    if len(values) > 1 and not pc.all(pc.greater(values.slice(1), values.slice(0, len(values) - 1))).as_py():
        raise MalformedBitmapError("its values are not in increasing order")
    return values


class _Reader:
    """A reader of bytes from the front, which raises `MalformedBitmapError` at a premature end."""

    __slots__ = ("_unread",)

    def __init__(self, data: memoryview) -> None:
        self._unread = data

    def take(self, size: int) -> memoryview:
        if size > len(self._unread):
            raise MalformedBitmapError(
                f"it ends early: it needs {counted(size, 'byte')}, but has only {len(self._unread)}"
            )
        data, self._unread = self._unread[:size], self._unread[size:]
        return data

    def take_number(self, struct_format: str) -> int:
        (value,) = struct.unpack(struct_format, self.take(struct.calcsize(struct_format)))
        return int(value)


def _containers(reader: _Reader) -> Iterator[_Container]:
    match reader.take_number("<I"):
        case magic if magic == PORTABLE_MAGIC:
            # A count that is too high ends the loop with an error, because each bitmap takes bytes.
            for _ in range(_checked_count(reader.take_number("<q"))):
                key = reader.take_number("<I")
                if key >= _MAX_KEYS:
                    raise MalformedBitmapError(f"the key {key} of a bitmap is out of range")
                yield from _bitmap32(reader, key)
        case magic if magic == NATIVE_MAGIC:
            for key in range(_checked_count(reader.take_number("<i"))):
                yield from _bitmap32(_Reader(reader.take(_checked_count(reader.take_number("<i")))), key)
        case magic:
            raise MalformedBitmapError(
                f"it begins with the magic number {magic} where {PORTABLE_MAGIC} or {NATIVE_MAGIC} is expected"
            )


def _checked_count(number: int) -> int:
    if number < 0:
        raise MalformedBitmapError(f"the count {number} is negative")
    return number


def _bitmap32(reader: _Reader, key: int) -> Iterator[_Container]:
    cookie = reader.take_number("<I")
    if cookie == COOKIE_WITHOUT_RUNS:
        count = reader.take_number("<I")
        run_flags, has_offsets = b"", True
    elif cookie & 0xFFFF == _COOKIE_WITH_RUNS:
        count = (cookie >> 16) + 1
        run_flags, has_offsets = bytes(reader.take((count + 7) // 8)), count >= _NO_OFFSETS_BELOW
    else:
        raise MalformedBitmapError(f"a bitmap begins with the unknown cookie {cookie}")
    if count > CONTAINER_SIZE:
        raise MalformedBitmapError(f"a bitmap has {count} containers, more than {CONTAINER_SIZE}")
    headers = reader.take(4 * count)
    if has_offsets:
        # Containers are adjacent, so their offsets are known; Spark's reader skips the table too.
        reader.take(4 * count)
    for index, (container_key, cardinality_less_one) in enumerate(struct.iter_unpack("<HH", headers)):
        cardinality = cardinality_less_one + 1
        if run_flags and run_flags[index // 8] >> index % 8 & 1:
            kind, size = _ContainerKind.RUNS, 4 * reader.take_number("<H")
        elif cardinality <= MAX_IN_ARRAY:
            kind, size = _ContainerKind.ARRAY, 2 * cardinality
        else:
            kind, size = _ContainerKind.BITMAP, _BITMAP_BYTES
        yield _Container(kind, (key << 32) | (container_key << 16), cardinality, reader.take(size))


def _values(container: _Container) -> pa.Int64Array:
    match container.kind:
        case _ContainerKind.ARRAY:
            low_bits = _array(pa.uint16(), container.cardinality, container.data)
        case _ContainerKind.BITMAP:
            low_bits = pc.indices_nonzero(_array(pa.bool_(), CONTAINER_SIZE, container.data))
        case _ContainerKind.RUNS:
            low_bits = _run_values(container)
        case _:
            assert_never(container.kind)
    if len(low_bits) != container.cardinality:
        raise MalformedBitmapError(
            f"a container holds {counted(len(low_bits), 'row')} where its header says {container.cardinality}"
        )
    return pc.add(low_bits.cast(pa.int64()), pa.scalar(container.base, pa.int64()))


def _run_values(container: _Container) -> pa.Array:
    """Decode runs. A run is a 32-bit number: the first value in the lower 16 bits, the length less one in the upper."""
    runs = _array(pa.uint32(), len(container.data) // 4, container.data).cast(pa.int64())
    firsts, lengths_less_one = pc.bit_wise_and(runs, 0xFFFF), pc.shift_right(runs, 16)
    lengths = pc.add(lengths_less_one, 1)
    ends = pc.cumulative_sum(lengths)
    num_rows = ends[-1].as_py() if len(ends) else 0
    if num_rows != container.cardinality:
        raise MalformedBitmapError(
            f"a container's runs hold {counted(num_rows, 'row')} where its header says {container.cardinality}"
        )
    if pc.max(pc.add(firsts, lengths_less_one)).as_py() >= CONTAINER_SIZE:
        raise MalformedBitmapError("a run extends beyond its container")
    # In a run that begins at index b, the value at index i is the first value of the run plus i - b.
    shifts = pc.subtract(firsts, pc.subtract(ends, lengths))
    shift_of_each = pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(ends.cast(pa.int32()), shifts))
    return pc.add(shift_of_each, all_values().slice(0, num_rows))


@cache
def all_values() -> pa.Int64Array:
    """Return all values of a container: 0 to 65,535."""
    return pc.indices_nonzero(_array(pa.bool_(), CONTAINER_SIZE, memoryview(b"\xff" * _BITMAP_BYTES))).cast(pa.int64())


def _array(data_type: pa.DataType, length: int, data: memoryview) -> pa.Array:
    """Convert little-endian values to an Arrow array, with a copy, because Arrow needs aligned memory."""
    return pa.Array.from_buffers(data_type, length, [None, pa.py_buffer(data.tobytes())])

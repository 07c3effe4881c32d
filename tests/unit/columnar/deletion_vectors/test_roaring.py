"""Roaring bitmaps of the reference implementation are decoded, and damaged ones are rejected."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap, BitMap64

from deltalite.columnar.deletion_vectors.roaring import NATIVE_MAGIC, PORTABLE_MAGIC, MalformedBitmapError, decode
from tests.support.fuzzing import examples

CONTAINER = 2**16


def portable(bitmap):
    return struct.pack("<I", PORTABLE_MAGIC) + bitmap.serialize()


def native(*bitmaps):
    parts = [struct.pack("<i", len(b)) + b for b in (bitmap.serialize() for bitmap in bitmaps)]
    return struct.pack("<Ii", NATIVE_MAGIC, len(bitmaps)) + b"".join(parts)


def portable_from_payload(payload):
    """The bytes of a 64-bit bitmap that has one 32-bit bitmap, `payload`, under key 0."""
    return struct.pack("<IqI", PORTABLE_MAGIC, 1, 0) + payload


@st.composite
def container_values(draw, within=CONTAINER):
    """Scattered values or dense ranges, so that each of the three kinds of containers occurs."""
    start = draw(st.integers(0, within - 1))
    match draw(st.sampled_from(["scattered", "stretch", "every other", "full"])):
        case "scattered":
            return set(draw(st.lists(st.integers(0, within - 1), max_size=30)))
        case "stretch":
            return set(range(start, min(within, start + draw(st.integers(1, 9000)))))
        case "every other":
            return set(range(start % 2, within, draw(st.integers(2, 20))))
        case _:
            return set(range(within))


@st.composite
def bitmaps64(draw):
    values = set()
    for base in draw(st.lists(st.sampled_from([0, 1, 2, 3, 65535, 65536, 2**31 - 1, 2**47 - 1]), max_size=5)):
        values |= {base * CONTAINER + value for value in draw(container_values())}
    bitmap = BitMap64(values)
    if draw(st.booleans()):
        bitmap.run_optimize()
    return bitmap


@examples(80)
@given(bitmaps64())
def test_bitmaps_of_the_reference_implementation_are_decoded(bitmap):
    decoded = decode(portable(bitmap), len(bitmap))
    assert decoded.type == pa.int64()
    assert decoded.null_count == 0
    assert decoded.to_pylist() == list(bitmap)


@examples(30)
@given(st.lists(container_values(), max_size=3))
def test_the_native_layout_is_decoded(parts):
    expected = [(key << 32) + value for key, values in enumerate(parts) for value in sorted(values)]
    assert decode(native(*map(BitMap, parts)), len(expected)).to_pylist() == expected


@pytest.mark.parametrize("count", [1, 3, 4, 5, 8, 9])
def test_runs_are_decoded_with_and_without_a_table_of_offsets(count):
    bitmap = BitMap64(value for key in range(count) for value in range(key * CONTAINER + 7, key * CONTAINER + 5000))
    bitmap.run_optimize()
    assert decode(portable(bitmap), len(bitmap)).to_pylist() == list(bitmap)


@pytest.mark.parametrize("size", [1, 4096, 4097, CONTAINER])
def test_a_container_at_the_size_limit_of_its_kind_is_decoded(size):
    values = range(size) if size == CONTAINER else range(0, 2 * size, 2)
    assert decode(portable(BitMap64(values)), size).to_pylist() == list(values)


def test_the_greatest_position_of_a_delta_table_is_decoded():
    greatest = ((2**31 - 1) << 32) + 2**32 - 1
    assert decode(portable(BitMap64([greatest])), 1).to_pylist() == [greatest]


def test_a_bitmap_without_values_gives_no_positions():
    for empty in (portable(BitMap64()), native(), native(BitMap()), portable_from_payload(BitMap().serialize())):
        assert decode(empty, 0).to_pylist() == []


def test_bytes_after_the_last_bitmap_are_ignored():
    assert decode(portable(BitMap64([5])) + b"behind", 1).to_pylist() == [5]


TWO_VALUES_HEADER = struct.pack("<II", 12346, 1) + struct.pack("<HHI", 0, 1, 16)
ONE_RUN_HEADER = struct.pack("<I", 12347) + b"\x01"


@pytest.mark.parametrize(
    ("data", "cardinality", "reason"),
    [
        (b"", 0, "ends early"),
        (struct.pack(">I", PORTABLE_MAGIC) + BitMap64([1]).serialize(), 1, "magic number"),
        (portable(BitMap64([1, 2, 3])), 2, "3 rows instead of 2"),
        (portable(BitMap64([1, 2, 3])), 4, "3 rows instead of 4"),
        (struct.pack("<Iq", PORTABLE_MAGIC, -1), 0, "negative"),
        (struct.pack("<Iq", PORTABLE_MAGIC, 2**62), 0, "ends early"),
        (struct.pack("<Ii", NATIVE_MAGIC, 2**31 - 1), 0, "ends early"),
        (struct.pack("<Iii", NATIVE_MAGIC, 1, -1), 0, "negative"),
        (struct.pack("<IqI", PORTABLE_MAGIC, 1, 2**31) + BitMap([1]).serialize(), 1, "key 2147483648"),
        (portable_from_payload(struct.pack("<I", 99)), 0, "cookie 99"),
        (portable_from_payload(struct.pack("<II", 12346, 2**32 - 1)), 0, "containers"),
        (portable_from_payload(struct.pack("<II", 12346, CONTAINER)), 0, "ends early"),
        (portable_from_payload(TWO_VALUES_HEADER + struct.pack("<HH", 5, 4)), 2, "increasing"),
        (portable_from_payload(TWO_VALUES_HEADER + struct.pack("<HH", 5, 5)), 2, "increasing"),
        (portable_from_payload(ONE_RUN_HEADER + struct.pack("<HHHHH", 0, 1, 1, 5, 9)), 2, "runs hold 10 rows"),
        (portable_from_payload(ONE_RUN_HEADER + struct.pack("<HHH", 0, 1, 0)), 2, "runs hold 0 rows"),
        (portable_from_payload(ONE_RUN_HEADER + struct.pack("<HHHHH", 0, 1, 1, 65535, 1)), 2, "beyond its container"),
        (portable_from_payload(ONE_RUN_HEADER + struct.pack("<HHHHHHH", 0, 3, 2, 5, 1, 6, 1)), 4, "increasing"),
        (portable_from_payload(struct.pack("<IIHHI", 12346, 1, 0, 4999, 16) + bytes(8192)), 5000, "holds 0 rows"),
        (struct.pack("<Iq", PORTABLE_MAGIC, 2) + 2 * (struct.pack("<I", 3) + BitMap([1]).serialize()), 2, "increasing"),
        (struct.pack("<Iq", PORTABLE_MAGIC, 2)
         + b"".join(struct.pack("<I", key) + BitMap([1]).serialize() for key in (3, 2)), 2, "increasing"),
    ],
)  # fmt: skip
def test_bytes_that_break_the_format_are_rejected_with_the_reason(data, cardinality, reason):
    with pytest.raises(MalformedBitmapError, match=reason):
        decode(data, cardinality)


def test_a_run_that_claims_more_values_than_its_header_is_not_expanded():
    """65,535 runs of 65,536 values would need 32 GiB."""
    runs = struct.pack("<HH", 0, 65535) * 65535
    data = portable_from_payload(ONE_RUN_HEADER + struct.pack("<HHH", 0, 65535, 65535) + runs)
    with pytest.raises(MalformedBitmapError, match="runs hold"):
        decode(data, 65536)


def test_a_billion_claimed_rows_are_rejected_before_memory_is_allocated():
    full_run = struct.pack("<HH", 0, 65535)
    containers = 20_000
    header = struct.pack("<I", 12347 | (containers - 1) << 16) + b"\xff" * (containers // 8)
    keys = b"".join(struct.pack("<HH", key, 65535) for key in range(containers))
    data = portable_from_payload(header + keys + bytes(4 * containers) + (struct.pack("<H", 1) + full_run) * containers)
    before = pa.total_allocated_bytes()
    with pytest.raises(MalformedBitmapError, match="1310720000 rows instead of 7"):
        decode(data, 7)
    assert pa.total_allocated_bytes() - before < 2**20


SMALL_BITMAPS = [
    BitMap64([0, 3, 70_000, 2**33]),
    BitMap64(range(0, 20_000, 2)),
    BitMap64([*range(9, 3000), *range(65_536, 66_000), *range(200_000, 200_010), 300_000, 2**40]),
]
SMALL_BITMAPS[2].run_optimize()


@examples(400)
@given(
    bitmap=st.sampled_from(SMALL_BITMAPS),
    is_native=st.booleans(),
    fraction=st.floats(0, 1, exclude_max=True),
    change=st.one_of(st.just("cut"), st.integers(1, 255)),
)
def test_damaged_bytes_are_rejected_or_give_the_stated_number_of_sorted_values(bitmap, is_native, fraction, change):
    values = [value for value in bitmap if value < 2**32]
    data = native(BitMap(values)) if is_native else portable(bitmap)
    cardinality = len(values) if is_native else len(bitmap)
    # Half of the changes hit the first 40 bytes, where the headers are.
    position = int(fraction * 2 * 40) % len(data) if fraction < 0.5 else int((fraction - 0.5) * 2 * len(data))
    damaged_end = b"" if change == "cut" else bytes([data[position] ^ change]) + data[position + 1 :]
    damaged = data[:position] + damaged_end
    try:
        decoded = decode(damaged, cardinality).to_pylist()
    except MalformedBitmapError:
        return
    assert len(decoded) == cardinality
    assert decoded == sorted(set(decoded))
    assert decoded[0] >= 0
    assert change != "cut"

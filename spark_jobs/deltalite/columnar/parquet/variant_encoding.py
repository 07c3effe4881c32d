"""The binary encoding of a variant.

A variant is two binaries: its metadata, which is a dictionary of names, and its value. This module encodes values
(primitives, arrays, objects). It decodes only the names in a dictionary, and the fields of one object with their sizes.
It checks every read against the available bytes and does not descend into nested values, so the cost of an untrusted
value is limited by its length. Integers and decimals take the fewest bytes that hold them, as in Spark. Apache Parquet:
Variant Binary Encoding.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import pairwise

NULL = b"\x00"
"""The encoded variant null, which differs from a missing variant."""

_VERSION = 1
_PRIMITIVE, _SHORT_STRING, _OBJECT, _ARRAY = range(4)
_LONGEST_SHORT_STRING = 63
_MAX_IN_ONE_BYTE = 0xFF
_DECIMAL_SIZES = ((9, 8, 4), (18, 9, 8), (38, 10, 16))
"""The maximum digits (and maximum scale), the type's id, and the bytes of the unscaled value."""
_INTEGERS = ((3, 1), (4, 2), (5, 4), (6, 8))
"""The id of each integer type, and its bytes."""
# The bytes of each primitive type after its first byte, by id. Values of the types 15 and 16 contain their length.
_FIXED_SIZES = {
    0: 0, 1: 0, 2: 0, 3: 1, 4: 2, 5: 4, 6: 8, 7: 8, 8: 5, 9: 9, 10: 17, 11: 4, 12: 8, 13: 8, 14: 4, 17: 8, 18: 8, 19: 8,
    20: 16,
}  # fmt: skip
_BINARY, _STRING = 15, 16


class BrokenVariantError(ValueError):
    """The bytes are not a valid variant, or its parts contradict each other; the message is the reason."""


def encode_boolean(value: bool) -> bytes:  # noqa: FBT001  a value, not an option
    """Encode a boolean."""
    return _type_byte(1 if value else 2)


def encode_integer(value: int) -> bytes:
    """Encode an integer of up to 64 bits."""
    for type_id, size in _INTEGERS:
        if -(1 << (8 * size - 1)) <= value < 1 << (8 * size - 1):
            return _type_byte(type_id) + value.to_bytes(size, "little", signed=True)
    raise BrokenVariantError(f"{value} has more than 64 bits")


def encode_single(value: float) -> bytes:
    """Encode a 32-bit float."""
    return _type_byte(14) + struct.pack("<f", value)


def encode_double(value: float) -> bytes:
    """Encode a 64-bit float."""
    return _type_byte(7) + struct.pack("<d", value)


def encode_decimal(value: Decimal) -> bytes:
    """Encode a decimal with up to 38 digits and a scale of 0 to 38."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or exponent > 0:
        raise BrokenVariantError(f"{value} is not a finite decimal with a scale of zero or more")
    unscaled = int("".join(map(str, digits)))
    for max_digits, type_id, size in _DECIMAL_SIZES:
        if len(str(unscaled)) <= max_digits and -exponent <= max_digits:
            return (
                _type_byte(type_id)
                + bytes([-exponent])
                + (-unscaled if sign else unscaled).to_bytes(size, "little", signed=True)
            )
    raise BrokenVariantError(f"{value} has more than 38 digits or a scale above 38")


def encode_date(days: int) -> bytes:
    """Encode a date, in days since 1970."""
    return _type_byte(11) + days.to_bytes(4, "little", signed=True)


def encode_timestamp(count: int, *, has_zone: bool, is_nanoseconds: bool) -> bytes:
    """Encode a timestamp, in microseconds or nanoseconds since 1970."""
    type_id = 12 + (0 if has_zone else 1) + (6 if is_nanoseconds else 0)
    return _type_byte(type_id) + count.to_bytes(8, "little", signed=True)


def encode_time_of_day(microseconds: int) -> bytes:
    """Encode a time of day, in microseconds since midnight."""
    return _type_byte(17) + microseconds.to_bytes(8, "little", signed=True)


def encode_binary(value: bytes) -> bytes:
    """Encode binary data."""
    return _type_byte(_BINARY) + len(value).to_bytes(4, "little") + value


def encode_uuid(value: bytes) -> bytes:
    """Encode a UUID of 16 bytes."""
    return _type_byte(20) + value


def encode_string(value: bytes) -> bytes:
    """Encode a string, given in UTF-8."""
    if len(value) <= _LONGEST_SHORT_STRING:
        return bytes([len(value) << 2 | _SHORT_STRING]) + value
    return _type_byte(_STRING) + len(value).to_bytes(4, "little") + value


def encode_array(elements: Sequence[bytes]) -> bytes:
    """Encode an array of encoded values."""
    offsets = _offsets(elements)
    size = _bytes_for(offsets[-1])
    is_large = len(elements) > _MAX_IN_ONE_BYTE
    first_byte = (int(is_large) << 2 | (size - 1)) << 2 | _ARRAY
    count = _encode_count(len(elements), is_large=is_large)
    return b"".join([bytes([first_byte]), count, _pack(offsets, size), *elements])


def encode_object(members: Mapping[bytes, bytes], ids: Mapping[bytes, int]) -> bytes:
    """Encode an object of encoded values by name; `ids` are the ids of names in the metadata.

    Raises:
        BrokenVariantError: the dictionary lacks a name.
    """
    names = sorted(members)
    try:
        name_ids = [ids[name] for name in names]
    except KeyError as error:
        raise BrokenVariantError(
            f"its metadata lacks the name {error.args[0].decode(errors='replace')!r:.80}"
        ) from error
    values = [members[name] for name in names]
    offsets = _offsets(values)
    size, id_size = _bytes_for(offsets[-1]), _bytes_for(max(name_ids, default=0))
    is_large = len(names) > _MAX_IN_ONE_BYTE
    first_byte = (int(is_large) << 4 | (id_size - 1) << 2 | (size - 1)) << 2 | _OBJECT
    count = _encode_count(len(names), is_large=is_large)
    return b"".join([bytes([first_byte]), count, _pack(name_ids, id_size), _pack(offsets, size), *values])


def names_of(metadata: bytes) -> list[bytes]:
    """Decode the names in the dictionary of a variant's metadata. The index of a name is its id.

    Raises:
        BrokenVariantError: the metadata is invalid, or does not have version 1.
    """
    if not metadata or metadata[0] & 0x0F != _VERSION:
        raise BrokenVariantError("its metadata is not of version 1")
    size = (metadata[0] >> 6) + 1
    count = _read_number(metadata, 1, size)
    start = 1 + size
    end = start + size * (count + 1)
    _check(end <= len(metadata), "its metadata is cut short")
    offsets = [int.from_bytes(metadata[position : position + size], "little") for position in range(start, end, size)]
    _check(offsets == sorted(offsets) and end + offsets[-1] <= len(metadata), "its metadata has invalid offsets")
    return [metadata[end + name_start : end + name_end] for name_start, name_end in pairwise(offsets)]


def members_of(value: bytes, names: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the fields of an encoded object: each name and its encoded value.

    Raises:
        BrokenVariantError: the value is not a valid object, or has a name that is not in the dictionary.
    """
    _check(bool(value) and value[0] & 3 == _OBJECT, "the 'value' beside shredded members is not an object")
    header = value[0] >> 2
    offset_size, id_size = (header & 3) + 1, (header >> 2 & 3) + 1
    count_size = 4 if header >> 4 & 1 else 1
    count = _read_number(value, 1, count_size)
    ids_start = 1 + count_size
    offsets_start = ids_start + count * id_size
    values_start = offsets_start + (count + 1) * offset_size
    _check(values_start <= len(value), "an object is cut short")
    for index in range(count):
        name_id = _read_number(value, ids_start + index * id_size, id_size)
        _check(name_id < len(names), "an object has a name that its metadata lacks")
        start = values_start + _read_number(value, offsets_start + index * offset_size, offset_size)
        end = start + _size_at(value, start)
        _check(end <= len(value), "a member of an object is cut short")
        yield names[name_id], value[start:end]


def _size_at(value: bytes, start: int) -> int:
    """Return the number of bytes of the encoded value that begins at `start`."""
    _check(start < len(value), "an object has a member beyond its end")
    kind, header = value[start] & 3, value[start] >> 2
    if kind == _SHORT_STRING:
        return 1 + header
    if kind == _PRIMITIVE:
        if header in (_BINARY, _STRING):
            return 5 + _read_number(value, start + 1, 4)
        _check(header in _FIXED_SIZES, f"it has a value of the unknown type {header}")
        return 1 + _FIXED_SIZES[header]
    offset_size = (header & 3) + 1
    is_large, id_size = (header >> 4 & 1, (header >> 2 & 3) + 1) if kind == _OBJECT else (header >> 2 & 1, 0)
    count_size = 4 if is_large else 1
    count = _read_number(value, start + 1, count_size)
    last_offset_start = 1 + count_size + count * (id_size + offset_size)
    return last_offset_start + offset_size + _read_number(value, start + last_offset_start, offset_size)


def _read_number(data: bytes, start: int, size: int) -> int:
    _check(start + size <= len(data), "it is cut short")
    return int.from_bytes(data[start : start + size], "little")


def _check(is_valid: bool, problem: str) -> None:  # noqa: FBT001  a condition, not an option
    if not is_valid:
        raise BrokenVariantError(problem)


def _type_byte(type_id: int) -> bytes:
    return bytes([type_id << 2 | _PRIMITIVE])


def _offsets(values: Sequence[bytes]) -> list[int]:
    offsets = [0]
    for value in values:
        offsets.append(offsets[-1] + len(value))
    return offsets


def _bytes_for(number: int) -> int:
    size = max(1, (number.bit_length() + 7) // 8)
    _check(size <= 4, "it has more than 4 GiB")  # noqa: PLR2004  the maximum of the encoding
    return size


def _encode_count(count: int, *, is_large: bool) -> bytes:
    return count.to_bytes(4 if is_large else 1, "little")


def _pack(numbers: Sequence[int], size: int) -> bytes:
    return b"".join(number.to_bytes(size, "little") for number in numbers)

"""Reassembly of shredded variants: from typed columns to the two binaries of a variant.

A shredded group has `value` (encoded) and `typed_value`: a column of a primitive type, a list of groups, or a struct of
named groups. If `typed_value` is not null, it is the value of the group; an object may have further fields in `value`.
In an object, a group with neither `value` nor `typed_value` is a missing field. Elsewhere, it is the variant null. The
conversion is planned once per file, from the file's schema. Encoded parts are copied unchanged, because all parts use
the metadata of their row. Apache Parquet: Variant Shredding. Protocol: Variant Shredding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from deltalite.columnar.parquet import variant_encoding as encoding
from deltalite.columnar.parquet.casts import Convert, offsets_from_zero, storage_of, to_list_array
from deltalite.columnar.parquet.variant_encoding import NULL, BrokenVariantError
from deltalite.protocol.arrow_schema import VARIANT, is_list

if TYPE_CHECKING:
    from deltalite.columnar.parquet.file_columns import FileField

TYPED_VALUE = "typed_value"
_METADATA, _VALUE = "metadata", "value"
_UUID_BYTES = 16
_Encoded = list[bytes | None]


LeafConversion = Callable[["FileField"], Convert | None]
"""Returns the conversion of a leaf from the file's calendar; None if the leaf needs none."""


def variant_conversion(field: FileField, leaf_conversion: LeafConversion) -> Convert:
    """Return the conversion of an array of shredded variants to an array of structs with the two binaries.

    Raises:
        BrokenVariantError: the field is not a shredded variant. The conversion raises this error for an invalid value.
    """
    group = _group_of(field, leaf_conversion, is_top=True)
    if not any(part.name == _METADATA and _is_binary(part.type) for part in field.parts):
        raise BrokenVariantError("it has no binary column 'metadata'")
    return partial(_rebuild, group)


def _rebuild(group: _Group, array: pa.Array) -> pa.Array:
    array = storage_of(array)
    nulls = array.is_null()
    metadata = _child(array, _METADATA).cast(pa.binary())
    if pc.any(pc.and_(pc.is_null(metadata), pc.invert(nulls))).as_py():
        raise BrokenVariantError("it has no metadata")
    dictionaries = _Dictionaries(metadata.to_pylist())
    values = group.encoded(array, list(range(len(array))), dictionaries)
    variants = [None if is_null else value or NULL for value, is_null in zip(values, nulls.to_pylist(), strict=True)]
    return pa.StructArray.from_arrays([metadata, pa.array(variants, pa.binary())], fields=list(VARIANT), mask=nulls)


class _Dictionaries:
    """The names in the metadata of each row, parsed on demand."""

    def __init__(self, metadata: Sequence[bytes | None]) -> None:
        self._metadata = metadata
        self._parsed: dict[bytes, tuple[list[bytes], dict[bytes, int]]] = {}

    def of(self, row: int) -> tuple[list[bytes], dict[bytes, int]]:
        """Return the names by id, and the ids by name."""
        metadata = self._metadata[row] or b""
        if metadata not in self._parsed:
            names = encoding.names_of(metadata)
            self._parsed[metadata] = names, {name: name_id for name_id, name in reversed(list(enumerate(names)))}
        return self._parsed[metadata]


_ConvertTyped = Callable[[pa.Array, Sequence[int], _Dictionaries], Sequence[Any]]
"""Converts the typed values of a group (None for null).

The second argument contains the row of each value in the array of variants.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """The plan for a group.

    `convert_typed` converts the typed values: to the fields of an object, or to the encoded value of any other type.
    """

    has_value: bool
    convert_typed: _ConvertTyped | None
    is_object: bool

    def encoded(self, array: pa.Array, rows: Sequence[int], dictionaries: _Dictionaries) -> _Encoded:
        """Return the encoded value of each element, None if it is missing.

        `rows` contains the row of each element in the array of variants.

        Raises:
            BrokenVariantError: a value is invalid.
        """
        array = storage_of(array)
        values: _Encoded = (
            _child(array, _VALUE).cast(pa.binary()).to_pylist() if self.has_value else [None] * len(array)
        )
        if self.convert_typed is None:
            return values
        column = _child(array, TYPED_VALUE)
        if column.null_count == len(column):
            return values
        typed_values = self.convert_typed(column, rows, dictionaries)
        if self.is_object:
            return [
                value if members is None else _encode_object(members, value, *dictionaries.of(row))
                for members, value, row in zip(typed_values, values, rows, strict=True)
            ]
        if any(
            typed_value is not None and value is not None
            for typed_value, value in zip(typed_values, values, strict=True)
        ):
            raise BrokenVariantError("it has both 'value' and 'typed_value' for one element")
        return [
            value if typed_value is None else typed_value
            for typed_value, value in zip(typed_values, values, strict=True)
        ]


def _encode_object(
    members: Mapping[bytes, bytes | None], remainder: bytes | None, names: Sequence[bytes], ids: Mapping[bytes, int]
) -> bytes:
    """Encode an object from its shredded fields (None if missing) and the fields of the encoded object `remainder`."""
    all_members = {name: value for name, value in members.items() if value is not None}
    if remainder is not None:
        for name, value in encoding.members_of(remainder, names):
            if name in members or name in all_members:
                raise BrokenVariantError(f"an object has the member {name.decode(errors='replace')!r:.80} twice")
            all_members[name] = value
    return encoding.encode_object(all_members, ids)


def _group_of(field: FileField, leaf_conversion: LeafConversion, *, is_top: bool = False) -> _Group:
    """Return the plan for a group.

    Raises:
        BrokenVariantError: the group is not valid by the specification.
    """
    parts_by_name = {part.name: part for part in field.parts}
    allowed_names = {_VALUE, TYPED_VALUE, *([_METADATA] if is_top else [])}
    if (
        not types.is_struct(field.type)
        or len(parts_by_name) != len(field.parts)
        or not parts_by_name
        or not parts_by_name.keys() <= allowed_names
    ):
        raise BrokenVariantError(f"its part '{field.name}' is not a struct of {', '.join(sorted(allowed_names))}")
    value, typed = parts_by_name.get(_VALUE), parts_by_name.get(TYPED_VALUE)
    if value is not None and not _is_binary(value.type):
        raise BrokenVariantError(f"its column 'value' is {value.type}, not binary")
    return _Group(
        has_value=value is not None,
        convert_typed=None if typed is None else _typed_conversion(typed, leaf_conversion),
        is_object=typed is not None and types.is_struct(typed.type),
    )


def _typed_conversion(field: FileField, leaf_conversion: LeafConversion) -> _ConvertTyped:
    """Return the conversion of a group's `typed_value`. Raises `BrokenVariantError` for an invalid type."""
    if types.is_struct(field.type):
        groups = {part.name.encode(): _group_of(part, leaf_conversion) for part in field.parts}
        if len(groups) != len(field.parts):
            raise BrokenVariantError("its object has two members of one name")
        return partial(_encode_members, groups)
    if is_list(field.type):
        return partial(_encode_lists, _group_of(field.parts[0], leaf_conversion))
    encode, convert = _scalar_encoder(field.type), leaf_conversion(field)
    return lambda array, _rows, _dictionaries: encode(array if convert is None else convert(storage_of(array)))


def _encode_members(
    groups: Mapping[bytes, _Group], array: pa.Array, rows: Sequence[int], dictionaries: _Dictionaries
) -> list[dict[bytes, bytes | None] | None]:
    """Return the encoded fields of each object by name, None for a null object."""
    columns = {name: group.encoded(_child(array, name.decode()), rows, dictionaries) for name, group in groups.items()}
    return [
        {name: column[index] for name, column in columns.items()} if is_valid else None
        for index, is_valid in enumerate(array.is_valid().to_pylist())
    ]


def _encode_lists(group: _Group, array: pa.Array, rows: Sequence[int], dictionaries: _Dictionaries) -> _Encoded:
    """Return the encoded array of each list, None for a null list."""
    offsets, elements = offsets_from_zero(to_list_array(array))
    bounds = list(pairwise(offsets.to_pylist()))
    rows_of_elements = [row for row, (start, end) in zip(rows, bounds, strict=True) for _ in range(start, end)]
    encoded_elements = [value or NULL for value in group.encoded(elements, rows_of_elements, dictionaries)]
    return [
        encoding.encode_array(encoded_elements[start:end]) if is_valid else None
        for (start, end), is_valid in zip(bounds, array.is_valid().to_pylist(), strict=True)
    ]


def _scalar_encoder(data_type: pa.DataType) -> Callable[[pa.Array], _Encoded]:  # noqa: C901  one branch per type
    """Return the encoder for arrays of a type. Raises `BrokenVariantError` for a type that variants do not have."""
    if types.is_boolean(data_type):
        return partial(_encode_each, encoding.encode_boolean)
    if types.is_signed_integer(data_type):
        return partial(_encode_each, encoding.encode_integer)
    if types.is_float32(data_type):
        return partial(_encode_each, encoding.encode_single)
    if types.is_float64(data_type):
        return partial(_encode_each, encoding.encode_double)
    if types.is_decimal(data_type) and not types.is_decimal256(data_type):
        return partial(_encode_each, encoding.encode_decimal)
    if types.is_date32(data_type):
        return partial(_encode_each, encoding.encode_date, cast_to=pa.int32())
    if types.is_timestamp(data_type) and data_type.unit in ("us", "ns"):
        has_zone, is_nanoseconds = data_type.tz is not None, data_type.unit == "ns"
        encode = partial(encoding.encode_timestamp, has_zone=has_zone, is_nanoseconds=is_nanoseconds)
        return partial(_encode_each, encode, cast_to=pa.int64())
    if types.is_time64(data_type) and data_type.unit == "us":
        return partial(_encode_each, encoding.encode_time_of_day, cast_to=pa.int64())
    if types.is_string(data_type) or types.is_large_string(data_type):
        return partial(_encode_each, encoding.encode_string, cast_to=pa.large_binary())
    if types.is_fixed_size_binary(data_type) and data_type.byte_width == _UUID_BYTES:
        return partial(_encode_each, encoding.encode_uuid)
    if types.is_binary(data_type) or types.is_large_binary(data_type):
        return partial(_encode_each, encoding.encode_binary)
    raise BrokenVariantError(f"its typed value is {data_type}, which variants do not have")


def _encode_each(encode: Callable[[Any], bytes], array: pa.Array, cast_to: pa.DataType | None = None) -> _Encoded:
    array = storage_of(array)
    values = (array if cast_to is None else array.cast(cast_to)).to_pylist()
    return [None if value is None else encode(value) for value in values]


def _child(array: pa.StructArray, name: str) -> pa.Array:
    """Return the field `name` of a struct array; null also if the struct is null."""
    return storage_of(array.flatten()[array.type.get_field_index(name)])


def _is_binary(data_type: pa.DataType) -> bool:
    return bool(types.is_binary(data_type) or types.is_large_binary(data_type))

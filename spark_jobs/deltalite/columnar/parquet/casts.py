"""Casts of a data file's columns to the table's types, without loss of a value.

A file may be older than the table's schema or come from another writer. It may have narrower integers, large strings,
timestamps in nanoseconds, or structs with fewer fields. Such columns are cast; struct fields match by name.
`cast_without_loss` rejects a file's type that the table's type cannot hold. For other types, it rejects values that a
cast would change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from deltalite.protocol.arrow_schema import is_list

Convert = Callable[[pa.Array], pa.Array]
Member = tuple[str, Convert] | None
"""The name of a struct's field in the array, and its conversion; None for a field that the array does not have."""

_IsType = Callable[[pa.DataType], bool]
_WIDEST_DECIMAL = 76


def storage_of(array: pa.Array) -> pa.Array:
    """Return the storage array of an array with an extension type; return any other array unchanged."""
    return array.storage if isinstance(array.type, pa.BaseExtensionType) else array


def _is_text(data_type: pa.DataType) -> bool:
    return bool(types.is_string(data_type) or types.is_large_string(data_type) or types.is_string_view(data_type))


def _is_bytes(data_type: pa.DataType) -> bool:
    return bool(
        types.is_binary(data_type)
        or types.is_large_binary(data_type)
        or types.is_binary_view(data_type)
        or types.is_fixed_size_binary(data_type)
    )


def _is_local_time(data_type: pa.DataType) -> bool:
    return bool(types.is_timestamp(data_type)) and data_type.tz is None


# The types in a file that each type of the table can hold. Arrow's safe cast then checks the values. In a `timestamp`
# column, a value without a zone counts as UTC, because int96 and old writers do not store the zone.
_ACCEPTED_TYPES: tuple[tuple[_IsType, tuple[_IsType, ...]], ...] = (
    (types.is_integer, (types.is_integer,)),
    (types.is_float64, (types.is_floating, types.is_integer)),
    (types.is_float32, (types.is_float32, types.is_float16, types.is_integer)),
    (types.is_decimal, (types.is_decimal, types.is_integer)),
    (types.is_string, (_is_text, _is_bytes)),
    (types.is_binary, (_is_bytes, _is_text)),
    (types.is_boolean, (types.is_boolean,)),
    (types.is_date, (types.is_date,)),
    (_is_local_time, (_is_local_time, types.is_date)),
    (types.is_timestamp, (types.is_timestamp,)),
)


class LossyCastError(ValueError):
    """The table's type cannot hold a value or the type of the file; the message is the reason."""


def cast_without_loss(array: pa.Array, target: pa.DataType) -> pa.Array:  # noqa: C901  one branch per kind
    """Cast an array to the table's Arrow type, with the same values.

    Raises:
        LossyCastError: the table's type cannot hold the array's type, or a value does not fit.
    """
    if array.type == target:
        return array
    if types.is_null(array.type):
        return pa.nulls(len(array), target)
    if types.is_dictionary(array.type):
        return cast_without_loss(array.dictionary_decode(), target)
    if isinstance(array.type, pa.BaseExtensionType):
        return cast_without_loss(array.storage, target)
    if types.is_struct(target) and types.is_struct(array.type):
        return convert_struct(array, target, _members_by_name(array.type, target))
    if types.is_map(target) and types.is_map(array.type):
        return convert_map(
            array,
            target,
            partial(cast_without_loss, target=target.key_type),
            partial(cast_without_loss, target=target.item_type),
        )
    if types.is_list(target) and is_list(array.type):
        return convert_list(array, target, partial(cast_without_loss, target=target.value_type))
    if not _can_hold(target, array.type):
        raise LossyCastError(f"{array.type} cannot be converted to {target}")
    try:
        if types.is_decimal(target) and types.is_integer(array.type):
            # Arrow requires room for every value of the integer type; only the actual values must fit.
            array = pc.cast(array, pa.decimal256(_WIDEST_DECIMAL, target.scale))
        return pc.cast(array, target, safe=True)
    except pa.ArrowException as error:
        raise LossyCastError(str(error)) from error


def _can_hold(target: pa.DataType, source: pa.DataType) -> bool:
    source_types = next((accepted for is_target, accepted in _ACCEPTED_TYPES if is_target(target)), ())
    return any(is_type(source) for is_type in source_types)


def convert_struct(array: pa.StructArray, target: pa.StructType, members: Sequence[Member]) -> pa.Array:
    """Convert a struct array to `target`; each field comes from a field of the array, or is null."""
    positions = {array.type.field(position).name: position for position in reversed(range(array.type.num_fields))}
    children = [
        pa.nulls(len(array), f.type) if member is None else member[1](array.field(positions[member[0]]))
        for f, member in zip(target, members, strict=True)
    ]
    return pa.StructArray.from_arrays(children, fields=list(target), mask=_null_mask(array))


def convert_list(array: pa.Array, target: pa.ListType, convert_elements: Convert) -> pa.Array:
    """Convert a list array to `target`."""
    list_array = to_list_array(array)
    offsets, elements = offsets_from_zero(list_array)
    return pa.ListArray.from_arrays(offsets, convert_elements(elements), type=target, mask=_null_mask(list_array))


def convert_map(array: pa.MapArray, target: pa.MapType, convert_keys: Convert, convert_items: Convert) -> pa.Array:
    """Convert a map array to `target`."""
    offsets, _ = offsets_from_zero(array)
    first, count = array.offsets[0].as_py(), offsets[-1].as_py()
    keys, items = array.keys.slice(first, count), array.items.slice(first, count)
    mask = _null_mask(array)
    return pa.MapArray.from_arrays(offsets, convert_keys(keys), convert_items(items), type=target, mask=mask)


def _members_by_name(source: pa.StructType, target: pa.StructType) -> list[Member]:
    source_names = {f.name.lower(): f.name for f in reversed(list(source))}
    return [
        (source_names[f.name.lower()], partial(cast_without_loss, target=f.type))
        if f.name.lower() in source_names
        else None
        for f in target
    ]


def _null_mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def to_list_array(array: pa.Array) -> pa.ListArray:
    """Convert an array of any list type to a list array with 32-bit offsets and the same elements."""
    return array if types.is_list(array.type) else pc.cast(array, pa.list_(array.type.value_field))


def offsets_from_zero(array: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the offsets of a list array, shifted to begin at 0, and its elements. The array may be a slice."""
    first_offset = array.offsets[0]
    offsets = pc.subtract(array.offsets, first_offset)
    return offsets, array.values.slice(first_offset.as_py(), offsets[-1].as_py())

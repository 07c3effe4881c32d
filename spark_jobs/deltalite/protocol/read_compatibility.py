"""Checks whether a reader can read the rows of an older schema with a newer schema of the table.

Three changes are compatible: a new nullable column, a wider type, and a dropped NOT NULL. The newer schema can then
hold each row exactly. Other changes are incompatible: a dropped or renamed column, a narrower or different type, a new
NOT NULL, and different partition columns. Columns are matched by physical name. delta-spark:
`checkBatchCdfReadSchemaIncompatibility`, which rejects widened types too.
"""

from __future__ import annotations

from functools import partial

from deltalite.protocol.column_mapping import MappingMode, TableSchema
from deltalite.protocol.schema import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType
from deltalite.protocol.type_changes import is_widening

_VOID = PrimitiveType("void")


def incompatibility(older: TableSchema, newer: TableSchema) -> str | None:
    """Return the first reason why the newer schema cannot read rows of the older schema, as a clause.

    The result is None if the newer schema can read the rows.
    """
    if older.mode is not MappingMode.NONE and older.mode is not newer.mode:
        return f"the column mapping mode changed from {older.mode} to {newer.mode}"
    reason = _struct_incompatibility(
        (older.logical, older.physical), (newer.logical, newer.physical), "", values_only=False
    )
    if reason is None and _lower_case(older.partition_columns) != _lower_case(newer.partition_columns):
        return (
            f"the partition columns changed from ({', '.join(older.partition_columns)}) to "
            f"({', '.join(newer.partition_columns)})"
        )
    return reason


def value_incompatibility(older: TableSchema, newer: TableSchema) -> str | None:
    """Return the first reason why the newer schema cannot read values of columns that both have, as a clause.

    Unlike `incompatibility`, this function accepts rows that lose a dropped column, and NULL in a NOT NULL column.
    """
    if _lower_case(older.partition_columns) != _lower_case(newer.partition_columns):
        return "the partition columns changed"
    return _struct_incompatibility(
        (older.logical, older.physical), (newer.logical, newer.physical), "", values_only=True
    )


def _lower_case(names: tuple[str, ...]) -> list[str]:
    return [name.lower() for name in names]


def _struct_incompatibility(
    older: tuple[StructType, StructType], newer: tuple[StructType, StructType], prefix: str, *, values_only: bool
) -> str | None:
    """Compare structs, each a pair of its logical and its physical schema; `prefix` is the path to the structs.

    With `values_only`, only the types of the common fields count, and paths have the names of the newer schema.
    """
    unmatched_fields = {physical.name.lower(): (logical, physical) for logical, physical in zip(*newer, strict=True)}
    for logical, physical in zip(*older, strict=True):
        newer_logical, newer_physical = unmatched_fields.pop(physical.name.lower(), (None, None))
        path = prefix + logical.name
        reason = None if values_only else _field_incompatibility(logical, newer_logical, path)
        if reason is None and newer_logical is not None and newer_physical is not None:
            if values_only:
                path = prefix + newer_logical.name
            older_types, newer_types = (logical.type, physical.type), (newer_logical.type, newer_physical.type)
            reason = _type_incompatibility(older_types, newer_types, path, values_only=values_only)
        if reason is not None:
            return reason
    required_name = next((logical.name for logical, _ in unmatched_fields.values() if not logical.nullable), None)
    if values_only or required_name is None:
        return None
    return f"the column '{prefix}{required_name}' was added as NOT NULL"


def _field_incompatibility(older: StructField, newer: StructField | None, path: str) -> str | None:
    """Compare two logical fields without their types."""
    if newer is None:
        return f"the column '{path}' was dropped"
    if newer.name.lower() != older.name.lower():
        return f"the column '{path}' was renamed to '{newer.name}'"
    return f"the column '{path}' became NOT NULL" if older.nullable and not newer.nullable else None


def _type_incompatibility(
    older: tuple[DataType, DataType], newer: tuple[DataType, DataType], path: str, *, values_only: bool
) -> str | None:
    """Compare types, each a pair of its logical and its physical form."""
    (old, old_physical), (new, new_physical) = older, newer
    compare = partial(_type_incompatibility, values_only=values_only)
    match old, old_physical, new, new_physical:
        case StructType(), StructType(), StructType(), StructType():
            structs = (old, old_physical), (new, new_physical)
            return _struct_incompatibility(*structs, f"{path}.", values_only=values_only)
        case ArrayType(), ArrayType(), ArrayType(), ArrayType():
            if old.contains_null and not new.contains_null and not values_only:
                return f"the elements of the column '{path}' became NOT NULL"
            return compare((old.element, old_physical.element), (new.element, new_physical.element), f"{path}.element")
        case MapType(), MapType(), MapType(), MapType():
            if old.value_contains_null and not new.value_contains_null and not values_only:
                return f"the values of the column '{path}' became NOT NULL"
            return compare((old.key, old_physical.key), (new.key, new_physical.key), f"{path}.key") or compare(
                (old.value, old_physical.value), (new.value, new_physical.value), f"{path}.value"
            )
        case _ if old == _VOID or is_widening(old, new):
            return None
        case _:
            return f"the type of the column '{path}' changed from {old} to {new}"

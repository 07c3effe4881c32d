"""Checks whether a reader can read the rows of an older schema with a newer schema of the table.

Three changes are compatible: a new nullable column, a wider type, and a dropped NOT NULL. The newer schema can then
hold each row exactly. Other changes are incompatible: a dropped or renamed column, a narrower or different type, a new
NOT NULL, and different partition columns. Columns are matched by physical name. delta-spark:
`checkBatchCdfReadSchemaIncompatibility`, which rejects widened types too.
"""

from __future__ import annotations

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
    reason = _struct_incompatibility((older.logical, older.physical), (newer.logical, newer.physical), "")
    if reason is None and _lower_case(older.partition_columns) != _lower_case(newer.partition_columns):
        return (
            f"the partition columns changed from ({', '.join(older.partition_columns)}) to "
            f"({', '.join(newer.partition_columns)})"
        )
    return reason


def unreadable_values(older: TableSchema, newer: TableSchema) -> str | None:
    """Return the first reason why the newer schema cannot read values of columns that both have, as a clause.

    Unlike `incompatibility`, this function accepts rows that lose a dropped column, and NULL in a NOT NULL column.
    """
    if _lower_case(older.partition_columns) != _lower_case(newer.partition_columns):
        return "the partition columns changed"
    return _type_change((older.logical, older.physical), (newer.logical, newer.physical), "")


def _type_change(older: tuple[DataType, DataType], newer: tuple[DataType, DataType], path: str) -> str | None:
    """Return the first change to a type that cannot hold the older values, as a clause, or None.

    Each type is a pair of its logical and its physical form. `path` has the names of the newer schema.
    """
    (old, old_physical), (new, new_physical) = older, newer
    match old, old_physical, new, new_physical:
        case StructType(), StructType(), StructType(), StructType():
            newer_fields = {
                physical.name.lower(): (logical, physical) for logical, physical in zip(new, new_physical, strict=True)
            }
            for older_field, physical in zip(old, old_physical, strict=True):
                if (newer_field := newer_fields.get(physical.name.lower())) is None:
                    continue
                newer_types = (newer_field[0].type, newer_field[1].type)
                newer_path = f"{path}.{newer_field[0].name}".lstrip(".")
                reason = _type_change((older_field.type, physical.type), newer_types, newer_path)
                if reason is not None:
                    return reason
            return None
        case ArrayType(), ArrayType(), ArrayType(), ArrayType():
            return _type_change(
                (old.element, old_physical.element), (new.element, new_physical.element), f"{path}.element"
            )
        case MapType(), MapType(), MapType(), MapType():
            return _type_change((old.key, old_physical.key), (new.key, new_physical.key), f"{path}.key") or (
                _type_change((old.value, old_physical.value), (new.value, new_physical.value), f"{path}.value")
            )
        case _ if old == _VOID or is_widening(old, new):
            return None
        case _:
            return f"the type of the column '{path}' changed from {old} to {new}"


def _lower_case(names: tuple[str, ...]) -> list[str]:
    return [name.lower() for name in names]


def _struct_incompatibility(
    older: tuple[StructType, StructType], newer: tuple[StructType, StructType], prefix: str
) -> str | None:
    """Compare structs, each a pair of its logical and its physical schema; `prefix` is the path to the structs."""
    unmatched_fields = {physical.name.lower(): (logical, physical) for logical, physical in zip(*newer, strict=True)}
    for logical, physical in zip(*older, strict=True):
        newer_field = unmatched_fields.pop(physical.name.lower(), None)
        reason = _field_incompatibility((logical, physical), newer_field, prefix + logical.name)
        if reason is not None:
            return reason
    required_name = next((logical.name for logical, _ in unmatched_fields.values() if not logical.nullable), None)
    return None if required_name is None else f"the column '{prefix}{required_name}' was added as NOT NULL"


def _field_incompatibility(
    older: tuple[StructField, StructField], newer: tuple[StructField, StructField] | None, path: str
) -> str | None:
    if newer is None:
        return f"the column '{path}' was dropped"
    if newer[0].name.lower() != older[0].name.lower():
        return f"the column '{path}' was renamed to '{newer[0].name}'"
    if older[0].nullable and not newer[0].nullable:
        return f"the column '{path}' became NOT NULL"
    return _type_incompatibility((older[0].type, older[1].type), (newer[0].type, newer[1].type), path)


def _type_incompatibility(older: tuple[DataType, DataType], newer: tuple[DataType, DataType], path: str) -> str | None:
    """Compare types, each a pair of its logical and its physical form."""
    (old, old_physical), (new, new_physical) = older, newer
    match old, old_physical, new, new_physical:
        case StructType(), StructType(), StructType(), StructType():
            return _struct_incompatibility((old, old_physical), (new, new_physical), f"{path}.")
        case ArrayType(), ArrayType(), ArrayType(), ArrayType():
            if old.contains_null and not new.contains_null:
                return f"the elements of the column '{path}' became NOT NULL"
            return _type_incompatibility(
                (old.element, old_physical.element), (new.element, new_physical.element), f"{path}.element"
            )
        case MapType(), MapType(), MapType(), MapType():
            if old.value_contains_null and not new.value_contains_null:
                return f"the values of the column '{path}' became NOT NULL"
            return _type_incompatibility(
                (old.key, old_physical.key), (new.key, new_physical.key), f"{path}.key"
            ) or _type_incompatibility(
                (old.value, old_physical.value), (new.value, new_physical.value), f"{path}.value"
            )
        case _ if old == _VOID or is_widening(old, new):
            return None
        case _:
            return f"the type of the column '{path}' changed from {old} to {new}"

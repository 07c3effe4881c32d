"""Assignment of column ids and physical names in tables with column mapping.

A commit that adds a field, at any depth, gives the field an id and a physical name. No later field gets the same id or
name: a table property keeps the highest id, and names are random UUIDs. A reader therefore never takes a column of an
old file for a new column. If a new schema replaces the whole table, a field of the same path and type keeps its id and
its name. Protocol: Writer Requirements for Column Mapping; delta-spark: DeltaColumnMapping.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace

from deltalite.errors import InvalidRequestError
from deltalite.protocol.actions import Metadata
from deltalite.protocol.column_mapping import FIELD_ID, NESTED_IDS, PHYSICAL_NAME, MappingMode, TableSchema, field_id
from deltalite.protocol.properties import COLUMN_MAPPING_MAX_ID, COLUMN_MAPPING_MODE, Property
from deltalite.protocol.schema import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    all_fields,
    parse_schema,
    schema_to_json,
    without_nullability_and_metadata,
)

_ASSIGNED_KEYS = (FIELD_ID, PHYSICAL_NAME)
HIGHEST_COLUMN_ID = Property(COLUMN_MAPPING_MAX_ID, 0, int)


def new_physical_name() -> str:
    """Return a name that no column has had before."""
    return f"col-{uuid.uuid4()}"


def with_column_ids(
    metadata: Metadata,
    previous: TableSchema | None,
    *,
    keeps_files: bool = False,
    new_name: Callable[[], str] = new_physical_name,
) -> Metadata:
    """Return the metadata with an id and a physical name for each field; unchanged without column mapping.

    Args:
        metadata: the new metadata of the table.
        previous: the current schema of the table, None for a new table.
        keeps_files: whether the table keeps files that were written under `previous`. If `previous` has no column
            mapping, these files have the logical column names.
        new_name: creates physical names.

    Raises:
        InvalidRequestError: the table's mapping mode cannot change to the new mode, or a table without column mapping
            has columns with physical names.
    """
    mode = MappingMode(COLUMN_MAPPING_MODE.of(metadata.configuration))
    if previous is not None:
        _check_mode_change(previous.mode, mode)
    if mode is MappingMode.NONE:
        return metadata
    schema = parse_schema(metadata.schema_string)
    previous_schema = StructType(()) if previous is None else previous.logical
    if previous is not None and previous.mode is MappingMode.NONE:
        _check_has_no_physical_names(schema)
        previous_schema = _with_logical_names_as_physical(previous_schema) if keeps_files else StructType(())
    highest = max([HIGHEST_COLUMN_ID.of(metadata.configuration), *_ids(schema), *_ids(previous_schema)])
    assigner = _IdAssigner(highest, previous_schema, new_name, keeps_files=keeps_files)
    schema_with_ids = assigner.struct(schema, ())
    recorded_highest = metadata.configuration.get(COLUMN_MAPPING_MAX_ID)
    if schema_with_ids == schema and recorded_highest == str(assigner.highest):
        return metadata
    return replace(
        metadata,
        schema_string=metadata.schema_string if schema_with_ids == schema else schema_to_json(schema_with_ids),
        configuration={**metadata.configuration, COLUMN_MAPPING_MAX_ID: str(assigner.highest)},
    )


def _check_mode_change(before: MappingMode, after: MappingMode) -> None:
    if before is after or (before, after) == (MappingMode.NONE, MappingMode.NAME):
        return
    raise InvalidRequestError(
        f"{COLUMN_MAPPING_MODE.key} is '{before}' in the table and '{after}' in the request. It can only change from "
        "'none' to 'name'.",
        remedy="Leave the property out, or write to a new table.",
    )


def _check_has_no_physical_names(schema: StructType) -> None:
    """Reject physical names in a table without column mapping, whose files may use them or the logical names."""
    column = next((f.name for f in all_fields(schema) if PHYSICAL_NAME in f.metadata), None)
    if column is not None:
        raise InvalidRequestError(
            f"The column '{column}' has a physical name, but the table does not have column mapping yet.",
            remedy="Write the rows to a new table, with column mapping from the beginning.",
        )


class _IdAssigner:
    """An assigner of ids and physical names. `highest` is the highest id so far.

    A field of the same path and type in `previous_schema` is the same column. With `keeps_files`, the type may differ.
    """

    def __init__(
        self, highest: int, previous_schema: StructType, new_name: Callable[[], str], *, keeps_files: bool
    ) -> None:
        self.highest = highest
        self._previous_schema = previous_schema
        self._new_name = new_name
        self._keeps_files = keeps_files

    def struct(self, struct: StructType, path: tuple[str, ...]) -> StructType:
        return StructType(tuple(self._field(f, (*path, f.name)) for f in struct))

    def _type(self, data_type: DataType, path: tuple[str, ...]) -> DataType:
        match data_type:
            case StructType():
                return self.struct(data_type, path)
            case ArrayType(element, contains_null):
                return ArrayType(self._type(element, (*path, "element")), contains_null)
            case MapType(key, value, contains_null):
                key_type, value_type = self._type(key, (*path, "key")), self._type(value, (*path, "value"))
                return MapType(key_type, value_type, contains_null)
            case PrimitiveType() | DecimalType():
                return data_type

    def _field(self, field: StructField, path: tuple[str, ...]) -> StructField:
        metadata = dict(field.metadata)
        if FIELD_ID not in metadata or PHYSICAL_NAME not in metadata:
            previous = _field_at(self._previous_schema, path)
            if previous is not None and (
                self._keeps_files
                or without_nullability_and_metadata(previous.type) == without_nullability_and_metadata(field.type)
            ):
                metadata = {**{k: v for k, v in previous.metadata.items() if k in _ASSIGNED_KEYS}, **metadata}
        if FIELD_ID not in metadata:
            self.highest += 1
            metadata[FIELD_ID] = self.highest
        if PHYSICAL_NAME not in metadata:
            metadata[PHYSICAL_NAME] = self._new_name()
        return replace(field, type=self._type(field.type, path), metadata=metadata)


def _with_logical_names_as_physical(schema: StructType) -> StructType:
    """Return the schema with each field's name as its physical name."""

    def with_names(data_type: DataType) -> DataType:
        match data_type:
            case StructType(fields):
                return StructType(
                    tuple(replace(f, type=with_names(f.type), metadata={PHYSICAL_NAME: f.name}) for f in fields)
                )
            case ArrayType(element):
                return replace(data_type, element=with_names(element))
            case MapType(key, value):
                return replace(data_type, key=with_names(key), value=with_names(value))
            case PrimitiveType() | DecimalType():
                return data_type

    schema_with_names = with_names(schema)
    return schema_with_names if isinstance(schema_with_names, StructType) else schema


def _field_at(schema: StructType, path: tuple[str, ...]) -> StructField | None:
    """Return the field at a path; `element`, `key` and `value` lead into arrays and maps."""
    field: StructField | None = None
    data_type: DataType = schema
    for name in path:
        match data_type:
            case StructType():
                field = data_type.find(name)
                if field is None:
                    return None
                data_type = field.type
            case ArrayType(element) if name == "element":
                data_type = element
            case MapType(key, value) if name in ("key", "value"):
                data_type = key if name == "key" else value
            case _:
                return None
    return field


def _ids(schema: StructType) -> list[int]:
    ids = []
    for field in all_fields(schema):
        column_id = field_id(field.metadata)
        ids += [] if column_id is None else [column_id]
        nested_ids = field.metadata.get(NESTED_IDS)
        ids += [n for n in nested_ids.values() if isinstance(n, int)] if isinstance(nested_ids, dict) else []
    return ids

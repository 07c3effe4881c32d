"""Giving columns their ids and physical names, where a table maps its columns.

Every field at every depth has both, from the commit on that brings it into the schema. An id is never given twice and
a physical name never comes back, so old files can not be mistaken for holding a new column: the highest id so far is
kept in the table's properties, and names are made of random UUIDs. A new schema for the whole table keeps what a field
of the same path and the same type had. Protocol: Writer Requirements for Column Mapping; delta-spark:
DeltaColumnMapping.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace

from deltalite.errors import InvalidRequestError
from deltalite.protocol.actions import Metadata
from deltalite.protocol.column_mapping import FIELD_ID, PHYSICAL_NAME, MappingMode, TableSchema, field_id
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
    bare,
    parse_schema,
    schema_to_json,
)

_GIVEN = (FIELD_ID, PHYSICAL_NAME)
HIGHEST_COLUMN_ID = Property(COLUMN_MAPPING_MAX_ID, 0, int)
_NESTED_IDS = "delta.columnMapping.nested.ids"


def new_physical_name() -> str:
    """A name that no column has had before."""
    return f"col-{uuid.uuid4()}"


def with_column_ids(
    metadata: Metadata,
    previous: TableSchema | None,
    *,
    keeps_files: bool = False,
    new_name: Callable[[], str] = new_physical_name,
) -> Metadata:
    """The metadata with an id and a physical name for each field that has none; as it is where columns are not mapped.

    Args:
        metadata: what the table is to have.
        previous: the schema that it has now, None for a new table.
        keeps_files: whether files stay that were written under `previous`; where columns were not mapped they hold
            these by the table's own names.
        new_name: makes physical names.

    Raises:
        InvalidRequestError: the mode of mapping is not one that can follow the table's, or its columns have names of
            files already.
    """
    mode = MappingMode(COLUMN_MAPPING_MODE.of(metadata.configuration))
    if previous is not None:
        _check_may_follow(previous.mode, mode)
    if mode is MappingMode.NONE:
        return metadata
    schema = parse_schema(metadata.schema_string)
    known = StructType(()) if previous is None else previous.logical
    if previous is not None and previous.mode is MappingMode.NONE:
        _check_unmapped(schema)
        known = _by_own_names(known) if keeps_files else StructType(())
    giver = _Giver(max([HIGHEST_COLUMN_ID.of(metadata.configuration), *_ids(schema), *_ids(known)]), known, new_name)
    given = giver.struct(schema, ())
    said = metadata.configuration.get(COLUMN_MAPPING_MAX_ID)
    if given == schema and said == str(giver.highest):
        return metadata
    return replace(
        metadata,
        schema_string=metadata.schema_string if given == schema else schema_to_json(given),
        configuration={**metadata.configuration, COLUMN_MAPPING_MAX_ID: str(giver.highest)},
    )


def _check_may_follow(before: MappingMode, after: MappingMode) -> None:
    if before is after or (before, after) == (MappingMode.NONE, MappingMode.NAME):
        return
    raise InvalidRequestError(
        f"{COLUMN_MAPPING_MODE.key} is '{before}' in the table and '{after}' in the request, and a table can only "
        "change from 'none' to 'name'.",
        remedy="Leave the property out, or write to a new table.",
    )


def _check_unmapped(schema: StructType) -> None:
    """Refuse what no table can have that does not map its columns: files may hold them by either name."""
    found = next((f.name for f in all_fields(schema) if PHYSICAL_NAME in f.metadata), None)
    if found is not None:
        raise InvalidRequestError(
            f"The column '{found}' has a physical name, though the table does not map its columns yet.",
            remedy="Write the rows to a new table, with column mapping from the beginning.",
        )


class _Giver:
    """Walks through a schema and counts the ids that it gives."""

    def __init__(self, highest: int, known: StructType, new_name: Callable[[], str]) -> None:
        self.highest = highest
        self._known = known
        self._new_name = new_name

    def struct(self, struct: StructType, path: tuple[str, ...]) -> StructType:
        return StructType(tuple(self._field(f, (*path, f.name)) for f in struct))

    def _type(self, data_type: DataType, path: tuple[str, ...]) -> DataType:
        match data_type:
            case StructType():
                return self.struct(data_type, path)
            case ArrayType(element, contains_null):
                return ArrayType(self._type(element, (*path, "element")), contains_null)
            case MapType(key, value, contains_null):
                own_key, own_value = self._type(key, (*path, "key")), self._type(value, (*path, "value"))
                return MapType(own_key, own_value, contains_null)
            case PrimitiveType() | DecimalType():
                return data_type

    def _field(self, field: StructField, path: tuple[str, ...]) -> StructField:
        about = dict(field.metadata)
        if FIELD_ID not in about or PHYSICAL_NAME not in about:
            before = _at(self._known, path)
            if before is not None and bare(before.type) == bare(field.type):
                about = {**{k: v for k, v in before.metadata.items() if k in _GIVEN}, **about}
        if FIELD_ID not in about:
            self.highest += 1
            about[FIELD_ID] = self.highest
        if PHYSICAL_NAME not in about:
            about[PHYSICAL_NAME] = self._new_name()
        return replace(field, type=self._type(field.type, path), metadata=about)


def _by_own_names(schema: StructType) -> StructType:
    """The schema with each field's name as its physical name."""

    def renamed(data_type: DataType) -> DataType:
        match data_type:
            case StructType(fields):
                return StructType(
                    tuple(replace(f, type=renamed(f.type), metadata={PHYSICAL_NAME: f.name}) for f in fields)
                )
            case ArrayType(element):
                return replace(data_type, element=renamed(element))
            case MapType(key, value):
                return replace(data_type, key=renamed(key), value=renamed(value))
            case PrimitiveType() | DecimalType():
                return data_type

    found = renamed(schema)
    return found if isinstance(found, StructType) else schema


def _at(schema: StructType, path: tuple[str, ...]) -> StructField | None:
    """The field at a path, in which `element`, `key` and `value` lead into arrays and maps."""
    found: StructField | None = None
    data_type: DataType = schema
    for name in path:
        match data_type:
            case StructType():
                found = data_type.find(name)
                if found is None:
                    return None
                data_type = found.type
            case ArrayType(element) if name == "element":
                data_type = element
            case MapType(key, value) if name in ("key", "value"):
                data_type = key if name == "key" else value
            case _:
                return None
    return found


def _ids(schema: StructType) -> list[int]:
    ids = []
    for field in all_fields(schema):
        own = field_id(field.metadata)
        ids += [] if own is None else [own]
        nested = field.metadata.get(_NESTED_IDS)
        ids += [n for n in nested.values() if isinstance(n, int)] if isinstance(nested, dict) else []
    return ids

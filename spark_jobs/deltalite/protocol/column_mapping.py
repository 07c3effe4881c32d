"""Column mapping: the names of columns in data files, partition values and statistics.

In the modes `name` and `id` each field has an id, and a physical name that stays when the column is renamed. Readers
find a column of a file by its physical name in mode `name`, and by its Parquet field id in mode `id`. Partition values
and statistics use physical names in both modes. Without column mapping the physical schema equals the logical schema.
Protocol: Column Mapping.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

from deltalite.errors import CorruptLogError
from deltalite.protocol import properties as props
from deltalite.protocol.actions import Metadata, Protocol
from deltalite.protocol.features import supported_features
from deltalite.protocol.schema import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    parse_schema,
)

FIELD_ID = "delta.columnMapping.id"
PHYSICAL_NAME = "delta.columnMapping.physicalName"
# The metadata key for the field ids of a column's elements, keys and values. Protocol: Iceberg Compatibility V2.
NESTED_IDS = "delta.columnMapping.nested.ids"


class MappingMode(StrEnum):
    """The mode of column mapping. It determines how readers find the columns of a data file."""

    NONE = "none"
    NAME = "name"
    ID = "id"


@dataclass(frozen=True, kw_only=True)
class TableSchema:
    """The columns of a table: the logical schema that users see, and the physical schema of its files.

    Both schemas have the same order. `partition_columns` are logical names, as the metadata spells them.
    """

    logical: StructType
    partition_columns: tuple[str, ...] = ()
    mode: MappingMode = MappingMode.NONE

    def __post_init__(self) -> None:
        for name in self.partition_columns:
            if self.logical.find(name) is None:
                raise CorruptLogError(
                    f"The table is partitioned by '{name}', which is not one of its columns.",
                    remedy="Repair the table's metadata.",
                )
        _ = self.physical  # raises if a field has no physical name

    @cached_property
    def physical(self) -> StructType:
        """The schema with physical names at every depth; fields keep their metadata, with the ids."""
        return self.logical if self.mode is MappingMode.NONE else _physical_struct(self.logical)

    @cached_property
    def partition_keys(self) -> dict[str, str]:
        """The keys of partition values in the log, by the physical names of the columns in `physical`.

        A key may differ from its column's name in case, because the metadata may spell a partition column differently.
        """
        keys = {}
        for name in self.partition_columns:
            physical = self.physical_path((name,))[0]
            keys[physical] = name if self.mode is MappingMode.NONE else physical
        return keys

    @cached_property
    def data_columns(self) -> StructType:
        """The physical columns that every new file contains: all except the partition columns."""
        return StructType(tuple(f for f in self.physical if f.name not in self.partition_keys))

    def with_fields(self, fields: Iterable[StructField]) -> TableSchema:
        """Return the schema with more columns at its end."""
        return replace(self, logical=StructType((*self.logical.fields, *fields)))

    def physical_path(self, path: tuple[str, ...]) -> tuple[str, ...]:
        """Return the physical names of a logical path, spelled as in the schema; unknown names stay unchanged."""
        names: list[str] = []
        data_type: DataType = self.logical
        for name in path:
            member = data_type.find(name) if isinstance(data_type, StructType) else None
            if member is None:
                return (*names, *path[len(names) :])
            names.append(physical_name(member) if self.mode is not MappingMode.NONE else member.name)
            data_type = member.type
        return tuple(names)


def table_schema_of(protocol: Protocol, metadata: Metadata) -> TableSchema:
    """Return the schema of a table by its protocol and metadata.

    Raises:
        CorruptLogError: the schema is invalid, a partition column does not exist, or a mapped field has no physical
            name.
        UnsupportedFeatureError: the schema has an unknown type.
        InvalidRequestError: the property of the mapping mode is invalid.
    """
    supports_mapping = "columnMapping" in supported_features(protocol)
    return table_schema(metadata, parse_schema(metadata.schema_string), supports_mapping=supports_mapping)


def table_schema(metadata: Metadata, schema: StructType, *, supports_mapping: bool) -> TableSchema:
    """Return the schema of a table.

    Args:
        metadata: the table's metadata.
        schema: the parsed schema of the metadata.
        supports_mapping: whether the protocol supports column mapping; if not, the mode in the metadata has no effect.

    Raises:
        CorruptLogError: a partition column does not exist, or a mapped field has no physical name.
        InvalidRequestError: the property of the mapping mode is invalid.
    """
    mode = props.COLUMN_MAPPING_MODE.of(metadata.configuration) if supports_mapping else MappingMode.NONE
    return TableSchema(logical=schema, partition_columns=metadata.partition_columns, mode=MappingMode(mode))


def physical_name(field: StructField) -> str:
    """Return the name of a mapped field in data files.

    Raises:
        CorruptLogError: the field has no physical name.
    """
    name = field.metadata.get(PHYSICAL_NAME)
    if not isinstance(name, str) or not name:
        raise CorruptLogError(
            f"Column mapping is enabled, but the column '{field.name}' has no physical name.",
            remedy="Repair the table's metadata with the engine that wrote it.",
        )
    return name


def field_id(metadata: Mapping[str, Any]) -> int | None:
    """Return the id in a field's metadata, or None."""
    number = metadata.get(FIELD_ID)
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def _physical_struct(struct: StructType) -> StructType:
    return StructType(
        tuple(StructField(physical_name(f), _physical_type(f.type), f.nullable, f.metadata) for f in struct)
    )


def _physical_type(data_type: DataType) -> DataType:
    match data_type:
        case StructType():
            return _physical_struct(data_type)
        case ArrayType(element, contains_null):
            return ArrayType(_physical_type(element), contains_null)
        case MapType(key, value, contains_null):
            return MapType(_physical_type(key), _physical_type(value), contains_null)
        case PrimitiveType() | DecimalType():
            return data_type

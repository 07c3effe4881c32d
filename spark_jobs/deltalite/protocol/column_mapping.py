"""Column mapping: the names that data files, partition values and statistics use instead of the table's own.

With mode `name` or `id` each field carries a physical name, which stays when the column is renamed, and an id. Files
are read by physical name in mode `name`, and by Parquet field id in mode `id`; partition values and statistics use
physical names in both. Without column mapping the physical schema is the schema. Protocol: Column Mapping.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from deltalite.errors import CorruptLogError
from deltalite.protocol import properties as props
from deltalite.protocol.actions import Metadata
from deltalite.protocol.schema import ArrayType, DataType, DecimalType, MapType, PrimitiveType, StructField, StructType

FIELD_ID = "delta.columnMapping.id"
PHYSICAL_NAME = "delta.columnMapping.physicalName"


class MappingMode(StrEnum):
    """How the columns of a data file are found."""

    NONE = "none"
    NAME = "name"
    ID = "id"


@dataclass(frozen=True, kw_only=True)
class TableSchema:
    """The columns of a table as its users see them (`logical`) and as its files do (`physical`), in one order.

    `partition_columns` are names of the logical schema, as the metadata spells them.
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
        _ = self.physical  # a schema that exists has a physical name for each field

    @cached_property
    def physical(self) -> StructType:
        """The schema with physical names at every depth; fields keep their metadata, so their ids too."""
        return self.logical if self.mode is MappingMode.NONE else _physical_struct(self.logical)

    @cached_property
    def partition_keys(self) -> dict[str, str]:
        """For each partition column, by its physical name in `physical`: the key of its value in the log.

        The two differ in case only, where the metadata spells a column in another way than the schema.
        """
        keys = {}
        for name in self.partition_columns:
            found = self.physical_path((name,))[0]
            keys[found] = name if self.mode is MappingMode.NONE else found
        return keys

    @cached_property
    def data(self) -> StructType:
        """The physical columns that stand in the files: all but the partition columns."""
        return StructType(tuple(f for f in self.physical if f.name not in self.partition_keys))

    def physical_path(self, path: tuple[str, ...]) -> tuple[str, ...]:
        """The physical names of a path of logical names, spelled as in the schema; unknown names stay as they are."""
        found: list[str] = []
        data_type: DataType = self.logical
        for name in path:
            member = data_type.find(name) if isinstance(data_type, StructType) else None
            if member is None:
                return (*found, *path[len(found) :])
            found.append(physical_name(member) if self.mode is not MappingMode.NONE else member.name)
            data_type = member.type
        return tuple(found)


def table_schema(metadata: Metadata, schema: StructType, *, mapped: bool) -> TableSchema:
    """The schema of a table; `mapped` says whether its protocol supports column mapping, without which a mode is inert.

    Raises:
        CorruptLogError: a partition column does not exist, or a mapped field has no physical name.
    """
    mode = MappingMode(props.COLUMN_MAPPING_MODE.of(metadata.configuration)) if mapped else MappingMode.NONE
    return TableSchema(logical=schema, partition_columns=metadata.partition_columns, mode=mode)


def physical_name(field: StructField) -> str:
    """The name of a mapped field in data files."""
    name = field.metadata.get(PHYSICAL_NAME)
    if not isinstance(name, str) or not name:
        raise CorruptLogError(
            f"Column mapping is enabled, but the column '{field.name}' has no physical name.",
            remedy="Repair the table's metadata with the engine that wrote it.",
        )
    return name


def field_id(metadata: Mapping[str, Any]) -> int | None:
    """The id of a mapped field, None where it has none."""
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

"""Checks whether data files store a column with a narrower type than the table. Protocol: Type Widening."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import types

from deltalite.columnar.parquet.file_columns import FileColumns, FileField, LayoutCache, Level
from deltalite.protocol.arrow_schema import type_from_arrow
from deltalite.protocol.column_mapping import TableSchema
from deltalite.protocol.schema import ArrayType, DataType, MapType, StructType
from deltalite.protocol.type_changes import is_widening

if TYPE_CHECKING:
    import pyarrow.parquet as pq


class NarrowerColumns:
    """Checks the files of a table for columns with a narrower type. The object keeps the layout of the last file."""

    def __init__(self, table: TableSchema) -> None:
        self._table = table
        self._layouts = LayoutCache()

    def are_in(self, footer: pq.FileMetaData, name: str) -> bool:
        """Whether the file stores a column, or a part of a column, with a narrower type than the table's type.

        Args:
            footer: the footer of the file.
            name: the name of the file in errors.

        Raises:
            CorruptDataFileError: two columns of the file match one column of the table, or the file lacks field ids and
                the table uses them.
        """
        layout = self._layouts.of(footer.schema.to_arrow_schema())
        columns = FileColumns(
            layout=layout, mode=self._table.mode, file=name, leaf_conversion=lambda _field, _type: None
        )
        return _has_narrower_member(columns, self._table.physical, layout.top)


def _has_narrower_member(columns: FileColumns, struct: StructType, level: Level) -> bool:
    members = ((field, columns.member(field, level, field.name)) for field in struct)
    return any(stored is not None and _is_narrower(columns, field.type, stored) for field, stored in members)


def _is_narrower(columns: FileColumns, data_type: DataType, stored: FileField) -> bool:
    match data_type:
        case StructType():
            return _has_narrower_member(columns, data_type, Level.of(stored.parts))
        case ArrayType(element):
            return any(_is_narrower(columns, element, part) for part in stored.parts)
        case MapType(key, value):
            types_and_parts = zip((key, value), stored.parts, strict=False)
            return any(_is_narrower(columns, part_type, part) for part_type, part in types_and_parts)
        case _ if _may_widen(stored.type):
            stored_type = type_from_arrow(stored.type, stored.name)
            return stored_type != data_type and is_widening(stored_type, data_type)
        case _:
            return False


def _may_widen(stored_type: pa.DataType) -> bool:
    widening_types = (types.is_signed_integer, types.is_floating, types.is_decimal, types.is_date)
    return any(is_type(stored_type) for is_type in widening_types)

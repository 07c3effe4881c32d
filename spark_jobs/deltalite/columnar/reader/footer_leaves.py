"""The search for a table's column in the footer of a data file.

The search follows a path of the table's schema through structs to a Parquet leaf, by name or by field id as in the
reader. The bounds of dates and timestamps in the Julian calendar are not usable. `row_groups.facts_of_leaf` reads the
bounds.
Protocol: Reader Requirements for Column Mapping.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from pyarrow import types

from deltalite.columnar.parquet.file_columns import VOID, FileColumns, FileField, Level
from deltalite.columnar.parquet.legacy_calendar import Calendar
from deltalite.columnar.predicates.predicate import Path
from deltalite.columnar.reader.row_groups import LeafColumn
from deltalite.protocol.schema import StructType

if TYPE_CHECKING:
    import pyarrow.parquet as pq


class NoLeaf(Enum):
    """The reason for a path without a leaf.

    - `ABSENT`: the column is null in each row, because the file lacks it or its type is void.
    - `UNKNOWN`: the column is nested, or the schema lacks it.
    """

    ABSENT = "absent"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class FooterLeaves:
    """The leaves of one file."""

    columns: FileColumns
    footer: pq.FileMetaData
    calendar: Calendar

    def find(self, path: Path, logical: StructType, physical: StructType) -> LeafColumn | NoLeaf:
        """Find the leaf of a path, spelled as in `logical`; `physical` is the same schema with physical names.

        Raises:
            CorruptDataFileError: two columns of the file match, or the file lacks field ids and the table uses them.
        """
        level = self.columns.layout.top
        for depth, name in enumerate(path, 1):
            index = logical.index_of(name)
            if index is None:
                break
            logical_field, physical_field = logical.fields[index], physical.fields[index]
            field = self.columns.member(physical_field, level, ".".join(path[:depth]))
            if field is None or logical_field.type == VOID:
                return NoLeaf.ABSENT
            if depth == len(path) and not field.parts:
                return LeafColumn(
                    position=field.leaves.start,
                    file_type=field.type,
                    table_type=logical_field.type,
                    has_bounds=not is_julian(field, self.calendar, self.footer),
                )
            if not (isinstance(logical_field.type, StructType) and isinstance(physical_field.type, StructType)):
                break
            logical, physical, level = logical_field.type, physical_field.type, Level.of(field.parts)
        return NoLeaf.UNKNOWN


def is_julian(field: FileField, calendar: Calendar, footer: pq.FileMetaData) -> bool:
    """Whether the file stores a column's days in the Julian calendar."""
    if types.is_date(field.type):
        return calendar.julian_datetime
    if not types.is_timestamp(field.type):
        return False
    if footer.schema.column(field.leaves.start).physical_type == "INT96":
        return calendar.julian_int96
    return calendar.julian_datetime and field.type.tz is not None

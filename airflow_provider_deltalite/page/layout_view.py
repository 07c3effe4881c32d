"""The file sizes and partitions of a table as values for the templates."""

from __future__ import annotations

from dataclasses import dataclass

from deltalite.inspection.file_layout import FileLayout, PartitionSize
from deltalite.sizes import format_bytes

BAR_WIDTH = 200
HEAT_LEVELS = 9
_LARGEST_HEAT_MAP = 40
_NULL = "NULL"


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeRow:
    """A class of file sizes, and the width of its bar in pixels."""

    label: str
    files: int
    size_bytes: int
    width: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """A partition, and the width of its bar in pixels. `values` has a text for each partition column."""

    values: tuple[str, ...]
    size: PartitionSize
    width: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatCell:
    """A partition in the heat map. `level` is from 1 (fewest bytes) to `HEAT_LEVELS` (most bytes)."""

    size: PartitionSize
    level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap:
    """The bytes of the partitions of two columns. A cell is None if the table has no such partition."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[HeatCell | None, ...]], ...]


def size_rows(layout: FileLayout) -> list[SizeRow]:
    """Return the classes of file sizes; the one with most files has the longest bar."""
    most = max((size_class.files for size_class in layout.size_classes), default=0)
    return [
        SizeRow(
            label=_label(size_class.min_bytes, size_class.max_bytes),
            files=size_class.files,
            size_bytes=size_class.size_bytes,
            width=bar_width(size_class.files, most),
        )
        for size_class in layout.size_classes
    ]


def partition_rows(layout: FileLayout) -> list[PartitionRow]:
    """Return the partitions; the one with most bytes has the longest bar."""
    most = max((partition.size_bytes for partition in layout.partitions), default=0)
    return [
        PartitionRow(values=_texts(partition), size=partition, width=bar_width(partition.size_bytes, most))
        for partition in layout.partitions
    ]


def heat_map(layout: FileLayout) -> HeatMap | None:
    """Return the heat map of a table with two partition columns.

    The result is None for another number of columns, and if a column has only one value or more than 40. It is also
    None if the layout does not list all partitions.
    """
    partitions = layout.partitions
    if len(layout.partition_columns) != 2 or len(partitions) < layout.partition_count:  # noqa: PLR2004  a map has two axes
        return None
    sizes = {_texts(partition): partition for partition in partitions}
    names, columns = (sorted({values[axis] for values in sizes}) for axis in (0, 1))
    if not 1 < len(names) <= _LARGEST_HEAT_MAP or not 1 < len(columns) <= _LARGEST_HEAT_MAP:
        return None
    most = max(partition.size_bytes for partition in partitions)

    def cell(name: str, column: str) -> HeatCell | None:
        size = sizes.get((name, column))
        if size is None:
            return None
        return HeatCell(size=size, level=1 + round((HEAT_LEVELS - 1) * size.size_bytes / (most or 1)))

    rows = tuple((name, tuple(cell(name, column) for column in columns)) for name in names)
    return HeatMap(columns=tuple(columns), rows=rows)


def _texts(partition: PartitionSize) -> tuple[str, ...]:
    return tuple(_NULL if value is None else value for value in partition.values)


def _label(min_bytes: int, max_bytes: int | None) -> str:
    if max_bytes is None:
        return f"{format_bytes(min_bytes)} and more"
    return (
        f"below {format_bytes(max_bytes)}"
        if min_bytes == 0
        else f"{format_bytes(min_bytes)} to {format_bytes(max_bytes)}"
    )


def bar_width(value: int, largest: int, full_width: int = BAR_WIDTH) -> int:
    """Return the width of a bar in pixels. The bar of the largest value has the full width.

    A value above zero has at least two pixels.
    """
    return max(2, round(full_width * value / largest)) if value else 0

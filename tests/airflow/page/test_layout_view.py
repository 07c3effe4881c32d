"""The rows, bars and cells that show file sizes and partitions."""

from __future__ import annotations

from airflow_provider_deltalite.page.layout_view import HEAT_LEVELS, heat_map, partition_rows, size_rows
from deltalite.inspection.file_layout import FileLayout, PartitionSize, SizeClass


def partition(*values, size_bytes=100, files=1, rows=1):
    return PartitionSize(values=values, files=files, size_bytes=size_bytes, rows=rows)


def layout(*partitions, columns=("country", "day"), size_classes=(), count=None):
    return FileLayout(
        size_classes=size_classes,
        partition_columns=columns,
        partitions=partitions,
        partition_count=len(partitions) if count is None else count,
    )


def test_each_class_of_sizes_has_a_label_and_a_bar():
    limits = ((0, 16_384, 1), (16_384, 65_536, 0), (65_536, None, 400))
    classes = tuple(SizeClass(min_bytes=low, max_bytes=high, files=files, size_bytes=7) for low, high, files in limits)
    assert [(row.label, row.width) for row in size_rows(layout(size_classes=classes))] == [
        ("below 16.0 KiB", 2),
        ("16.0 KiB to 64.0 KiB", 0),
        ("64.0 KiB and more", 200),
    ]


def test_a_partition_shows_null_and_a_bar_of_its_bytes():
    rows = partition_rows(layout(partition("DE", None), partition("FR", "1", size_bytes=50)))
    assert [(row.values, row.width) for row in rows] == [(("DE", "NULL"), 200), (("FR", "1"), 100)]


def test_a_heat_map_has_a_cell_for_each_partition():
    result = heat_map(
        layout(partition("DE", "2"), partition("FR", "1", size_bytes=50), partition("DE", "1", size_bytes=0))
    )
    assert result is not None
    assert result.columns == ("1", "2")
    levels = [(name, [cell and cell.level for cell in cells]) for name, cells in result.rows]
    assert levels == [("DE", [1, HEAT_LEVELS]), ("FR", [5, None])]


def test_only_a_complete_layout_of_two_columns_with_few_values_becomes_a_heat_map():
    pair = (partition("DE", "1"), partition("FR", "2"))
    assert heat_map(layout(*pair)) is not None
    assert heat_map(layout(*pair, count=3)) is None
    assert heat_map(layout(partition("DE"), partition("FR"), columns=("country",))) is None
    assert heat_map(layout(*pair, partition("IT", "3", "x"), columns=("country", "day", "hour"))) is None
    assert heat_map(layout(partition("DE", "1"), partition("DE", "2"))) is None
    assert heat_map(layout(*(partition(str(number), str(number % 2)) for number in range(41)))) is None


def test_partitions_without_bytes_have_no_bar_and_the_lowest_level():
    empty = layout(partition("DE", "1", size_bytes=0), partition("FR", "2", size_bytes=0))
    assert [row.width for row in partition_rows(empty)] == [0, 0]
    result = heat_map(empty)
    assert result is not None
    assert {cell.level for _, cells in result.rows for cell in cells if cell} == {1}

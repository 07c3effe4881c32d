"""The counts of pairs are the same whether Spark or the driver counts them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from deltalite.protocol.schema import StructType
from deltalite.spark.merge import matching
from deltalite.spark.merge.matching import FileMatches, SourceRows
from deltalite.spark.row_changes.joining import Size
from deltalite.spark.row_changes.touched_rows import RowColumns
from deltalite.spark.runtime.session import settings

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]

COLUMNS = RowColumns.unused_in(StructType(()))


def pairs(spark, addresses):
    """Return pairs with these files, rows and actions in two Spark partitions."""
    rows = [(file, row, action) for file, row, action in addresses]
    schema = f"{COLUMNS.pair_file} long, {COLUMNS.pair_row} long, {COLUMNS.pair_action} int"
    return spark.createDataFrame(rows, schema).repartitionByRange(2, COLUMNS.pair_row)


def test_the_driver_counts_the_pairs_as_spark_does(spark):
    addresses = [(1, row, row % 3 or None) for row in range(30)] + [(7, 2**40, None), (1, 5, 2), (1, 5, 2), (2, 5, 1)]
    frame = pairs(spark, addresses)
    collected = matching._few_addresses(frame, COLUMNS, task_count=2)
    counts = matching._counts_of_addresses(collected, [1, 2, 4])
    assert counts == matching._count_by_file(frame, [1, 2, 4], COLUMNS) == {
        1: FileMatches(pair_count=32, rows_with_several_matches=1, by_action={1: 10, 2: 10, 4: 0}),
        2: FileMatches(pair_count=1, rows_with_several_matches=0, by_action={1: 1, 2: 0, 4: 0}),
        7: FileMatches(pair_count=1, rows_with_several_matches=0, by_action={1: 0, 2: 0, 4: 0}),
    }  # fmt: skip


def test_no_pair_has_no_counts(spark):
    collected = matching._few_addresses(pairs(spark, []), COLUMNS, task_count=2)
    assert matching._counts_of_addresses(collected, [0]) == {}


@pytest.mark.parametrize(("task_count", "is_collected"), [(100, True), (5_000, False)])
def test_a_task_sends_fewer_pairs_if_there_are_more_tasks(spark, monkeypatch, task_count, is_collected):
    monkeypatch.setattr(matching, "MAX_FEW_POSITIONS", 10_000)
    frame = pairs(spark, [(1, row, None) for row in range(20)])
    assert (matching._few_addresses(frame, COLUMNS, task_count=task_count) is not None) == is_collected


def test_large_files_many_files_and_shuffles_have_many_tasks(spark):
    small, large = Size(count=1, size_bytes=1), Size(count=1, size_bytes=10**9)

    def task_count(file_count, file_bytes, size=small):
        files = pa.table({"size": pa.array([file_bytes] * file_count, pa.int64())})
        return matching._task_count(spark, files, SourceRows(frame=spark.range(0), size=size))

    assert task_count(0, 0) == 1
    assert task_count(1, 1000) == task_count(2, 1000) == task_count(16, 2**22) == 2, "the cores of the session"
    assert task_count(1, 100 * 2**27) == task_count(3200, 1) == 101
    with settings(spark, {"spark.sql.shuffle.partitions": "70"}):
        assert task_count(1, 1) == 2
        assert task_count(1, 1, large) == 70
        assert task_count(3200, 1, large) == 101

"""The counts of pairs are the same whether Spark or the driver counts them."""

from __future__ import annotations

import pytest

from deltalite.protocol.schema import StructType
from deltalite.spark.merge import matching
from deltalite.spark.merge.matching import FileMatches
from deltalite.spark.row_changes.touched_rows import RowColumns

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
    collected = matching._few_addresses(frame, COLUMNS, target_bytes=0)
    counts = matching._counts_of_addresses(collected, [1, 2, 4])
    assert counts == matching._count_by_file(frame, [1, 2, 4], COLUMNS) == {
        1: FileMatches(pair_count=32, rows_with_several_matches=1, by_action={1: 10, 2: 10, 4: 0}),
        2: FileMatches(pair_count=1, rows_with_several_matches=0, by_action={1: 1, 2: 0, 4: 0}),
        7: FileMatches(pair_count=1, rows_with_several_matches=0, by_action={1: 0, 2: 0, 4: 0}),
    }  # fmt: skip


def test_no_pair_has_no_counts(spark):
    collected = matching._few_addresses(pairs(spark, []), COLUMNS, target_bytes=0)
    assert matching._counts_of_addresses(collected, [0]) == {}


@pytest.mark.parametrize(("target_bytes", "is_collected"), [(0, True), (10**12, False)])
def test_a_task_sends_fewer_pairs_if_there_are_more_tasks(spark, monkeypatch, target_bytes, is_collected):
    monkeypatch.setattr(matching, "MAX_FEW_POSITIONS", 10_000)
    frame = pairs(spark, [(1, row, None) for row in range(20)])
    assert (matching._few_addresses(frame, COLUMNS, target_bytes) is not None) == is_collected

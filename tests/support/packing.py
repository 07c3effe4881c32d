"""Tables of small files, and a check that no row changes when optimize rewrites them."""

from __future__ import annotations

import deltalite.spark as delta
from deltalite import DeltaTable
from deltalite.inspection.verify import verify
from deltalite.storage.local import LocalLogStore
from tests.support.tables import delta_rs_rows, rows, sorted_rows, write_rows


def append_small_files(spark, table, *, parts=2, appends=3, **options):
    """Append ten rows several times; each append writes two small files to each partition.

    The column `part` has `parts` different values. If `parts` is more than 1, it is the partition column.
    """
    for number in range(appends):
        first_id = 10 * number
        id_range = f"range({first_id}, {first_id + 10}, 1, 2)"
        query = f"SELECT id, CAST(id % {parts} AS INT) AS part, id % 7 AS x FROM {id_range}"
        write_rows(spark, table, query, partition_by=("part",) if parts > 1 else None, **options)


def file_counts_by_part(table):
    """The number of files for each value of the partition column `part`; the key is None without this column."""
    counts = {}
    for partition_values in DeltaTable(str(table)).files()["partition_values"].to_pylist():
        part = dict(partition_values).get("part")
        counts[part] = counts.get(part, 0) + 1
    return counts


def rows_by_version(table):
    """The rows of each version of a table, by version."""
    return {version: rows(f"{table}@v{version}") for version in range(DeltaTable(str(table)).version + 1)}


def assert_all_readers_agree(spark, table, expected):
    """Assert that a table has the rows of each version in `expected`, and that `verify` finds no fault.

    The newest version must have the rows of the last version in `expected`, also for Spark and for delta-rs.
    """
    actual = rows_by_version(table)
    assert {version: actual[version] for version in expected} == expected
    last_rows = expected[max(expected)]
    assert rows(table) == last_rows == delta_rs_rows(table)
    spark_dicts = delta.read(spark, str(table)).toArrow().to_pylist()
    assert sorted_rows(tuple(row.values()) for row in spark_dicts) == last_rows
    assert verify(LocalLogStore(str(table))).findings == ()

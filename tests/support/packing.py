"""Tables of small files, and a check that no row changes when optimize rewrites them."""

from __future__ import annotations

import deltalite.spark as delta
from deltalite import DeltaTable
from deltalite.inspection.verify import verify
from deltalite.storage.local import LocalLogStore
from tests.support.tables import delta_rs_rows, ordered, rows, write_rows


def append_small_files(spark, table, *, parts=2, appends=3, **options):
    """Append ten rows several times; each append writes two small files for each partition."""
    for number in range(appends):
        first = 10 * number
        query = f"SELECT id, CAST(id % {parts} AS INT) AS part, id % 7 AS x FROM range({first}, {first + 10}, 1, 2)"
        write_rows(spark, table, query, partition_by=("part",) if parts > 1 else None, **options)


def files_by_part(table):
    """The number of files in each partition of the column `part`; a table without it has one partition, None."""
    counts = {}
    for values in DeltaTable(str(table)).files()["partition_values"].to_pylist():
        part = dict(values).get("part")
        counts[part] = counts.get(part, 0) + 1
    return counts


def versions(table):
    """The rows of each version of a table."""
    return {version: rows(f"{table}@v{version}") for version in range(DeltaTable(str(table)).version + 1)}


def assert_all_readers_agree(spark, table, before):
    """Assert that all readers see the rows of every version in `before`, and that the table verifies."""
    now = versions(table)
    assert {version: now[version] for version in before} == before
    assert rows(table) == before[max(before)] == delta_rs_rows(table)
    spark_dicts = delta.read(spark, str(table)).toArrow().to_pylist()
    assert ordered(tuple(row.values()) for row in spark_dicts) == before[max(before)]
    assert verify(LocalLogStore(str(table))).findings == ()

"""Spark leaves out the rows that deletion vectors delete, with few joins and few reads of the vectors."""

from __future__ import annotations

import pyarrow as pa
import pytest

import deltalite.spark as delta
from deltalite.columnar.deletion_vectors.reading import positions_of_vectors
from deltalite.errors import CorruptDataFileError
from deltalite.snapshot import Snapshot
from deltalite.spark.runtime.session import settings
from deltalite.spark.scan import row_selection
from deltalite.spark.scan.frame import scan, scan_rows
from deltalite.spark.scan.row_selection import RowSelection
from deltalite.storage.opening import open_store
from tests.support.tables import (
    physical_plan,
    schema_json,
    sorted_rows,
    spark_rows,
    write_foreign_table,
    write_numbered_file,
)
from tests.support.vectors import inline_vector

pytestmark = [pytest.mark.spark, pytest.mark.generated_code, pytest.mark.usefixtures("quick_plans")]

DELETION_VECTORS = {"features": ("deletionVectors",)}


@pytest.fixture
def table_with_deleted_rows(tmp_path):
    """A table of three files, and its remaining rows.

    The first file has deleted rows at the ends of 64-bit words and of row groups. The second file has no deleted rows,
    and the third has only deleted rows.
    """
    table = tmp_path / "t"
    deleted_positions = [0, 1, 62, 63, 64, 127, 128, 299, 300, 640, 998, 999]
    adds = [
        write_numbered_file(table, "1.parquet", 0, 1000) | {"deletionVector": inline_vector(deleted_positions)},
        write_numbered_file(table, "2.parquet", 1000, 10),
        write_numbered_file(table, "3.parquet", 2000, 70) | {"deletionVector": inline_vector(range(70))},
    ]
    write_foreign_table(table, schema_json(("id", "long")), adds, **DELETION_VECTORS)
    return table, [(n,) for n in [*(n for n in range(1000) if n not in deleted_positions), *range(1000, 1010)]]


def test_deleted_rows_are_left_out(spark, table_with_deleted_rows, relation_kind):
    table, expected = table_with_deleted_rows
    assert spark_rows(spark, table) == sorted_rows(expected)
    frame = delta.read(spark, str(table))
    assert frame.count() == len(expected)
    # Skipped row groups and file splits do not shift the positions of rows.
    assert {row.id for row in frame.where("id >= 995 AND id < 1001").collect()} == {995, 996, 997, 1000}
    with settings(spark, {"spark.sql.files.maxPartitionBytes": "4000", "spark.sql.files.openCostInBytes": "1"}):
        assert spark_rows(spark, table) == sorted_rows(expected)


def test_only_files_with_a_deletion_vector_are_joined(spark, table_with_deleted_rows):
    table, _ = table_with_deleted_rows
    plan = physical_plan(delta.read(spark, str(table)))
    assert plan.count("FileScan parquet") == 2 and plan.count("BroadcastHashJoin") == 1
    snapshot = Snapshot.load(open_store(str(table)))
    plan_without_vectors = physical_plan(scan(spark, snapshot, snapshot.files.slice(1, 1)))
    assert "Join" not in plan_without_vectors and "Union" not in plan_without_vectors


def test_many_deleted_rows_are_joined_without_a_broadcast_hint(spark, table_with_deleted_rows, monkeypatch):
    table, expected = table_with_deleted_rows
    monkeypatch.setattr(row_selection, "MAX_LARGE_BLOCKS", 0)
    monkeypatch.setattr(row_selection, "MAX_SMALL_BLOCKS", 0)
    with settings(spark, {"spark.sql.autoBroadcastJoinThreshold": "-1"}):
        frame = delta.read(spark, str(table))
        assert "SortMergeJoin" in physical_plan(frame)
        assert sorted_rows(frame.collect()) == sorted_rows(expected)


def test_deleted_rows_are_left_out_of_files_of_several_partitions_in_one_directory(spark, tmp_path, relation_kind):
    table = tmp_path / "t"
    adds = [
        write_numbered_file(table, f"x/{n} %.parquet", 10 * n, 3)
        | {"path": f"x/{n}%20%25.parquet", "partitionValues": {"p": day}}
        for n, day in enumerate(["-9999-12-31", None, "2026-01-01", "10000-01-01"])
    ]
    for n, add in enumerate(adds):
        add["deletionVector"] = inline_vector([n % 3])
    write_foreign_table(table, schema_json(("p", "date"), ("id", "long")), adds, ("p",), **DELETION_VECTORS)
    rows_read = delta.read(spark, str(table)).selectExpr("id", "CAST(p AS STRING)").collect()
    assert sorted_rows(rows_read) == sorted_rows(
        (10 * n + row, day)
        for n, day in enumerate(["-9999-12-31", None, "2026-01-01", "+10000-01-01"])
        for row in range(3)
        if row != n % 3
    )


@pytest.mark.parametrize("only_these", [True, False])
def test_scan_rows_selects_or_excludes_the_given_positions_of_each_file(spark, tmp_path, relation_kind, only_these):
    """A file may occur several times, because the changes of several versions may come from one file."""
    table = tmp_path / "t"
    write_foreign_table(table, schema_json(("id", "long")), [write_numbered_file(table, "1.parquet", 0, 200)])
    snapshot = Snapshot.load(open_store(str(table)))
    files = pa.concat_tables([snapshot.files] * 3)
    selections = {
        0: RowSelection(positions=pa.array([1, 64, 199], pa.int64()), only_these=only_these),
        1: RowSelection(positions=pa.array([2, 64], pa.int64()), only_these=only_these),
    }
    by_file = {"version": pa.array([5, 6, 7], pa.int64())}
    rows_read = scan_rows(
        spark, snapshot.store.root, snapshot.table_schema, files, rows=selections, by_file=by_file
    ).collect()
    expected = [
        (n, version)
        for version, positions in ((5, {1, 64, 199}), (6, {2, 64}))
        for n in range(200)
        if (n in positions) is only_these
    ]
    assert sorted_rows(rows_read) == sorted_rows([*expected, *((n, 7) for n in range(200))])


@pytest.mark.parametrize("positions_per_batch", [4_000_000, 1])
@pytest.mark.parametrize(("max_large_blocks", "positions_per_block", "num_blocks"), [(4, 4096, 4), (3, 64, 7)])
def test_blocks_have_a_bit_for_each_position_that_a_file_can_have(
    monkeypatch, positions_per_batch, max_large_blocks, positions_per_block, num_blocks
):
    monkeypatch.setattr(row_selection, "_POSITIONS_PER_BATCH", positions_per_batch)
    monkeypatch.setattr(row_selection, "MAX_LARGE_BLOCKS", max_large_blocks)
    positions = [0, 1, 63, 64, 127, 4095, 4096, 8191, 4_294_967_296]
    positions_by_file = [pa.array(of_file, pa.int64()) for of_file in ([], positions, [5])]
    blocks = row_selection.blocks_of(positions_by_file)
    decoded = [
        (row["block"] >> 32, positions_per_block * (row["block"] & (1 << 32) - 1) + 64 * index + bit)
        for row in blocks.table.to_pylist()
        for index, word in enumerate(row["words"])
        for bit in range(64)
        if word >> bit & 1
    ]
    assert decoded == [*((1, position) for position in positions), (2, 5)]
    assert (1 << blocks.position_bits, blocks.table.num_rows) == (positions_per_block, num_blocks)


def test_positions_that_no_file_can_have_are_left_out():
    blocks = row_selection.blocks_of([pa.array([3, 2**38, 2**60 + 63], pa.int64())])
    assert blocks.table.column("block").to_pylist() == [0]


def test_sparse_deleted_rows_are_left_out_by_small_blocks(spark, table_with_deleted_rows, monkeypatch):
    table, expected = table_with_deleted_rows
    monkeypatch.setattr(row_selection, "MAX_LARGE_BLOCKS", 0)
    frame = delta.read(spark, str(table))
    assert "BroadcastHashJoin" in physical_plan(frame)
    assert sorted_rows(frame.collect()) == sorted_rows(expected)


def test_functions_of_the_user_do_not_make_deleted_rows_visible(spark, table_with_deleted_rows):
    table, expected = table_with_deleted_rows
    session = spark.newSession()
    for name in ("get", "getbit", "shiftleft", "shiftright", "coalesce"):
        session.udf.register(name, lambda *_: None, "bigint")
    assert sorted_rows(delta.read(session, str(table)).collect()) == sorted_rows(expected)


def test_a_missing_deletion_vector_file_is_an_error(spark, tmp_path):
    table = tmp_path / "t"
    missing_vector = {
        "storageType": "u",
        "pathOrInlineDv": "vBn[lx{q8@P<9BNH/isA",
        "offset": 1,
        "sizeInBytes": 36,
        "cardinality": 2,
    }
    write_foreign_table(
        table,
        schema_json(("id", "long")),
        [write_numbered_file(table, "1.parquet", 0, 5) | {"deletionVector": missing_vector}],
        **DELETION_VECTORS,
    )
    with pytest.raises(CorruptDataFileError):
        delta.read(spark, str(table))


def test_each_deletion_vector_is_read_once_when_the_frame_is_created(spark, table_with_deleted_rows, monkeypatch):
    table, expected = table_with_deleted_rows
    read_vectors = []

    def record_and_read(store, descriptors):
        read_vectors.extend(descriptors)
        return positions_of_vectors(store, descriptors)

    monkeypatch.setattr(row_selection, "positions_of_vectors", record_and_read)
    frame = delta.read(spark, str(table))
    assert (frame.count(), frame.count(), len(read_vectors)) == (len(expected), len(expected), 2)

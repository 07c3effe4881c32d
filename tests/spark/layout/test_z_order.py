"""An optimize orders rows along a Z curve of columns of any type, and loses no row."""

from __future__ import annotations

import json
import random
from itertools import pairwise

import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812  the usual name

import deltalite.spark as delta
from deltalite import DeltaTable
from deltalite.columnar.predicates.predicate import Comparison, Operator
from deltalite.columnar.skipping.files import prune
from deltalite.inspection.verify import verify
from deltalite.snapshot import Snapshot
from deltalite.spark.layout.z_order import Curve, _Order
from deltalite.storage.local import LocalLogStore
from deltalite.storage.opening import open_store
from tests.support.packing import assert_all_readers_agree, rows_by_version
from tests.support.properties import VECTORS
from tests.support.tables import (
    actions_of,
    delete_rows,
    delta_rs_rows,
    optimize_table,
    rows,
    spark_rows,
    update_rows,
    write_rows,
)

pytestmark = [pytest.mark.spark, pytest.mark.generated_code]


@pytest.fixture
def table(tmp_path):
    return tmp_path / "t"


def count_possible_files(table, column, value):
    """The number of files that may contain rows with this value."""
    snapshot = Snapshot.load(open_store(str(table)))
    predicate = Comparison(column=(column,), operator=Operator.EQ, literal=value)
    return prune(snapshot.files, predicate, snapshot.table_schema).num_rows


def test_files_can_be_skipped_by_each_column_of_the_z_order(spark, table):
    query = (
        "SELECT id, CAST(rand(1) * 1000 AS INT) AS x, CAST(rand(2) * 1000 AS INT) AS y, rand(3) AS z "
        "FROM range({}, {}, 1, 4)"
    )
    for first_id in (0, 10_000):
        write_rows(spark, table, query.format(first_id, first_id + 10_000))
    rows_before = rows_by_version(table)
    size = sum(DeltaTable(str(table)).files()["size_bytes"].to_pylist())
    assert count_possible_files(table, "x", 500) == DeltaTable(str(table)).files().num_rows == 8
    result = optimize_table(spark, table, z_order_by=["x", "y"], target_file_size=size // 16)
    files = result.metrics["numAddedFiles"]
    assert 14 <= files <= 18
    for column in ("x", "y"):
        counts = [count_possible_files(table, column, value) for value in range(5, 1000, 90)]
        assert sum(counts) <= 0.4 * files * len(counts), f"files that may have each value of {column}: {counts}"
    assert result.metrics["maxFileSize"] < 1.5 * result.metrics["minFileSize"]
    assert_all_readers_agree(spark, table, rows_before)
    actions = actions_of(table, 2)
    assert json.loads(actions["commitInfo"]["operationParameters"]["zOrderBy"]) == ["x", "y"]
    assert {add["tags"]["ZCUBE_ZORDER_BY"] for add in actions["add"]} == {'["x", "y"]'}
    assert len({add["tags"]["ZCUBE_ID"] for add in actions["add"]}) == 1
    second_result = optimize_table(spark, table, z_order_by=["x", "y"], target_file_size=size // 16)
    assert not second_result.committed and second_result.metrics["numAddedFiles"] == 0


@pytest.mark.smoke
def test_row_groups_of_one_file_can_be_skipped(spark, table):
    write_rows(spark, table, "SELECT /*+ COALESCE(1) */ id, rand(1) AS x, uuid() AS text FROM range(80000)")
    optimize_table(spark, table, z_order_by=["x"], target_file_size=8 * 1024 * 1024)
    (add,) = actions_of(table, 1)["add"]
    footer = pq.read_metadata(table / add["path"])
    bounds = [footer.row_group(n).column(1).statistics for n in range(footer.num_row_groups)]
    assert len(bounds) >= 3
    assert sum(bound.min <= 0.5 <= bound.max for bound in bounds) <= 2


# The SQL of a column of each type.
TYPES = {
    "text": "IF(id % 5 = 0, NULL, concat('https://example.org/a/long/prefix/that/all/share/', id * 7919 % 1000))",
    "amount": "CAST(id * 7919 % 1000 AS DECIMAL(30, 10))",
    "day": "date_add(DATE'2020-01-01', CAST(id * 7919 % 1000 AS INT))",
    "moment": "timestamp_seconds(id * 7919 % 1000)",
    "zoneless": "CAST(timestamp_seconds(id * 7919 % 1000) AS TIMESTAMP_NTZ)",
    "real": "CASE id % 5 WHEN 0 THEN double('NaN') WHEN 1 THEN -0.0D WHEN 2 THEN NULL ELSE id * 7919 % 1000 END",
    "same": "7",
    "nothing": "CAST(NULL AS INT)",
    "s": "named_struct('a b', named_struct('c', IF(id % 3 = 0, NULL, id)))",
}


@pytest.mark.campaign
def test_columns_of_every_type_with_nulls_can_order_rows(spark, table):
    columns = ", ".join(f"{sql} AS {name}" for name, sql in TYPES.items())
    write_rows(spark, table, f"SELECT id, {columns} FROM range(0, 2000, 1, 2)", properties=VECTORS)
    delete_rows(spark, table, "id % 10 = 3")
    rows_before, spark_rows_before = rows(table), spark_rows(spark, table)
    names = [*[name for name in TYPES if name != "s"], "s.`a b`.c"]
    size = sum(DeltaTable(str(table)).files()["size_bytes"].to_pylist())
    optimize_table(spark, table, z_order_by=names, target_file_size=size // 5)
    assert repr(rows(table)) == repr(rows_before) and repr(spark_rows(spark, table)) == repr(spark_rows_before)
    assert DeltaTable(str(table)).files().num_rows in (4, 5)
    assert verify(LocalLogStore(str(table))).findings == ()


@pytest.mark.campaign
@pytest.mark.slow
def test_equal_values_are_split_into_files_of_the_target_size(spark, table):
    write_rows(spark, table, "SELECT id, 7 AS same FROM range(0, 20000, 1, 4)")
    size = sum(DeltaTable(str(table)).files()["size_bytes"].to_pylist())
    optimize_table(spark, table, z_order_by=["same"], target_file_size=size // 4)
    counts = [json.loads(add["stats"])["numRecords"] for add in actions_of(table, 1)["add"]]
    assert len(counts) == 4 and max(counts) < 2 * min(counts)


@pytest.mark.campaign
@pytest.mark.slow
def test_each_partition_is_a_separate_cube_and_is_ordered_again_only_with_new_files(spark, table):
    query = "SELECT id, CAST(id % 3 AS INT) AS part, id * 7919 % 1000 AS x FROM range({}, {}, 1, 2)"
    write_rows(spark, table, query.format(0, 3000), partition_by=("part",))
    size = sum(DeltaTable(str(table)).files()["size_bytes"].to_pylist())
    optimize_table(spark, table, z_order_by=["x"], target_file_size=size // 6)
    adds = actions_of(table, 1)["add"]
    cubes = {add["partitionValues"]["part"]: add["tags"]["ZCUBE_ID"] for add in adds}
    assert len(set(cubes.values())) == 3 and len(adds) == 6, "each partition has a cube of two files"
    for add in adds:
        values = pq.read_table(table / add["path"])["x"].to_pylist()
        decreases = [value - next_value for value, next_value in pairwise(values)]
        assert max(decreases) <= 20, "the rows of a file are ordered by ranges of values"
    write_rows(spark, table, query.format(3000, 3001))
    rows_before = rows_by_version(table)
    optimize_table(spark, table, z_order_by=["x"], target_file_size=size // 6)
    assert {add["partitionValues"]["part"] for add in actions_of(table, 3)["add"]} == {"0"}
    assert_all_readers_agree(spark, table, rows_before)


@pytest.mark.campaign
def test_a_cube_without_sampled_rows_is_written_in_any_order(spark, table, monkeypatch):
    from deltalite.spark.layout import z_order

    write_rows(spark, table, "SELECT id, CAST(id % 2 AS INT) AS part FROM range(0, 100, 1, 2)", partition_by=("part",))
    rows_before = rows_by_version(table)
    monkeypatch.setattr(z_order, "_sampling_rates", lambda cubes: [0.0, 1.0])
    optimize_table(spark, table, z_order_by=["id"], target_file_size=600)
    assert_all_readers_agree(spark, table, rows_before)


def test_a_row_goes_to_the_same_file_when_its_task_runs_again(spark, table):
    """Rows with equal values are spread evenly over the files, by a number that depends on the row alone."""
    write_rows(spark, table, "SELECT id, map(id, id) AS m, array(map(id, id)) AS deep FROM range(1000)")
    order = _Order(Snapshot.load(LocalLogStore(str(table))), Curve.Z, column_count=1, cube_count=1, max_outputs=2)
    frame = delta.read(spark, str(table)).withColumn(order.values[0], F.lit(7))
    reordered_frame = frame.repartition(3, "id").sortWithinPartitions(F.desc("id"))
    shares, shares_after_reordering = (
        {row["id"]: row["hash"] for row in rows_in_order.select("id", order.hash_fraction().alias("hash")).collect()}
        for rows_in_order in (frame, reordered_frame)
    )
    assert shares == shares_after_reordering
    assert all(0 <= share < 1 for share in shares.values())
    counts_of_quarters = [sum(n <= 4 * share < n + 1 for share in shares.values()) for n in range(4)]
    assert all(200 <= count < 400 for count in counts_of_quarters)


@pytest.mark.campaign
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.slow
def test_an_optimize_changes_no_row_of_any_version_in_a_random_history(spark, table, seed):
    rnd = random.Random(seed)
    properties = rnd.choice([{}, VECTORS, VECTORS | {"delta.columnMapping.mode": "name"}])
    query = "SELECT id, CAST(id % 3 AS INT) AS part, CAST(rand({}) * 100 AS INT) AS x FROM range({}, {}, 1, 2)"
    write_rows(spark, table, query.format(seed, 0, 60), partition_by=("part",), properties=properties)
    options = [
        {}, {"max_deleted_rows_ratio": 0}, {"z_order_by": ["x", "id"]}, {"where": "part = 1"},
        {"z_order_by": ["x"], "target_file_size": 900}, {"max_commit_bytes": 1},
    ]  # fmt: skip
    for step in range(1, 5):
        match rnd.randrange(3):
            case 0:
                write_rows(spark, table, query.format(step, 60 * step, 60 * step + 30))
            case 1:
                delete_rows(spark, table, f"x < {rnd.randrange(60)} AND id % {rnd.randint(1, 4)} = 0")
            case _:
                update_rows(spark, table, {"x": "x + 1"}, f"id % {rnd.randint(2, 5)} = 1")
        rows_before = rows_by_version(table)
        step_options = rnd.choice(options)
        optimize_table(spark, table, **step_options)
        rows_after = rows_by_version(table)
        assert {version: rows_after[version] for version in rows_before} == rows_before, step_options
        assert rows(table) == rows_before[max(rows_before)] == delta_rs_rows(table), step_options
        assert spark_rows(spark, table) == rows_before[max(rows_before)]
        assert not optimize_table(spark, table, **step_options).committed, f"a second run commits: {step_options}"
    assert verify(LocalLogStore(str(table))).findings == ()
    assert delta.read(spark, str(table)).count() == len(rows(table))

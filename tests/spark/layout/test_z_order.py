"""Rows are ordered along a Z curve of columns of any type, and no row is lost."""

from __future__ import annotations

import json
import random
from itertools import pairwise

import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

import deltalite.spark as delta
from deltalite import DeltaTable
from deltalite.columnar.predicates.predicate import Comparison, Operator
from deltalite.columnar.skipping.files import prune
from deltalite.inspection.verify import verify
from deltalite.snapshot import Snapshot
from deltalite.spark.layout.z_order import Curve, _Order
from deltalite.storage.local import LocalLogStore
from deltalite.storage.opening import open_store
from tests.support.packing import assert_all_readers_agree, versions
from tests.support.properties import VECTORS
from tests.support.tables import (
    commit,
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


def kept(table, column, value):
    """How many files may hold rows with this value, and how many there are."""
    snapshot = Snapshot.load(open_store(str(table)))
    equal = Comparison(column=(column,), operator=Operator.EQ, literal=value)
    return prune(snapshot.files, equal, snapshot.table_schema).num_rows, snapshot.files.num_rows


def test_files_and_row_groups_can_be_skipped_by_each_column(spark, table):
    query = (
        "SELECT id, CAST(rand(1) * 1000 AS INT) AS x, CAST(rand(2) * 1000 AS INT) AS y, rand(3) AS z "
        "FROM range({}, {}, 1, 4)"
    )
    for at in range(2):
        write_rows(spark, table, query.format(at * 60_000, at * 60_000 + 60_000))
    before = versions(table)
    size = sum(DeltaTable(str(table)).files()["size_bytes"].to_pylist())
    assert kept(table, "x", 500) == (8, 8)
    result = optimize_table(spark, table, z_order_by=["x", "y"], target_file_size=size // 16)
    files = result.metrics["numAddedFiles"]
    assert 14 <= files <= 18
    for column in ("x", "y"):
        counts = [kept(table, column, value)[0] for value in range(5, 1000, 90)]
        assert sum(counts) <= 0.4 * files * len(counts), (
            f"of {files} files so many may hold a value of {column}: {counts}"
        )
    assert result.metrics["maxFileSize"] < 1.5 * result.metrics["minFileSize"]
    assert_all_readers_agree(spark, table, before)
    made = commit(table, 2)
    assert json.loads(made["commitInfo"]["operationParameters"]["zOrderBy"]) == ["x", "y"]
    assert {add["tags"]["ZCUBE_ZORDER_BY"] for add in made["add"]} == {'["x", "y"]'}
    assert len({add["tags"]["ZCUBE_ID"] for add in made["add"]}) == 1
    again = optimize_table(spark, table, z_order_by=["x", "y"], target_file_size=size // 16)
    assert not again.committed and again.metrics["numAddedFiles"] == 0


@pytest.mark.smoke
def test_row_groups_of_one_file_can_be_skipped(spark, table):
    write_rows(spark, table, "SELECT /*+ COALESCE(1) */ id, rand(1) AS x, uuid() AS text FROM range(80000)")
    optimize_table(spark, table, z_order_by=["x"], target_file_size=8 * 1024 * 1024)
    (add,) = commit(table, 1)["add"]
    footer = pq.read_metadata(table / add["path"])
    bounds = [footer.row_group(n).column(1).statistics for n in range(footer.num_row_groups)]
    assert len(bounds) >= 3
    assert sum(bound.min <= 0.5 <= bound.max for bound in bounds) <= 2


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
    before, by_spark = rows(table), spark_rows(spark, table)
    names = [*[name for name in TYPES if name != "s"], "s.`a b`.c"]
    size = sum(DeltaTable(str(table)).files()["size_bytes"].to_pylist())
    optimize_table(spark, table, z_order_by=names, target_file_size=size // 5)
    assert repr(rows(table)) == repr(before) and repr(spark_rows(spark, table)) == repr(by_spark)
    assert DeltaTable(str(table)).files().num_rows in (4, 5)
    assert verify(LocalLogStore(str(table))).findings == ()


def test_equal_values_are_split_into_files_of_the_target_size(spark, table):
    write_rows(spark, table, "SELECT id, 7 AS same FROM range(0, 20000, 1, 4)")
    size = sum(DeltaTable(str(table)).files()["size_bytes"].to_pylist())
    optimize_table(spark, table, z_order_by=["same"], target_file_size=size // 4)
    counts = [json.loads(add["stats"])["numRecords"] for add in commit(table, 1)["add"]]
    assert len(counts) == 4 and max(counts) < 2 * min(counts)


@pytest.mark.slow
def test_each_partition_is_a_separate_cube_and_is_ordered_again_only_with_new_files(spark, table):
    query = "SELECT id, CAST(id % 3 AS INT) AS part, id * 7919 % 1000 AS x FROM range({}, {}, 1, 2)"
    write_rows(spark, table, query.format(0, 3000), partition_by=("part",))
    size = sum(DeltaTable(str(table)).files()["size_bytes"].to_pylist())
    optimize_table(spark, table, z_order_by=["x"], target_file_size=size // 6)
    made = commit(table, 1)["add"]
    cubes = {add["partitionValues"]["part"]: add["tags"]["ZCUBE_ID"] for add in made}
    assert len(set(cubes.values())) == 3 and len(made) == 6, "two files for each"
    for add in made:
        values = pq.read_table(table / add["path"])["x"].to_pylist()
        falls = [one - next_one for one, next_one in pairwise(values)]
        assert max(falls) <= 20, "a file of a partition is ordered too, by ranges of its values"
    write_rows(spark, table, query.format(3000, 3001))
    before = versions(table)
    optimize_table(spark, table, z_order_by=["x"], target_file_size=size // 6)
    assert {add["partitionValues"]["part"] for add in commit(table, 3)["add"]} == {"0"}
    assert_all_readers_agree(spark, table, before)


def test_a_cube_without_sampled_rows_is_written_in_any_order(spark, table, monkeypatch):
    """A cube that the sample has missed is written in any order."""
    from deltalite.spark.layout import z_order

    write_rows(spark, table, "SELECT id, CAST(id % 2 AS INT) AS part FROM range(0, 100, 1, 2)", partition_by=("part",))
    before = versions(table)
    monkeypatch.setattr(z_order, "_shares", lambda cubes: [0.0, 1.0])
    optimize_table(spark, table, z_order_by=["id"], target_file_size=600)
    assert_all_readers_agree(spark, table, before)


def test_a_row_goes_to_the_same_file_when_its_task_runs_again(spark, table):
    """A row number that is evenly spread separates rows with the same values."""
    write_rows(spark, table, "SELECT id, map(id, id) AS m, array(map(id, id)) AS deep FROM range(1000)")
    order = _Order(Snapshot.load(LocalLogStore(str(table))), Curve.Z, columns=1, cubes=1, most_outputs=2)
    rows_of = delta.read(spark, str(table)).withColumn(order.values[0], F.lit(7))
    once, again = (
        {row["id"]: row["share"] for row in frame.select("id", order.share_of_row().alias("share")).collect()}
        for frame in (rows_of, rows_of.repartition(3, "id").sortWithinPartitions(F.desc("id")))
    )
    assert once == again
    assert all(0 <= share < 1 for share in once.values())
    assert [sum(n <= 4 * share < n + 1 for share in once.values()) // 200 for n in range(4)] == [1, 1, 1, 1]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.campaign) for seed in (1, 2))])
@pytest.mark.slow
def test_after_any_history_every_version_reads_the_same(spark, table, seed):
    chance = random.Random(seed)
    properties = chance.choice([{}, VECTORS, VECTORS | {"delta.columnMapping.mode": "name"}])
    query = "SELECT id, CAST(id % 3 AS INT) AS part, CAST(rand({}) * 100 AS INT) AS x FROM range({}, {}, 1, 2)"
    write_rows(spark, table, query.format(seed, 0, 60), partition_by=("part",), properties=properties)
    options = [
        {}, {"max_deleted_rows_ratio": 0}, {"z_order_by": ["x", "id"]}, {"where": "part = 1"},
        {"z_order_by": ["x"], "target_file_size": 900}, {"max_commit_bytes": 1},
    ]  # fmt: skip
    for step in range(1, 5):
        match chance.randrange(3):
            case 0:
                write_rows(spark, table, query.format(step, 60 * step, 60 * step + 30))
            case 1:
                delete_rows(spark, table, f"x < {chance.randrange(60)} AND id % {chance.randint(1, 4)} = 0")
            case _:
                update_rows(spark, table, {"x": "x + 1"}, f"id % {chance.randint(2, 5)} = 1")
        before = versions(table)
        chosen = chance.choice(options)
        optimize_table(spark, table, **chosen)
        now = versions(table)
        assert {version: now[version] for version in before} == before, chosen
        assert rows(table) == before[max(before)] == delta_rs_rows(table), chosen
        assert spark_rows(spark, table) == before[max(before)]
        assert not optimize_table(spark, table, **chosen).committed, f"a second run did something: {chosen}"
    assert verify(LocalLogStore(str(table))).findings == ()
    assert delta.read(spark, str(table)).count() == len(rows(table))

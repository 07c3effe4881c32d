"""An optimize moves rows to other files and changes no row: packing, purging, and rejected requests."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltalite import DeltaTable
from deltalite.columnar.deletion_vectors.files import write_vectors
from deltalite.commands.optimize.table_plan import plan_for
from deltalite.errors import (
    CorruptDataFileError,
    InvalidRequestError,
    UnsupportedFeatureError,
)
from deltalite.log.file_table import ADD_TYPES
from deltalite.requests import OptimizeRequest
from deltalite.snapshot import Snapshot
from deltalite.spark.layout import rearranging
from deltalite.storage.local import LocalLogStore
from tests.support.packing import append_small_files, assert_all_readers_agree, files_by_part, versions
from tests.support.properties import VECTORS
from tests.support.tables import (
    commit,
    data_file,
    data_files,
    delete_rows,
    hand_made,
    optimize_table,
    rows,
    schema_json,
    write_rows,
)

pytestmark = pytest.mark.spark

RUN = "airflow/dag/task/-1/run"


@pytest.fixture
def table(tmp_path):
    return tmp_path / "t"


@pytest.mark.smoke
def test_small_files_are_packed_by_partition_and_the_history_has_the_metrics(spark, table):
    append_small_files(spark, table, properties={"delta.enableChangeDataFeed": "true"})
    before = versions(table)
    assert files_by_part(table) == {"0": 6, "1": 6}
    result = optimize_table(spark, table, run=RUN)
    assert files_by_part(table) == {"0": 1, "1": 1}
    assert_all_readers_agree(spark, table, before)
    made = commit(table, 3)
    assert len(made["add"]) == 2 and len(made["remove"]) == 12 and "cdc" not in made
    assert not any(action["dataChange"] for action in (*made["add"], *made["remove"]))
    assert [json.loads(add["stats"])["numRecords"] for add in made["add"]] == [15, 15]
    info = made["commitInfo"]
    assert (info["operation"], info["isolationLevel"]) == ("OPTIMIZE", "SnapshotIsolation")
    assert info["operationParameters"] == {"predicate": "[]", "zOrderBy": "[]", "clusterBy": "[]", "auto": False}
    sizes = sorted(add["size"] for add in made["add"])
    assert result.metrics == {name: int(value) for name, value in info["operationMetrics"].items()}
    assert result.metrics == {
        "numAddedFiles": 2, "numRemovedFiles": 12, "numAddedBytes": sum(sizes),
        "numRemovedBytes": sum(remove["size"] for remove in made["remove"]), "numDeletionVectorsRemoved": 0,
        "minFileSize": sizes[0], "p25FileSize": sizes[0], "p50FileSize": sizes[0], "p75FileSize": sizes[0],
        "maxFileSize": sizes[1],
    }  # fmt: skip
    assert sum(batch.num_rows for batch in DeltaTable(str(table)).changes(from_version=3, to_version=3)) == 0


def test_a_second_run_packs_nothing_and_a_retry_commits_nothing(spark, table):
    append_small_files(spark, table)
    assert optimize_table(spark, table, run=RUN).committed
    again = optimize_table(spark, table, run=RUN)
    assert (again.skipped, again.version, again.metrics["numAddedFiles"]) == (True, 3, 2)
    other = optimize_table(spark, table, run="another")
    assert (other.committed, other.version, other.metrics["numAddedFiles"]) == (True, 4, 0)
    made = commit(table, 4)
    assert (made["add"], made["remove"], made["txn"]["appId"]) == ([], [], "another")
    unnamed = optimize_table(spark, table)
    assert (unnamed.committed, unnamed.version) == (False, 4)


def test_only_the_partitions_of_where_are_packed(spark, table):
    append_small_files(spark, table, parts=3)
    before = versions(table)
    optimize_table(spark, table, where="part IN (0, 2) AND part + 1 > 1")
    assert files_by_part(table) == {"0": 6, "1": 6, "2": 1}
    assert_all_readers_agree(spark, table, before)
    assert json.loads(commit(table, 3)["commitInfo"]["operationParameters"]["predicate"]) == [
        "part IN (0, 2) AND part + 1 > 1"
    ]


def test_files_with_deleted_rows_are_rewritten_and_files_without_rows_are_removed(spark, table):
    write_rows(
        spark,
        table,
        "SELECT id, CAST(id DIV 100 AS INT) AS part FROM range(0, 300, 1, 1)",
        partition_by=("part",),
        properties=VECTORS,
    )
    delete_rows(spark, table, "id < 2 OR id BETWEEN 100 AND 120")
    before = versions(table)
    optimize_table(spark, table)
    made = commit(table, 2)
    assert [add["partitionValues"]["part"] for add in made["add"]] == ["1"], "two of a hundred are too few"
    assert made["commitInfo"]["operationMetrics"]["numDeletionVectorsRemoved"] == "1"
    assert_all_readers_agree(spark, table, before)
    optimize_table(spark, table, max_deleted_rows_ratio=0)
    assert_all_readers_agree(spark, table, before)
    assert DeltaTable(str(table)).files()["deletion_vector"].null_count == 3
    assert not optimize_table(spark, table, max_deleted_rows_ratio=0).committed


def test_a_file_without_live_rows_is_only_removed(spark, table):
    table.mkdir()
    (descriptor,) = write_vectors(LocalLogStore(str(table)), [pa.array(range(3), pa.int64())])
    vector = {key: value for key, value in descriptor.items() if value is not None}
    adds = [
        {**data_file(table, "a.parquet", id=pa.array([1, 2, 3], pa.int64())), "stats": '{"numRecords":3}',
         "deletionVector": vector},
        {**data_file(table, "b.parquet", id=pa.array([4], pa.int64())), "stats": '{"numRecords":1}'},
    ]  # fmt: skip
    hand_made(table, schema_json(("id", "long")), adds, features=("deletionVectors",))
    optimize_table(spark, table)
    made = commit(table, 1)
    assert (made["add"], [remove["path"] for remove in made["remove"]]) == ([], ["a.parquet"])
    assert rows(table) == [(4,)]


def test_a_file_whose_statistics_wrongly_record_no_rows_is_kept(spark, table):
    table.mkdir()
    adds = [{**data_file(table, "a.parquet", id=pa.array([1], pa.int64())), "stats": '{"numRecords":0}'}]
    hand_made(table, schema_json(("id", "long")), adds)
    with pytest.raises(CorruptDataFileError, match="1 rows are live, but the log records none"):
        optimize_table(spark, table)
    assert DeltaTable(str(table)).version == 0 and rows(table) == [(1,)]


@pytest.mark.parametrize("count", [5, 2], ids=["more than it has", "fewer"])
def test_wrong_statistics_lose_no_row(spark, table, count):
    table.mkdir()
    numbers = f'{{"numRecords":{count}}}'
    adds = [{**data_file(table, f"{n}.parquet", id=pa.array([n, n, n], pa.int64())), "stats": numbers}
            for n in range(2)]  # fmt: skip
    hand_made(table, schema_json(("id", "long")), adds)
    optimize_table(spark, table)
    assert rows(table) == [(0,)] * 3 + [(1,)] * 3
    assert json.loads(commit(table, 1)["add"][0]["stats"])["numRecords"] == 6


def test_a_batch_that_lacks_a_row_is_not_committed(spark, table, monkeypatch):
    append_small_files(spark, table)
    there = data_files(table)
    real = rearranging.scan_with_row_ids
    monkeypatch.setattr(rearranging, "scan_with_row_ids", lambda *a, **k: real(*a, **k).where("id <> 3"))
    with pytest.raises(CorruptDataFileError, match="do not have the rows that the log records: 14 rows were read"):
        optimize_table(spark, table, run=RUN)
    assert DeltaTable(str(table)).version == 2 and data_files(table) == there


def test_many_small_bins_are_one_job_with_one_file_for_each(spark, table, monkeypatch):
    """Also where all scans of a job would be one partition to Spark."""
    append_small_files(spark, table, parts=11)
    before = versions(table)
    assert [job.shuffles for job in rearranging.jobs_for([1] * 11)] == [True]
    optimize_table(spark, table)
    assert set(files_by_part(table).values()) == {1}
    assert_all_readers_agree(spark, table, before)


def test_each_key_is_hashed_to_its_partition_as_in_spark(spark):
    for count in (1, 7, 200):
        keys = rearranging.keys_of_partitions(count)
        frame = spark.createDataFrame(list(enumerate(keys)), "number INT, key INT").repartition(count, "key")
        placed = frame.selectExpr("number", "spark_partition_id() AS part").collect()
        assert sorted(number for number, part in placed if number == part) == list(range(count))


def test_large_and_small_bins_are_in_different_jobs():
    large, small = rearranging._LARGE_BYTES, 1
    jobs = rearranging.jobs_for([large, *[small] * 9, large])
    assert [(job.bins, job.shuffles) for job in jobs] == [((0, 10), False), (tuple(range(1, 10)), True)]
    assert [job.shuffles for job in rearranging.jobs_for([small] * 8)] == [False]
    assert [len(job.bins) for job in rearranging.jobs_for([large] * 101)] == [100, 1]


@pytest.mark.parametrize("options", [{}, {"z_order_by": ["x"]}], ids=["packed", "ordered"])
def test_the_files_of_a_plan_are_in_one_chunk(spark, table, options):
    """Each bin takes some of them, which costs as much as there are chunks."""
    append_small_files(spark, table, parts=1)
    base = Snapshot.load(LocalLogStore(str(table)))
    assert base.files_with(tuple(ADD_TYPES))["path"].num_chunks > 1, "as they come from the log"
    plan = plan_for(spark, OptimizeRequest(table=str(table), **options), base)
    assert plan.files.num_rows == 6 and {column.num_chunks for column in plan.files.columns} == {1}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"where": "id > 3"}, "partition columns of .* The partition columns are part"),
        ({"where": "part = 0 OR x = 1"}, "partition columns"),
        ({"where": "nowhere = 1"}, "nowhere"),
        ({"z_order_by": ["part"]}, "names the partition column"),
        ({"z_order_by": ["nowhere"]}, "does not have"),
        ({"z_order_by": ["ID", "id"]}, "twice"),
        ({"z_order_by": ["x"]}, "no statistics"),
        ({"z_order_by": ["id"] * 17}, "17 columns"),
        ({"z_order_by": ["flag"]}, "no bounds for its type"),
        ({"z_order_by": ["list"]}, "no bounds for its type"),
    ],
)
def test_an_invalid_parameter_is_rejected_before_a_row_is_read(spark, table, options, problem):
    write_rows(
        spark,
        table,
        "SELECT 1L AS id, 0 AS part, 2L AS x, true AS flag, array(1) AS list",
        partition_by=("part",),
        properties={"delta.dataSkippingStatsColumns": "id,flag,list"},
    )
    with pytest.raises(InvalidRequestError, match=problem) as caught:
        optimize_table(spark, table, **options)
    assert caught.value.remedy and DeltaTable(str(table)).version == 0


def test_a_clustered_table_is_packed_and_z_order_is_rejected(spark, table):
    table.mkdir()
    adds = [{**data_file(table, f"{n}.parquet", id=pa.array([n], pa.int64())), "stats": '{"numRecords":1}'}
            for n in range(3)]  # fmt: skip
    hand_made(table, schema_json(("id", "long")), adds, features=("clustering", "domainMetadata"))
    log = table / "_delta_log" / f"{0:020}.json"
    domain = {"domain": "delta.clustering", "configuration": '{"clusteringColumns":[["id"]]}', "removed": False}
    log.write_text(log.read_text() + "\n" + json.dumps({"domainMetadata": domain}))
    with pytest.raises(InvalidRequestError, match="is a clustered table"):
        optimize_table(spark, table, z_order_by=["id"])
    optimize_table(spark, table)
    assert files_by_part(table) == {None: 1} and rows(table) == [(0,), (1,), (2,)]


def test_a_table_with_an_unwritable_feature_is_not_changed(spark, table):
    table.mkdir()
    adds = [{**data_file(table, f"{n}.parquet", id=pa.array([n], pa.int64())), "baseRowId": n} for n in range(2)]
    hand_made(table, schema_json(("id", "long")), adds, features=("icebergCompatV3",))
    log = table / "_delta_log" / f"{0:020}.json"
    log.write_text(log.read_text().replace('"readerFeatures": ["icebergCompatV3"]', '"readerFeatures": []'))
    with pytest.raises(UnsupportedFeatureError, match="icebergCompatV3"):
        optimize_table(spark, table)
    assert DeltaTable(str(table)).version == 0


def test_an_optimize_of_a_mapped_append_only_table_keeps_names_and_field_ids(spark, table):
    """Rows that break a rule by now move all the same; names and ids of columns are those of the table."""
    properties = {"delta.columnMapping.mode": "name", "delta.appendOnly": "true", "delta.randomizeFilePrefixes": "true"}
    query = "SELECT id, 0 AS part, struct(id AS `a.b`) AS s FROM range(0, 4, 1, 4)"
    write_rows(spark, table, query, partition_by=("part",), properties=properties)
    before = versions(table)
    optimize_table(spark, table, z_order_by=["s.`a.b`"])
    assert_all_readers_agree(spark, table, before)
    (add,) = commit(table, 1)["add"]
    physical = DeltaTable(str(table)).schema  # users' names
    assert physical.names == ["id", "part", "s"]
    stored = pq.read_schema(table / add["path"])
    assert all(field.metadata and b"PARQUET:field_id" in field.metadata for field in stored)
    assert stored.names != ["id", "s"]
    assert json.loads(add["tags"]["ZCUBE_ZORDER_BY"])[0].startswith("col-")


def test_partition_values_come_from_the_log_and_not_from_folder_names(spark, tmp_path):
    table = tmp_path / "t"
    table.mkdir()
    odd = "__HIVE_DEFAULT_PARTITION__"
    adds = []
    for name, value in (("a", odd), ("b", odd), ("c", None), ("d", None)):
        pq.write_table(pa.table({"id": [1]}), table / f"{name}.parquet")
        size = (table / f"{name}.parquet").stat().st_size
        adds.append({"path": f"{name}.parquet", "size": size, "partitionValues": {"p": value}})
    hand_made(table, schema_json(("id", "long"), ("p", "string")), adds, ("p",))
    before = rows(table)
    done = optimize_table(spark, table)
    assert (done.metrics["numAddedFiles"], rows(table)) == (2, before)

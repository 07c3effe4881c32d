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
from tests.support.packing import append_small_files, assert_all_readers_agree, file_counts_by_part, rows_by_version
from tests.support.properties import VECTORS
from tests.support.tables import (
    actions_of,
    data_files,
    delete_rows,
    optimize_table,
    rows,
    schema_json,
    without_time,
    write_data_file,
    write_foreign_table,
    write_rows,
)

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]

RUN = "airflow/dag/task/-1/run"


@pytest.fixture
def table(tmp_path):
    return tmp_path / "t"


@pytest.mark.smoke
def test_small_files_are_packed_by_partition_and_the_history_has_the_metrics(spark, table):
    append_small_files(spark, table, properties={"delta.enableChangeDataFeed": "true"})
    rows_before = rows_by_version(table)
    assert file_counts_by_part(table) == {"0": 6, "1": 6}
    result = optimize_table(spark, table, run=RUN)
    assert file_counts_by_part(table) == {"0": 1, "1": 1}
    assert_all_readers_agree(spark, table, rows_before)
    actions = actions_of(table, 3)
    assert len(actions["add"]) == 2 and len(actions["remove"]) == 12 and "cdc" not in actions
    assert not any(action["dataChange"] for action in (*actions["add"], *actions["remove"]))
    assert [json.loads(add["stats"])["numRecords"] for add in actions["add"]] == [15, 15]
    info = actions["commitInfo"]
    assert (info["operation"], info["isolationLevel"]) == ("OPTIMIZE", "SnapshotIsolation")
    assert info["operationParameters"] == {"predicate": "[]", "zOrderBy": "[]", "clusterBy": "[]", "auto": False}
    sizes = sorted(add["size"] for add in actions["add"])
    assert result.metrics == {name: int(value) for name, value in info["operationMetrics"].items()}
    assert without_time(result.metrics) == {
        "numAddedFiles": 2, "numRemovedFiles": 12, "numAddedBytes": sum(sizes),
        "numRemovedBytes": sum(remove["size"] for remove in actions["remove"]), "numDeletionVectorsRemoved": 0,
        "minFileSize": sizes[0], "p25FileSize": sizes[0], "p50FileSize": sizes[0], "p75FileSize": sizes[0],
        "maxFileSize": sizes[1],
    }  # fmt: skip
    assert sum(batch.num_rows for batch in DeltaTable(str(table)).changes(from_version=3, to_version=3)) == 0


def test_a_second_run_packs_nothing_and_a_retry_commits_nothing(spark, table):
    append_small_files(spark, table)
    assert optimize_table(spark, table, run=RUN).committed
    retry = optimize_table(spark, table, run=RUN)
    assert (retry.skipped, retry.version, retry.metrics["numAddedFiles"]) == (True, 3, 2)
    second_run = optimize_table(spark, table, run="another")
    assert (second_run.committed, second_run.version, second_run.metrics["numAddedFiles"]) == (True, 4, 0)
    actions = actions_of(table, 4)
    assert (actions["add"], actions["remove"], actions["txn"]["appId"]) == ([], [], "another")
    result_without_run = optimize_table(spark, table)
    assert (result_without_run.committed, result_without_run.version) == (False, 4)


def test_an_optimize_with_where_packs_only_the_selected_partitions(spark, table):
    append_small_files(spark, table, parts=3)
    rows_before = rows_by_version(table)
    optimize_table(spark, table, where="part IN (0, 2) AND part + 1 > 1")
    assert file_counts_by_part(table) == {"0": 6, "1": 6, "2": 1}
    assert_all_readers_agree(spark, table, rows_before)
    assert json.loads(actions_of(table, 3)["commitInfo"]["operationParameters"]["predicate"]) == [
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
    rows_before = rows_by_version(table)
    optimize_table(spark, table)
    actions = actions_of(table, 2)
    assert [add["partitionValues"]["part"] for add in actions["add"]] == ["1"], (
        "two deleted rows of a hundred are too few"
    )
    assert actions["commitInfo"]["operationMetrics"]["numDeletionVectorsRemoved"] == "1"
    assert_all_readers_agree(spark, table, rows_before)
    optimize_table(spark, table, max_deleted_rows_ratio=0)
    assert_all_readers_agree(spark, table, rows_before)
    assert DeltaTable(str(table)).files()["deletion_vector"].null_count == 3
    assert not optimize_table(spark, table, max_deleted_rows_ratio=0).committed


def test_a_file_without_live_rows_is_only_removed(spark, table):
    table.mkdir()
    (descriptor,) = write_vectors(LocalLogStore(str(table)), [pa.array(range(3), pa.int64())])
    vector = {key: value for key, value in descriptor.items() if value is not None}
    adds = [
        {**write_data_file(table, "a.parquet", id=pa.array([1, 2, 3], pa.int64())), "stats": '{"numRecords":3}',
         "deletionVector": vector},
        {**write_data_file(table, "b.parquet", id=pa.array([4], pa.int64())), "stats": '{"numRecords":1}'},
    ]  # fmt: skip
    write_foreign_table(table, schema_json(("id", "long")), adds, features=("deletionVectors",))
    optimize_table(spark, table)
    actions = actions_of(table, 1)
    assert (actions["add"], [remove["path"] for remove in actions["remove"]]) == ([], ["a.parquet"])
    assert rows(table) == [(4,)]


def test_a_file_with_a_wrong_row_count_of_zero_is_an_error_and_stays(spark, table):
    table.mkdir()
    adds = [{**write_data_file(table, "a.parquet", id=pa.array([1], pa.int64())), "stats": '{"numRecords":0}'}]
    write_foreign_table(table, schema_json(("id", "long")), adds)
    with pytest.raises(
        CorruptDataFileError, match=r"The rows of 1 file of .* log records no live row, but the files have 1 live row\."
    ):
        optimize_table(spark, table)
    assert DeltaTable(str(table)).version == 0 and rows(table) == [(1,)]


def test_a_missing_data_file_is_an_error_that_is_not_retryable(spark, table):
    append_small_files(spark, table)
    (table / min(data_files(table))).unlink()
    with pytest.raises(CorruptDataFileError, match=r"The log of .* names a file that cannot be read") as error_info:
        optimize_table(spark, table)
    assert not error_info.value.retryable
    assert DeltaTable(str(table)).history(limit=1)[0]["operation"] == "WRITE"


@pytest.mark.parametrize("count", [5, 2], ids=["more rows than the file has", "fewer rows than the file has"])
def test_an_optimize_keeps_all_rows_if_the_statistics_have_a_wrong_row_count(spark, table, count):
    table.mkdir()
    stats = f'{{"numRecords":{count}}}'
    adds = [{**write_data_file(table, f"{n}.parquet", id=pa.array([n, n, n], pa.int64())), "stats": stats}
            for n in range(2)]  # fmt: skip
    write_foreign_table(table, schema_json(("id", "long")), adds)
    optimize_table(spark, table)
    assert rows(table) == [(0,)] * 3 + [(1,)] * 3
    assert json.loads(actions_of(table, 1)["add"][0]["stats"])["numRecords"] == 6


def test_an_optimize_that_reads_too_few_rows_is_not_committed(spark, table, monkeypatch):
    append_small_files(spark, table)
    files_before = data_files(table)
    scan_with_row_ids = rearranging.scan_with_row_ids
    scan_without_row_3 = lambda *arguments, **options: scan_with_row_ids(*arguments, **options).where("id <> 3")
    monkeypatch.setattr(rearranging, "scan_with_row_ids", scan_without_row_3)
    with pytest.raises(CorruptDataFileError, match=r"differ from the log: the optimize read 14 rows\."):
        optimize_table(spark, table, run=RUN)
    assert DeltaTable(str(table)).version == 2 and data_files(table) == files_before


def test_many_small_bins_are_one_job_that_writes_a_file_for_each_bin(spark, table):
    """Without the shuffle, Spark could read all bins in one partition and write one file."""
    append_small_files(spark, table, parts=11)
    rows_before = rows_by_version(table)
    assert [job.shuffles for job in rearranging.jobs_for([1] * 11)] == [True]
    optimize_table(spark, table)
    assert set(file_counts_by_part(table).values()) == {1}
    assert_all_readers_agree(spark, table, rows_before)


def test_each_key_is_hashed_to_its_partition_as_in_spark(spark):
    for count in (1, 7, 200):
        keys = rearranging.keys_of_partitions(count)
        frame = spark.createDataFrame(list(enumerate(keys)), "number INT, key INT").repartition(count, "key")
        rows_read = frame.selectExpr("number", "spark_partition_id() AS part").collect()
        assert sorted(number for number, part in rows_read if number == part) == list(range(count))


def test_large_and_small_bins_are_in_different_jobs_of_limited_size():
    large, small = rearranging._LARGE_BIN_BYTES, 1
    jobs = rearranging.jobs_for([large, *[small] * 9, large])
    assert [(job.bins, job.shuffles) for job in jobs] == [((0, 10), False), (tuple(range(1, 10)), True)]
    assert [job.shuffles for job in rearranging.jobs_for([small] * 8)] == [False]
    assert [len(job.bins) for job in rearranging.jobs_for([large] * 101)] == [100, 1]


@pytest.mark.parametrize("options", [{}, {"z_order_by": ["x"]}], ids=["packed", "ordered"])
def test_the_files_of_a_plan_are_in_one_chunk(spark, table, options):
    """Each bin selects its files from `plan.files`, and the time for a selection grows with the number of chunks."""
    append_small_files(spark, table, parts=1)
    snapshot = Snapshot.load(LocalLogStore(str(table)))
    assert snapshot.files_with(tuple(ADD_TYPES))["path"].num_chunks > 1, "the replay returns several chunks"
    plan = plan_for(spark, OptimizeRequest(table=str(table), **options), snapshot)
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
        ({"z_order_by": ["flag"]}, "no bounds for a column of type boolean"),
        ({"z_order_by": ["list"]}, "no bounds for a column of type array"),
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
    with pytest.raises(InvalidRequestError, match=problem) as error_info:
        optimize_table(spark, table, **options)
    assert error_info.value.remedy and DeltaTable(str(table)).version == 0


def test_a_clustered_table_is_packed_and_rejects_a_z_order(spark, table):
    table.mkdir()
    adds = [{**write_data_file(table, f"{n}.parquet", id=pa.array([n], pa.int64())), "stats": '{"numRecords":1}'}
            for n in range(3)]  # fmt: skip
    write_foreign_table(table, schema_json(("id", "long")), adds, features=("clustering", "domainMetadata"))
    log = table / "_delta_log" / f"{0:020}.json"
    domain = {"domain": "delta.clustering", "configuration": '{"clusteringColumns":[["id"]]}', "removed": False}
    log.write_text(log.read_text() + "\n" + json.dumps({"domainMetadata": domain}))
    with pytest.raises(InvalidRequestError, match="is a clustered table"):
        optimize_table(spark, table, z_order_by=["id"])
    optimize_table(spark, table)
    assert file_counts_by_part(table) == {None: 1} and rows(table) == [(0,), (1,), (2,)]


def test_a_table_with_an_unwritable_feature_is_not_changed(spark, table):
    table.mkdir()
    adds = [{**write_data_file(table, f"{n}.parquet", id=pa.array([n], pa.int64())), "baseRowId": n} for n in range(2)]
    write_foreign_table(table, schema_json(("id", "long")), adds, features=("icebergCompatV3",))
    log = table / "_delta_log" / f"{0:020}.json"
    log.write_text(log.read_text().replace('"readerFeatures": ["icebergCompatV3"]', '"readerFeatures": []'))
    with pytest.raises(UnsupportedFeatureError, match="icebergCompatV3"):
        optimize_table(spark, table)
    assert DeltaTable(str(table)).version == 0


@pytest.mark.campaign
def test_an_optimize_of_a_mapped_append_only_table_keeps_names_and_field_ids(spark, table):
    properties = {"delta.columnMapping.mode": "name", "delta.appendOnly": "true", "delta.randomizeFilePrefixes": "true"}
    query = "SELECT id, 0 AS part, struct(id AS `a.b`) AS s FROM range(0, 4, 1, 4)"
    write_rows(spark, table, query, partition_by=("part",), properties=properties)
    rows_before = rows_by_version(table)
    optimize_table(spark, table, z_order_by=["s.`a.b`"])
    assert_all_readers_agree(spark, table, rows_before)
    (add,) = actions_of(table, 1)["add"]
    assert DeltaTable(str(table)).schema.names == ["id", "part", "s"]
    file_schema = pq.read_schema(table / add["path"])
    assert all(field.metadata and b"PARQUET:field_id" in field.metadata for field in file_schema)
    assert file_schema.names != ["id", "s"], "the file has the physical names"
    assert json.loads(add["tags"]["ZCUBE_ZORDER_BY"])[0].startswith("col-")


def test_partition_values_come_from_the_log_and_not_from_folder_names(spark, tmp_path):
    table = tmp_path / "t"
    table.mkdir()
    hive_null = "__HIVE_DEFAULT_PARTITION__"  # in a folder name, this text stands for null
    adds = []
    for name, value in (("a", hive_null), ("b", hive_null), ("c", None), ("d", None)):
        pq.write_table(pa.table({"id": [1]}), table / f"{name}.parquet")
        size = (table / f"{name}.parquet").stat().st_size
        adds.append({"path": f"{name}.parquet", "size": size, "partitionValues": {"p": value}})
    write_foreign_table(table, schema_json(("id", "long"), ("p", "string")), adds, ("p",))
    rows_before = rows(table)
    result = optimize_table(spark, table)
    assert (result.metrics["numAddedFiles"], rows(table)) == (2, rows_before)

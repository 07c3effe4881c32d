"""Tables on HDFS and S3 behave as on a local disk, and a rejected write leaves no file."""

from __future__ import annotations

import json
import time
import uuid
from contextlib import suppress
from urllib.parse import unquote

import deltalake
import pyarrow as pa
import pytest

import deltalite.spark as delta
from deltalite import DeltaTable
from deltalite.commands.checkpoint import checkpoint
from deltalite.errors import ConstraintViolationError, InvalidRequestError, SourceError
from deltalite.protocol.column_mapping import TableSchema
from deltalite.requests import Audit, CheckpointRequest
from deltalite.snapshot import Snapshot
from deltalite.spark.columns.types import from_spark
from deltalite.spark.hadoop.folders import folder_of
from deltalite.spark.hadoop.opening import readable_store, writable_store
from deltalite.spark.large_tables.large_checkpoint import write_large_checkpoint
from deltalite.spark.write import direct_write, staging
from deltalite.spark.write.direct_write import DirectWriteError
from deltalite.spark.write.staging import StagedWrite, WriteLayout
from tests.support.tables import schema_json, sorted_rows, values, write_foreign_table, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]


def rows(spark, table, **options):
    """Return the rows of a version as Spark reads them, in a fixed order."""
    return sorted_rows(tuple(row) for row in delta.read(spark, table, **options).collect())


def file_names(spark, table):
    """Return the names of all files below the table's root."""
    return {file.name for file in folder_of(spark, table).files_below("", but_not_in="nothing")}


def data_file_names(spark, table):
    """Return the names of all files below the table's root outside the log."""
    return {name for name in file_names(spark, table) if "_delta_log" not in name}


def adds_of_commit(spark, table, version):
    """Return the `add` actions of a commit."""
    lines = readable_store(spark, table).read(f"_delta_log/{version:020d}.json").decode().splitlines()
    return [action["add"] for action in map(json.loads, lines) if "add" in action]


@pytest.mark.sample("s3a")
def test_a_write_a_rerun_and_time_travel_work_as_on_a_local_disk(spark, table):
    first = write_rows(spark, table, values("id, day", "1, 'a b/ü%'", "2, 'c'"), run="r1", partition_by=("day",),
                properties={"delta.checkpointInterval": "2"})  # fmt: skip
    assert (first.version, first.committed, first.table) == (0, True, table)
    second = write_rows(spark, table, values("id, day", "3, 'c'"), run="r2")
    assert second.version == 1
    rerun = write_rows(spark, table, values("id, day", "3, 'c'"), run="r2")
    assert (rerun.version, rerun.skipped) == (1, True)
    write_rows(
        spark, table, values("id, day", "20, 'c'"), mode="overwrite", replace_where="day = 'c' AND id = 2 OR id = 20"
    )
    assert rows(spark, table) == [(1, "a b/ü%"), (20, "c"), (3, "c")]
    write_rows(spark, table, values("id, day", "4, 'c'"), mode="overwrite", partition_overwrite="dynamic")
    assert rows(spark, table) == [(1, "a b/ü%"), (4, "c")]
    write_rows(spark, table, values("id, day", "9, null"), mode="overwrite")
    assert rows(spark, table) == [(9, None)]
    assert rows(spark, table, version_as_of=1) == [(1, "a b/ü%"), (2, "c"), (3, "c")]
    assert rows(spark, f"{table}@v0", where="id > 1") == [(2, "c")]
    log_names = {file.name.rpartition("/")[2] for file in readable_store(spark, table).list_from("_delta_log/")}
    assert {"00000000000000000002.checkpoint.parquet", "00000000000000000004.checkpoint.parquet"} <= log_names
    assert not [
        name for name in file_names(spark, table) if "staging" in name or "_temporary" in name or "_spark" in name
    ]
    assert data_file_names(spark, table) == {
        unquote(add["path"]) for v in range(5) for add in adds_of_commit(spark, table, v)
    }


def test_data_files_are_below_a_prefix_folder_on_s3_and_below_the_root_on_hdfs(spark, table):
    write_rows(spark, table, values("id, day", "1, 'a'"), partition_by=("day",))
    (add,) = adds_of_commit(spark, table, 0)
    *prefix, directory, _ = add["path"].split("/")
    assert directory == "day=a"
    assert [len(part) for part in prefix] == ([8] if table.startswith("s3a") else [])


@pytest.mark.sample("s3a")
def test_a_rejected_write_leaves_no_file(spark, table):
    write_rows(spark, table, values("id, day", "1, 'a'"))
    names_before = file_names(spark, table)
    for query, error in (
        ("SELECT CAST(id AS INT) AS id, IF(id = 2, raise_error('no'), 'x') AS day FROM range(0, 4, 1, 4)", SourceError),
        (values("id, day", "7, 'b'"), ConstraintViolationError),
    ):
        with pytest.raises(error):
            write_rows(spark, table, query, mode="overwrite", replace_where="id < 5")
    assert file_names(spark, table) == names_before


def test_a_first_write_that_fails_leaves_no_file(spark, table):
    with pytest.raises(SourceError):
        write_rows(spark, table, "SELECT CAST('x' AS INT) AS id")
    assert file_names(spark, table.removesuffix("/t")) == set()


@pytest.mark.campaign
@pytest.mark.sample("hdfs")
def test_a_write_with_several_files_for_each_task_keeps_all_rows(spark, table):
    write_rows(spark, table, "SELECT id, uuid() AS text FROM range(0, 60000, 1, 3)", max_records_per_file=15_000)
    files = delta.files(spark, table).select("path", "stats").collect()
    assert len(files) == 6 and sum(json.loads(file.stats)["numRecords"] for file in files) == 60_000
    assert delta.read(spark, table).selectExpr("count(DISTINCT id)", "sum(id)").collect() == [(60_000, 1_799_970_000)]


@pytest.mark.campaign
def test_workers_and_delta_rs_read_a_table_on_s3_and_spark_reads_rows_of_delta_rs(spark, s3, s3a):
    table = f"{s3a}/{uuid.uuid4()}/t"
    write_rows(spark, table, values("id, day", "1, 'a b/ü%'", "2, 'c'"), partition_by=("day",), run="r")
    write_rows(spark, table, values("id, day", "3, 'c'"))
    expected = [(1, "a b/ü%"), (2, "c"), (3, "c")]
    address = table.replace("s3a:", "s3:")
    worker_table = DeltaTable(address, storage_options=s3.fsspec_options)
    delta_rs_table = deltalake.DeltaTable(address, storage_options=s3.delta_rs_options)
    for rows_read in (worker_table.to_arrow(), pa.table(delta_rs_table.to_pyarrow_table())):
        assert sorted_rows(zip(*(rows_read[name].to_pylist() for name in ("id", "day")), strict=True)) == expected
    assert delta_rs_table.transaction_version("r") == 0
    added_rows = pa.table({"id": pa.array([4], pa.int32()), "day": ["a b/ü%"]})
    deltalake.write_deltalake(delta_rs_table, added_rows, mode="append")
    assert rows(spark, address) == sorted([*expected, (4, "a b/ü%")])
    assert write_rows(spark, address, "SELECT 5 AS id, 'c' AS day", run="r2").version == 3


def test_spark_reads_a_log_that_names_files_on_other_storages(spark, s3a, hdfs, tmp_path):
    """The log of a shallow clone names files of another table."""
    folders = [f"{s3a}/{uuid.uuid4()}", f"{hdfs}/{uuid.uuid4()}", f"{tmp_path}/here"]
    adds = []
    for number, folder in enumerate(folders):
        write_rows(spark, folder, f"SELECT {number} AS id, 'x' AS text")
        (add,) = adds_of_commit(spark, folder, 0)
        adds.append(add | {"path": f"{folder}/{add['path']}"})
    clone = tmp_path / "clone"
    write_foreign_table(clone, schema_json(("id", "integer"), ("text", "string")), adds)
    assert rows(spark, str(clone)) == [(0, "x"), (1, "x"), (2, "x")]
    assert rows(spark, str(clone), where="id = 1") == [(1, "x")]


@pytest.mark.sample("the class has moved")
@pytest.mark.parametrize("change", ["the class has moved", "the manifest has changed"])
def test_a_write_uses_the_public_writer_if_the_committer_of_spark_has_changed(spark, s3a, monkeypatch, caplog, change):
    def fail(*_arguments, **_options):
        raise DirectWriteError("changed")

    module, name = (staging, "write_directly") if "class" in change else (direct_write, "_uris")
    monkeypatch.setattr(module, name, fail)
    table = f"{s3a}/{uuid.uuid4()}/t"
    write_rows(spark, table, values("id, day", "1, 'a b/ü%'", "2, null"), partition_by=("day",))
    assert rows(spark, table) == [(1, "a b/ü%"), (2, None)]
    assert "through Spark's public API" in caplog.text
    assert data_file_names(spark, table) == {unquote(add["path"]) for add in adds_of_commit(spark, table, 0)}


def test_partition_columns_are_in_the_files_that_spark_writes_in_place(spark, s3a):
    table = f"{s3a}/{uuid.uuid4()}/t"
    properties = {"delta.enableIcebergCompatV2": "true"}
    query = values("id, day", "1, 'a b/ü%='", "2, null", f"3, '{'x' * 300}'")
    write_rows(spark, table, query, partition_by=("day",), properties=properties)
    expected = [(1, "a b/ü%="), (2, None), (3, "x" * 300)]
    assert rows(spark, table) == expected
    adds = adds_of_commit(spark, table, 0)
    rows_in_files = spark.read.parquet(*[f"{table}/{unquote(add['path'])}" for add in adds])
    assert (
        sorted_rows(tuple(row) for row in rows_in_files.drop(*columns_from_folders(rows_in_files)).collect())
        == expected
    )
    assert len(adds) == len(data_file_names(spark, table)) == 3


def columns_from_folders(frame):
    """Return the names of the columns that Spark derives from the names of folders."""
    return [name for name in frame.columns if name.startswith("folder")]


@pytest.mark.campaign
def test_a_write_in_place_keeps_only_the_files_with_good_rows(spark, s3a):
    table, quarantine = f"{s3a}/{uuid.uuid4()}/t", f"{s3a}/{uuid.uuid4()}/bad"
    audits = (Audit(name="ids", rows="id IS NULL", level="quarantine"),)
    query = values("id, day", "1, 'a b/ü%'", "2, null", "null, 'a b/ü%'")
    options = {"audits": audits, "quarantine": quarantine, "partition_by": ("day",)}
    result = write_rows(spark, table, query, run="r", **options)
    assert (rows(spark, table), result.quarantine.rows) == ([(1, "a b/ü%"), (2, None)], 1)
    assert [row[3] for row in rows(spark, quarantine)] == ['{"id":null,"day":"a b/ü%"}']
    assert data_file_names(spark, table) == {unquote(add["path"]) for add in adds_of_commit(spark, table, 0)}
    assert all("/rejected=no/day=" in name for name in data_file_names(spark, table))
    assert write_rows(spark, table, query, run="r", **options).skipped


def test_files_of_failed_tasks_are_not_part_of_the_table(spark, s3a, monkeypatch):
    real_write = staging.write_directly

    def write_and_leave_a_stray_file(frame, uri, **options):
        uris = real_write(frame, uri, **options)
        frame.write.mode("append").option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false").parquet(uri)
        return uris

    monkeypatch.setattr(staging, "write_directly", write_and_leave_a_stray_file)
    table = f"{s3a}/{uuid.uuid4()}/t"
    write_rows(spark, table, "SELECT 1 AS id")
    assert rows(spark, table) == [(1,)]
    assert data_file_names(spark, table) == {add["path"] for add in adds_of_commit(spark, table, 0)}


@pytest.mark.sample("hdfs")
def test_a_killed_first_write_does_not_block_the_next_write(spark, table):
    folder = folder_of(spark, table)
    layout = WriteLayout(partition_columns=())
    with suppress(KeyboardInterrupt), StagedWrite(folder, layout, is_first_write=True) as killed:
        killed.write(spark.range(3), TableSchema(logical=from_spark(spark.range(1).schema)), [])
        killed.keep_all()
        raise KeyboardInterrupt
    assert folder.names() != []
    assert write_rows(spark, table, "SELECT 1 AS id").version == 0
    assert rows(spark, table) == [(1,)]


def test_a_folder_with_other_files_is_rejected(spark, table):
    spark.range(1).write.parquet(f"{table}/other")
    with pytest.raises(InvalidRequestError, match=r"is not a Delta table.*other"):
        write_rows(spark, table, "SELECT 1 AS id")


@pytest.mark.campaign
@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_checkpoints_of_spark_and_of_this_process_have_the_state_of_the_table(spark, table, policy):
    for number in range(2):
        write_rows(spark, table, f"SELECT {number} AS id", properties={"delta.checkpointPolicy": policy})
    snapshot = Snapshot.load(writable_store(spark, table, single_writer=False))
    names_before = file_names(spark, table)
    last_checkpoint = write_large_checkpoint(spark, snapshot, now_ms=time.time_ns() // 1_000_000, actions_per_file=1)
    assert (last_checkpoint.version, last_checkpoint.num_of_add_files) == (1, 2)
    assert not [name for name in file_names(spark, table) - names_before if "_delta_log" not in name]
    assert Snapshot.load(snapshot.store).segment.checkpoint.version == 1
    assert rows(spark, table) == [(0,), (1,)]
    write_rows(spark, table, "SELECT 2 AS id")
    result = checkpoint(spark, CheckpointRequest(table=table))
    assert (result.version, result.skipped) == (2, False)
    assert Snapshot.load(snapshot.store).segment.checkpoint.version == 2
    assert rows(spark, table) == [(0,), (1,), (2,)]


@pytest.mark.campaign
def test_column_mapping_and_the_change_feed_work(spark, table):
    properties = {"delta.columnMapping.mode": "name", "delta.enableChangeDataFeed": "true"}
    write_rows(spark, table, values("`a b`, day", "1, 'x'", "2, 'y'"), properties=properties, partition_by=("day",))
    write_rows(spark, table, values("`a b`, day", "3, 'y'"), mode="overwrite", replace_where="`a b` > 1")
    assert rows(spark, table) == [(1, "x"), (3, "y")]
    changed_rows = delta.changes(spark, table, 1).select("a b", "_change_type").collect()
    assert sorted(tuple(row) for row in changed_rows) == [(2, "delete"), (3, "insert")]


@pytest.mark.campaign
def test_a_table_at_the_root_of_a_bucket_is_written_and_read(spark, s3, s3a):
    s3.client.create_bucket(Bucket="whole")
    write_rows(spark, "s3://whole", values("id, day", "1, 'x'"), partition_by=("day",))
    write_rows(spark, "s3://whole/", values("id, day", "2, 'x'"))
    assert rows(spark, "s3a://whole") == [(1, "x"), (2, "x")]
    assert DeltaTable("s3://whole", storage_options=s3.fsspec_options).to_arrow().num_rows == 2
    assert data_file_names(spark, "s3://whole") == {
        add["path"] for v in (0, 1) for add in adds_of_commit(spark, "s3://whole", v)
    }

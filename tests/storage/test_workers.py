"""A worker lists, reads and polls a table of delta-rs on S3, without Spark."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from deltalite import DeltaTable, watch
from deltalite.conditions import CommitCondition
from deltalite.errors import (
    StorageError,
    StoragePermissionError,
    TableNotFoundError,
    UnsupportedStorageError,
)
from deltalite.requests import RunIdentity
from deltalite.storage.opening import open_store
from tests.support.remote import BUCKET, session_options
from tests.support.submitting import run_job
from tests.support.tables import request

ROWS = pa.table({"id": pa.array(range(20)), "day": ["a b", "ü%"] * 10})


@pytest.fixture
def table(s3):
    """The address of a table of two versions, each of ten rows."""
    address = f"s3://{BUCKET}/{uuid.uuid4()}/t"
    for rows in (ROWS.slice(0, 10), ROWS.slice(10)):
        write_deltalake(address, rows, mode="append", partition_by=["day"], storage_options=s3.delta_rs_options)
    return address


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_a_table_is_read_as_from_a_local_disk(s3, table, scheme):
    s3_table = DeltaTable(table.replace("s3:", f"{scheme}:"), storage_options=s3.fsspec_options)
    assert s3_table.version == 1
    assert s3_table.to_arrow().sort_by("id").equals(ROWS.cast(s3_table.schema))
    assert s3_table.to_arrow(columns=["id"], filter=[("day", "=", "ü%")]).num_rows == 10
    assert [entry["version"] for entry in s3_table.history()] == [1, 0]
    assert DeltaTable(table, version=0, storage_options=s3.fsspec_options).to_arrow().num_rows == 10


def test_a_listing_is_never_cached(s3, table):
    store = open_store(table, storage_options=s3.fsspec_options)
    assert len(list(store.list_from("_delta_log/"))) == 2
    write_deltalake(table, ROWS, mode="append", storage_options=s3.delta_rs_options)
    names = [file.name for file in store.list_from("_delta_log/00000000000000000001.json")]
    assert names == [f"_delta_log/{version:020d}.json" for version in (1, 2)]


def test_an_empty_poll_sends_two_requests(s3, table, monkeypatch):
    store = open_store(table, storage_options=s3.fsspec_options)
    position, requests = watch.position_at(store, 1), []
    send_request = store._fs._call_s3

    async def record_and_send_request(method, *arguments, **options):
        requests.append((method, options["Key"][-6:]))
        return await send_request(method, *arguments, **options)

    monkeypatch.setattr(store._fs, "_call_s3", record_and_send_request)
    assert watch.poll(store, position, CommitCondition()) == watch.PollResult(position=position, match=None)
    assert requests == [("get_object", "2.json"), ("get_object", "1.json")]
    requests.clear()
    result = watch.poll(store, watch.position_at(store, 0), CommitCondition())
    assert result.match.version == 1 and result.position == position
    assert [method for method, _ in requests] == ["get_object"] * 3


def test_a_worker_cannot_write(s3, table):
    store, keys_before = open_store(table, storage_options=s3.fsspec_options), s3.keys()
    for change in (
        lambda: store.write_if_absent("_delta_log/00000000000000000002.json", b"x"),
        lambda: store.write("_delta_log/_last_checkpoint", b"x"),
        lambda: store.delete("_delta_log/00000000000000000001.json"),
    ):
        with pytest.raises(UnsupportedStorageError, match="without Spark"):
            change()
    assert s3.keys() == keys_before


def test_missing_files_denied_access_and_failed_storage_have_different_outcomes(s3, table, monkeypatch):
    store = open_store(table, storage_options=s3.fsspec_options)
    for name in ("nothing", "_delta_log"):
        assert store.read(name) is None and store.read_start(name, 9) is None
    with pytest.raises(FileNotFoundError), store.open("nothing"):
        pass
    with pytest.raises(TableNotFoundError):
        DeltaTable(f"{table}/below", storage_options=s3.fsspec_options)
    reads = (
        lambda: store.read("x"),
        lambda: store.read_start("x", 9),
        lambda: list(store.list_from("x/y")),
        lambda: store.open("x").__enter__(),
    )
    monkeypatch.setattr(
        store._fs, "info", lambda *_: pytest.fail("the store sent a second request after the first had failed")
    )
    for client_error, error_class in (
        (PermissionError("no"), StoragePermissionError),
        (OSError("Forbidden: lake/t\nno"), StoragePermissionError),
        (HttpError(401), StoragePermissionError),
        (HttpError("403"), StoragePermissionError),
        (HttpError(503), StorageError),
        (TimeoutError("late"), StorageError),
    ):
        for method in ("cat_file", "ls", "open"):
            monkeypatch.setattr(store._fs, method, function_that_raises(client_error))
        for read in reads:
            with pytest.raises(error_class) as caught:
                read()
            assert type(caught.value) is error_class


class HttpError(Exception):
    """The error of a client that has no exception types for HTTP status codes."""

    def __init__(self, code) -> None:
        super().__init__("answer of the storage")
        self.code = code


def function_that_raises(error):
    def fail(*_arguments, **_options):
        raise error

    return fail


READ_PROGRAM = """
import json, sys
from deltalite import DeltaTable
print(DeltaTable(sys.argv[1], storage_options=json.loads(sys.argv[2])).to_arrow().num_rows)
"""


def test_a_process_that_read_a_table_exits_with_0_and_prints_no_errors(s3, table):
    process = subprocess.run(
        [sys.executable, "-c", READ_PROGRAM, table, json.dumps(s3.fsspec_options)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (process.returncode, process.stdout.strip(), process.stderr) == (0, "20", "")


@pytest.mark.airflow
def test_the_hook_uses_the_file_system_of_the_airflow_connection(s3, table, monkeypatch):
    from airflow.providers.common.compat.sdk import AirflowNotFoundException

    from airflow_provider_deltalite.hooks.delta import DeltaHook
    from airflow_provider_deltalite.waiting import VersionWait, poll_table
    from deltalite.conditions import LogPosition

    monkeypatch.setenv("AIRFLOW_CONN_LAKE_S3", json.dumps(s3.airflow_connection()))
    for address in (table, table.replace("s3:", "s3a:")):
        commits = list(DeltaHook(address, "lake_s3").get_conn().list_from("_delta_log/"))
        assert len(commits) == 2 and all(file.size_bytes > 0 for file in commits)
        wait = VersionWait(
            table=address, after_version=0, condition=CommitCondition(operations=("WRITE",)), storage_conn_id="lake_s3"
        )
        hook = DeltaHook(address, "lake_s3")
        assert poll_table(wait, LogPosition(version=0), hook).xcom["version"] == 1
        assert poll_table(wait, LogPosition(version=1), hook).xcom is None
    with pytest.raises(AirflowNotFoundException, match="no Airflow connection 'other'"):
        DeltaHook(table, "other").get_conn()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.campaign
def test_a_job_that_is_submitted_twice_writes_to_s3_once(s3, tmp_path):
    address = f"s3://{BUCKET}/{uuid.uuid4()}/t"
    write_request = request(address, "SELECT 1 AS id", run="r")
    jobs = [run_job(tmp_path, write_request, conf=session_options(s3.hadoop_options)) for _ in range(2)]
    assert [job.code for job in jobs] == [0, 0], jobs[-1].errors
    assert [(job.marker.table, job.marker.version, job.marker.skipped) for job in jobs] == [
        (address, 0, False),
        (address, 0, True),
    ]
    assert DeltaTable(address, storage_options=s3.fsspec_options).to_arrow().to_pylist() == [{"id": 1}]
    assert watch.find_run(open_store(address, storage_options=s3.fsspec_options), RunIdentity(app_id="r")).version == 0

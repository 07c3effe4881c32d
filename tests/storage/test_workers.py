"""Tables on S3 from a worker, without Spark: it lists, reads and polls a table that another engine wrote."""

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
from tests.support.submitting import submit
from tests.support.tables import request

ROWS = pa.table({"id": pa.array(range(20)), "day": ["a b", "ü%"] * 10})


@pytest.fixture
def table(s3):
    """The address of a table of two versions, each of ten rows."""
    address = f"s3://{BUCKET}/{uuid.uuid4()}/t"
    for part in (ROWS.slice(0, 10), ROWS.slice(10)):
        write_deltalake(address, part, mode="append", partition_by=["day"], storage_options=s3.delta_rs_options)
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
    place, asked = watch.position_at(store, 1), []
    call = store._fs._call_s3

    async def counted(method, *arguments, **options):
        asked.append((method, options["Key"][-6:]))
        return await call(method, *arguments, **options)

    monkeypatch.setattr(store._fs, "_call_s3", counted)
    assert watch.poll(store, place, CommitCondition()) == watch.PollResult(position=place, match=None)
    assert asked == [("get_object", "2.json"), ("get_object", "1.json")]
    asked.clear()
    result = watch.poll(store, watch.position_at(store, 0), CommitCondition())
    assert result.match.version == 1 and result.position == place
    assert [method for method, _ in asked] == ["get_object"] * 3


def test_a_worker_cannot_write(s3, table):
    store, before = open_store(table, storage_options=s3.fsspec_options), s3.keys()
    for change in (
        lambda: store.write_if_absent("_delta_log/00000000000000000002.json", b"x"),
        lambda: store.write("_delta_log/_last_checkpoint", b"x"),
        lambda: store.delete("_delta_log/00000000000000000001.json"),
    ):
        with pytest.raises(UnsupportedStorageError, match="without Spark"):
            change()
    assert s3.keys() == before


def test_a_missing_a_denied_and_a_silent_storage_have_different_errors(s3, table, monkeypatch):
    store = open_store(table, storage_options=s3.fsspec_options)
    for name in ("nothing", "_delta_log"):
        assert store.read(name) is None and store.read_start(name, 9) is None
    with pytest.raises(FileNotFoundError), store.open("nothing"):
        pass
    with pytest.raises(TableNotFoundError):
        DeltaTable(f"{table}/below", storage_options=s3.fsspec_options)
    looks = (
        lambda: store.read("x"),
        lambda: store.read_start("x", 9),
        lambda: list(store.list_from("x/y")),
        lambda: store.open("x").__enter__(),
    )
    monkeypatch.setattr(store._fs, "info", lambda *_: pytest.fail("a second request where the first has failed"))
    for raised, error in (
        (PermissionError("no"), StoragePermissionError),
        (OSError("Forbidden: lake/t\nno"), StoragePermissionError),
        (HttpError(401), StoragePermissionError),
        (HttpError("403"), StoragePermissionError),
        (HttpError(503), StorageError),
        (TimeoutError("late"), StorageError),
    ):
        for method in ("cat_file", "ls", "open"):
            monkeypatch.setattr(store._fs, method, raising(raised))
        for look in looks:
            with pytest.raises(error) as caught:
                look()
            assert type(caught.value) is error


class HttpError(Exception):
    """As clients raise them that have no types for what storage says."""

    def __init__(self, code) -> None:
        super().__init__("said by the storage")
        self.code = code


def raising(error):
    def refuse(*_arguments, **_options):
        raise error

    return refuse


READ = """
import json, sys
from deltalite import DeltaTable, watch
from deltalite.conditions import CommitCondition
print(DeltaTable(sys.argv[1], storage_options=json.loads(sys.argv[2])).to_arrow().num_rows)
"""


def test_a_process_that_has_read_exits_with_0(s3, table):
    process = subprocess.run(
        [sys.executable, "-c", READ, table, json.dumps(s3.fsspec_options)], capture_output=True, text=True, check=False
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
        assert [f.size_bytes > 0 for f in DeltaHook(address, "lake_s3").get_conn().list_from("_delta_log/")] == [
            True
        ] * 2
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
def test_a_submitted_job_writes_to_s3_and_prints_one_result(s3, tmp_path):
    address = f"s3://{BUCKET}/{uuid.uuid4()}/t"
    asked = request(address, "SELECT 1 AS id", run="r")
    done = [submit(tmp_path, asked, conf=session_options(s3.hadoop_options)) for _ in range(2)]
    assert [ended.code for ended in done] == [0, 0], done[-1].errors
    assert [(d.marker.table, d.marker.version, d.marker.skipped) for d in done] == [
        (address, 0, False),
        (address, 0, True),
    ]
    assert DeltaTable(address, storage_options=s3.fsspec_options).to_arrow().to_pylist() == [{"id": 1}]
    assert watch.find_run(open_store(address, storage_options=s3.fsspec_options), RunIdentity(app_id="r")).version == 0

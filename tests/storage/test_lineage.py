"""The lineage of a task whose table is on S3. Like OpenLineage's listener, the test reads it in a forked process."""

from __future__ import annotations

import json
import os
import select
import uuid

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from airflow_provider_deltalite.hooks.delta import DeltaHook
from airflow_provider_deltalite.operators.delta import DeltaDeleteOperator
from deltalite import watch
from deltalite.results import OperationResult
from tests.support.remote import BUCKET

pytestmark = pytest.mark.airflow


def call_in_fork(function) -> str:
    """Call a function in a forked process. Returns its text, its error, or "no answer" after 60 seconds."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write_end, function().encode())
        except BaseException as error:  # noqa: BLE001  the child must not continue the test run
            os.write(write_end, repr(error).encode())
        finally:
            os._exit(0)
    os.close(write_end)
    has_answer = bool(select.select([read_end], [], [], 60)[0])
    answer = os.read(read_end, 10_000).decode() if has_answer else "no answer"
    os.close(read_end)
    if not has_answer:
        os.kill(pid, 9)
    os.waitpid(pid, 0)
    return answer


@pytest.mark.parametrize("conn_id", ["lake_of_lineage", None])
def test_the_schema_is_read_in_a_forked_process(s3, monkeypatch, conn_id):
    options = s3.fsspec_options
    monkeypatch.setenv("AIRFLOW_CONN_LAKE_OF_LINEAGE", json.dumps(s3.airflow_connection()))
    for name, option in (("ACCESS_KEY_ID", "key"), ("SECRET_ACCESS_KEY", "secret"), ("ENDPOINT_URL", "endpoint_url")):
        monkeypatch.setenv(f"AWS_{name}", options[option])
    address = f"s3://{BUCKET}/{uuid.uuid4()}/t"
    write_deltalake(address, pa.table({"id": [1]}), storage_options=s3.delta_rs_options)
    task = DeltaDeleteOperator(task_id="t", table=address, condition="a", storage_conn_id=conn_id)
    # This read opens a file system, and the forked process cannot use it.
    assert watch.latest_version(DeltaHook(address, conn_id).get_conn()) == 0
    task._result = OperationResult(
        table=address,
        operation="DELETE",
        version=0,
        read_version=0,
        committed=True,
        skipped=False,
        app_id="a",
        txn_version=0,
        timestamp=1,
    )

    def columns() -> str:
        (output,) = task.get_openlineage_facets_on_complete(None).outputs
        return json.dumps([field.name for field in output.facets["schema"].fields])

    assert call_in_fork(columns) == '["id"]'

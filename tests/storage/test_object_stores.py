"""Real object stores: races of writers and of two engines, long logs, and a table from its creation to its vacuum.

The servers are programs for production use, or their vendors' emulators, which `scripts/object_stores/build.sh` builds.
"""

from __future__ import annotations

import json
import uuid
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import deltalake
import pyarrow as pa
import pytest

import deltalite.spark as delta
from deltalite import DeltaTable, watch
from deltalite.commands.common.committing import now_ms
from deltalite.commands.vacuum import vacuum
from deltalite.conditions import CommitCondition
from deltalite.protocol.file_names import commit_name
from deltalite.protocol.properties import DAY_MS
from deltalite.requests import VacuumRequest
from deltalite.snapshot import Snapshot
from deltalite.spark.hadoop.opening import readable_store, writable_store
from deltalite.storage.opening import open_store
from tests.support.google_storage import GoogleStorage
from tests.support.http_proxy import http_proxy
from tests.support.merging import merge_into
from tests.support.tables import (
    delete_rows,
    optimize_table,
    schema_json,
    sorted_rows,
    values,
    write_foreign_table,
    write_rows,
)

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.campaign, pytest.mark.interop]

WRITERS = 16
VERSIONS = 20


def worker_store(bucket, name):
    """Return the store of a table as a worker opens it."""
    return open_store(f"{bucket.worker_root}/{name}", storage_options=bucket.fsspec_options)


def test_exactly_one_of_sixteen_writers_creates_each_version(spark, real_bucket):
    all_started = Barrier(WRITERS)

    def put_each_version(number):
        """Try to create each version, and return the created ones."""
        store = writable_store(spark, f"{real_bucket.spark_root}/t", single_writer=False)
        created = []
        for version in range(VERSIONS):
            all_started.wait()
            if store.write_if_absent(commit_name(version), content_of(number)):
                created.append(version)
        return created

    def content_of(number):
        return f"{number:02}".encode() * 5_000

    with ThreadPoolExecutor(WRITERS) as pool:
        created_versions = list(pool.map(put_each_version, range(WRITERS)))
    assert sorted(version for versions in created_versions for version in versions) == list(range(VERSIONS))
    store = worker_store(real_bucket, "t")
    for number, versions in enumerate(created_versions):
        for version in versions:
            assert store.read(commit_name(version)) == content_of(number)
    listed_names = [file.name for file in store.list_from("_delta_log/")]
    assert listed_names == [commit_name(version) for version in range(VERSIONS)], "no temporary or probe file is left"


def test_tasks_and_delta_rs_append_at_the_same_time_and_keep_every_row_once(spark, real_bucket):
    if isinstance(real_bucket, GoogleStorage):
        pytest.skip("The emulator of Google Cloud Storage does not have the requests by which delta-rs writes.")
    table, appends = f"{real_bucket.spark_root}/t", 12
    write_rows(spark, table, "SELECT -1L AS id, 'first' AS engine")

    def append_by_task(number):
        query = f"SELECT {number}L AS id, 'task' AS engine"
        return write_rows(spark, table, query, run=f"task-{number}").version

    def append_by_delta_rs(number):
        rows = pa.table({"id": pa.array([number], pa.int64()), "engine": ["delta-rs"]})
        address, options = f"{real_bucket.delta_rs_root}/t", real_bucket.delta_rs_options
        deltalake.write_deltalake(address, rows, mode="append", storage_options=options)

    with ThreadPoolExecutor(4) as pool:
        tasks = [pool.submit(append_by_task, number) for number in range(appends)]
        delta_rs_appends = [pool.submit(append_by_delta_rs, number) for number in range(appends)]
        task_versions = [task.result() for task in tasks]
        for delta_rs_append in delta_rs_appends:
            delta_rs_append.result()
    expected = sorted([(-1, "first"), *((number, name) for number in range(appends) for name in ("task", "delta-rs"))])
    assert sorted(tuple(row) for row in delta.read(spark, table).collect()) == expected
    worker_table = DeltaTable(f"{real_bucket.worker_root}/t", storage_options=real_bucket.fsspec_options)
    assert sorted(tuple(row.values()) for row in worker_table.to_arrow().to_pylist()) == expected
    engines = engine_of_each_version(spark, table)
    assert len(engines) == 2 * appends + 1
    assert {version for version, engine in engines.items() if engine.startswith("deltalite")} == {0, *task_versions}
    assert 0 < task_versions[0] < 2 * appends, "The two engines did not write concurrently."


def engine_of_each_version(spark, table):
    """Return the name of the engine of each commit."""
    store, engines = readable_store(spark, table), {}
    for file in store.list_from("_delta_log/"):
        if file.name.endswith(".json"):
            actions = map(json.loads, store.read(file.name).splitlines())
            info = next(action["commitInfo"] for action in actions if "commitInfo" in action)
            engines[int(file.name[-25:-5])] = info.get("engineInfo", info.get("clientVersion", ""))
    return engines


def test_a_table_is_written_merged_optimized_and_vacuumed(spark, real_bucket):
    table = f"{real_bucket.spark_root}/folder/t"
    write_rows(spark, table, values("id, day", "1, 'a b/ü%'", "2, 'c'", "3, 'c'"), partition_by=("day",),
               properties={"delta.checkpointInterval": "3"})  # fmt: skip
    merge_into(spark, table, values("id, day", "2, 'c'", "4, 'd'"), "target.id = source.id", matched=[{"delete": True}],
               inserts=[{"insert": "*"}])  # fmt: skip
    delete_rows(spark, table, "id = 3")
    write_rows(spark, table, values("id, day", "5, 'd'"))
    optimize_table(spark, table)
    expected = [(1, "a b/ü%"), (4, "d"), (5, "d")]
    result = vacuum(spark, VacuumRequest(table=table), clock_ms=lambda: now_ms() + 8 * DAY_MS)
    assert result.metrics["numDeletedFiles"] > 0
    assert sorted_rows(tuple(row) for row in delta.read(spark, table).collect()) == expected
    snapshot = Snapshot.load(readable_store(spark, table))
    assert snapshot.segment.checkpoint is not None
    worker_table = DeltaTable(f"{real_bucket.worker_root}/folder/t", storage_options=real_bucket.fsspec_options)
    assert sorted_rows(tuple(row.values()) for row in worker_table.to_arrow().to_pylist()) == expected
    assert (worker_table.version, len(worker_table.history())) == (snapshot.version, snapshot.version + 1)


@pytest.mark.parametrize("count", [3_000, 100_000])
def test_a_log_of_many_objects_is_listed_in_order_and_polled_by_a_worker_with_two_requests(
    spark, large_bucket, count, tmp_path
):
    bucket, name = large_bucket, str(uuid.uuid4())
    table = f"{bucket.spark_root}/{name}"
    write_foreign_table(tmp_path, schema_json(("id", "long")), [])
    first_commit = (tmp_path / commit_name(0)).read_bytes()
    info = b'{"commitInfo":{"operation":"WRITE","timestamp":1}}\n'
    contents = {commit_name(version): info for version in range(1, count)} | {commit_name(0): first_commit}
    bucket.put_objects({f"{name}/{commit}": content for commit, content in contents.items()})
    expected_names = [commit_name(version) for version in range(count)]
    with http_proxy(bucket.port) as proxy:
        stores = (worker_store(bucket.through(proxy.port), name), readable_store(spark, table))
        for store, request_count in zip(stores, (2, 0), strict=True):
            listed_names = [file.name for file in store.list_from("_delta_log/") if file.name.endswith(".json")]
            assert listed_names == expected_names
            assert [file.name for file in store.list_from(commit_name(count - 2))] == expected_names[-2:]
            assert watch.latest_version(store) == count - 1
            position = watch.position_at(store, count - 1)
            with proxy.recording() as poll_requests:
                assert watch.poll(store, position, CommitCondition()).match is None
            assert len(poll_requests) == request_count, "only the worker's store connects through the proxy"
            assert store.read(commit_name(0)) == first_commit

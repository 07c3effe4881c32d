"""The datasets of a request and its result: their OpenLineage names, their versions and their row and file counts."""

from __future__ import annotations

import pytest
from airflow.sdk import Asset

from airflow_provider_deltalite.assets.delta import asset_uri
from airflow_provider_deltalite.hooks.delta import DeltaHook
from airflow_provider_deltalite.lineage.assets import asset_name
from airflow_provider_deltalite.lineage.edges import Statistics, edges_of
from airflow_provider_deltalite.lineage.naming import DatasetName, dataset_name, folder_before_pattern
from airflow_provider_deltalite.sensors.delta import DeltaVersionSensor
from deltalite import watch
from deltalite.requests import (
    Audit,
    CheckpointRequest,
    ConvertRequest,
    CopyRequest,
    DeleteRequest,
    GenerateManifestRequest,
    MergeClause,
    MergeRequest,
    OptimizeRequest,
    RestoreRequest,
    ScdRequest,
    Source,
    UpdateRequest,
    VacuumRequest,
    WriteRequest,
)
from deltalite.results import OperationResult, QuarantineResult
from deltalite.storage.local import LocalLogStore


def result(**changes) -> OperationResult:
    fields = {
        "table": "/t",
        "operation": "ANY",
        "version": 4,
        "read_version": 3,
        "committed": True,
        "skipped": False,
        "app_id": "a",
        "txn_version": 0,
        "timestamp": 5,
    }
    return OperationResult(**{**fields, **changes})


@pytest.mark.parametrize(
    ("address", "namespace", "name"),
    [
        ("/lake/orders", "file", "/lake/orders"),
        ("/lake//orders/", "file", "/lake/orders"),
        ("file:/lake/orders", "file", "/lake/orders"),
        ("file:///lake/orders/", "file", "/lake/orders"),
        ("s3://bucket/lake/orders/", "s3://bucket", "lake/orders"),
        ("s3a://bucket/lake/orders", "s3://bucket", "lake/orders"),
        ("s3://key:secret@bucket/lake", "s3://bucket", "lake"),
        ("s3://bucket", "s3://bucket", "/"),
        ("gcs://bucket/orders", "gs://bucket", "orders"),
        ("abfss://lake@account.dfs.core.windows.net/a/b", "abfss://lake@account.dfs.core.windows.net", "/a/b"),
        ("hdfs://name:9000/lake/orders", "hdfs://name:9000", "/lake/orders"),
        ("hdfs:///lake/orders", "hdfs", "/lake/orders"),
    ],
)
def test_a_table_is_one_dataset_for_every_spelling_of_its_address(address, namespace, name):
    assert dataset_name(address) == DatasetName(namespace=namespace, name=name)


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("/landing/2026-01-01/*.csv", "/landing/2026-01-01/"),
        ("/landing/day=[12]/x", "/landing/"),
        ("s3://b/in/{a,b}/c", "s3://b/in/"),
        ("/landing/a.csv", "/landing/a.csv"),
    ],
)
def test_a_pattern_of_files_is_named_by_the_folder_before_its_first_wildcard(path, folder):
    assert folder_before_pattern(path) == folder


def test_sources_are_inputs_and_delta_sources_have_their_version():
    sources = {
        "raw": Source(format="CSV", path="s3a://in/day/*.csv"),
        "pinned": Source(format="delta", path="/t1", version_as_of=3),
        "at_path": Source(format="delta", path="/t2@v5"),
        "as_of": Source(format="delta", path="/t3", timestamp_as_of="2026-01-01"),
        "feed": Source(format="delta", path="/t4", changes_from_version=1, changes_to_version=7),
        "service": Source(format="kafka", options={"topic": "x"}),
        "odd": Source(format="text", path=" "),
    }
    request = WriteRequest(table="/t", sources=sources, query="SELECT 1")
    edges_before_job = edges_of(request)
    edges_after_job = edges_of(request, result(source_versions={"as_of": 9, "at_path": 5}))
    assert [(edge.name.name, edge.file_format, edge.version) for edge in edges_after_job.inputs] == [
        ("day", "csv", None),
        ("/t1", "delta", 3),
        ("/t2", "delta", 5),
        ("/t3", "delta", 9),
        ("/t4", "delta", 7),
    ]
    assert edges_before_job.inputs[3].version is None
    (output_before_job,), (output_after_job,) = edges_before_job.outputs, edges_after_job.outputs
    assert output_before_job.name == output_after_job.name == dataset_name("/t")
    assert (output_before_job.version, output_after_job.version) == (None, 4)


def test_a_quarantine_table_is_an_output_with_the_rows_of_the_run():
    copy_request = CopyRequest(table="/t", source=Source(format="csv", path="/in"), quarantine="/bad")
    audits = (Audit(name="a", rows="x", level="quarantine"),)
    common = {"table": "/t", "sources": SOURCES, "quarantine": "/bad", "audits": audits}
    requests = (
        copy_request,
        WriteRequest(**common),
        MergeRequest(on="x", when_not_matched=INSERT_CLAUSES, **common),
        ScdRequest(keys=("x",), sequence_by="y", **common),
    )
    quarantine = QuarantineResult(table="/bad", version=7, rows=2)
    for operation_result, version, statistics in (
        (None, None, None),
        (result(quarantine=quarantine), 7, Statistics(rows=2)),
        (result(quarantine=quarantine, committed=False, skipped=True), 7, None),
        (result(quarantine=QuarantineResult(table="/bad", version=None, rows=0)), None, None),
    ):
        for request in requests:
            edge = edges_of(request, operation_result).outputs[1]
            assert (edge.name.name, edge.version, edge.statistics) == ("/bad", version, statistics)


SOURCES = {"source": Source(format="csv", path="/in")}
INSERT_CLAUSES = (MergeClause(insert="*"),)


@pytest.mark.parametrize(
    ("operation_request", "metrics", "statistics"),
    [
        (
            WriteRequest(table="/t", sources=SOURCES),
            {"numOutputRows": 1, "numOutputBytes": 2, "numFiles": 3},
            Statistics(rows=1, size_bytes=2, files=3),
        ),
        (
            CopyRequest(table="/t", source=SOURCES["source"]),
            {"numOutputRows": 1, "numOutputBytes": 2, "numFiles": 3},
            Statistics(rows=1, size_bytes=2, files=3),
        ),
        (
            MergeRequest(table="/t", sources=SOURCES, on="a = b", when_not_matched=INSERT_CLAUSES),
            {"numOutputRows": 1, "numTargetBytesAdded": 2, "numTargetFilesAdded": 3},
            Statistics(rows=1, size_bytes=2, files=3),
        ),
        (
            ScdRequest(table="/t", sources=SOURCES, keys=("id",), sequence_by="day"),
            {"numOutputRows": 1, "numTargetBytesAdded": 2, "numTargetFilesAdded": 3},
            Statistics(rows=1, size_bytes=2, files=3),
        ),
        (
            UpdateRequest(table="/t", set={"a": "1"}),
            {"numUpdatedRows": 1, "numCopiedRows": 4, "numAddedBytes": 2, "numAddedFiles": 3},
            Statistics(rows=5, size_bytes=2, files=3),
        ),
        (
            DeleteRequest(table="/t", condition="a"),
            {"numDeletedRows": 9, "numCopiedRows": 4, "numAddedBytes": 2, "numAddedFiles": 3},
            Statistics(rows=4, size_bytes=2, files=3),
        ),
        (
            OptimizeRequest(table="/t"),
            {"numAddedBytes": 2, "numAddedFiles": 3},
            Statistics(size_bytes=2, files=3),
        ),
        (
            RestoreRequest(table="/t", version=1),
            {"numRestoredFiles": 3, "restoredFilesSize": 2},
            Statistics(size_bytes=2, files=3),
        ),
        (ConvertRequest(table="/t"), {"numConvertedFiles": 3}, Statistics(files=3)),
        (VacuumRequest(table="/t"), {"numDeletedFiles": 3}, None),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_only_the_committing_run_reports_the_written_rows(operation_request, metrics, statistics):
    (output,) = edges_of(operation_request, result(metrics=metrics)).outputs
    (skipped_output,) = edges_of(operation_request, result(metrics=metrics, committed=False, skipped=True)).outputs
    assert (output.version, output.statistics) == (4, statistics)
    assert (skipped_output.version, skipped_output.statistics) == (4, None)


@pytest.mark.parametrize(
    "operation_request",
    [CheckpointRequest(table="/t"), GenerateManifestRequest(table="/t"), VacuumRequest(table="/t", dry_run=True)],
    ids=lambda operation_request: operation_request.kind,
)
def test_an_operation_without_a_new_version_has_the_table_as_input(operation_request):
    edges = edges_of(operation_request, result(committed=False))
    assert [(edge.name.name, edge.version) for edge in edges.inputs] == [("/t", 4)] and edges.outputs == ()


@pytest.mark.parametrize(
    ("options", "read_version", "lifecycle_change"),
    [
        ({}, None, "CREATE"),
        ({}, 3, None),
        ({"mode": "overwrite"}, 3, "OVERWRITE"),
        ({"mode": "overwrite", "replace_where": "a"}, 3, None),
        ({"mode": "overwrite", "partition_overwrite": "dynamic"}, 3, None),
    ],
)
def test_a_created_or_replaced_table_has_its_lifecycle_change(options, read_version, lifecycle_change):
    request = WriteRequest(table="/t", sources=SOURCES, **options)
    assert edges_of(request, result(read_version=read_version)).outputs[0].lifecycle == lifecycle_change
    assert edges_of(request, result(read_version=read_version, committed=False)).outputs[0].lifecycle is None


@pytest.mark.parametrize("address", ["/lake/orders", "file:/lake//orders/", "s3://lake/orders/", "hdfs://n:1/orders"])
def test_the_asset_of_a_table_is_the_dataset_of_the_table(address):
    assert asset_name(Asset(name="orders", uri=asset_uri(address)).uri) == dataset_name(address)


@pytest.mark.parametrize("uri", ["postgres://host/db/schema/table", "orders", "x-team://orders", "s3://"])
def test_an_asset_without_a_storage_address_has_no_dataset(uri):
    assert asset_name(uri) is None


def test_the_columns_of_a_version_have_their_types_members_and_comments(table):
    table.create()
    schema = (
        '{"type":"struct","fields":[{"name":"s","type":{"type":"struct","fields":[{"name":"m","type":"decimal(5,2)",'
        '"nullable":true,"metadata":{}}]},"nullable":true,"metadata":{"comment":"why"}}]}'
    )
    table.commit(
        1,
        {
            "metaData": {
                "id": "0b6d0a9e-7c5d-4d57-9a53-3c3b1d3c0f10",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": schema,
                "partitionColumns": [],
                "configuration": {},
            }
        },
    )
    store = LocalLogStore(str(table))
    (old_column,), (new_column,) = watch.columns_at(store, 0), watch.columns_at(store, 1)
    assert (old_column.name, old_column.type, old_column.members) == ("id", "bigint", ())
    assert (new_column.name, new_column.type, new_column.comment) == ("s", "struct", "why")
    assert [(member.name, member.type) for member in new_column.members] == [("m", "decimal(5,2)")]


@pytest.fixture
def collected_assets(monkeypatch):
    """The pairs (URI, extra) of the assets that hooks report to Airflow's lineage collector."""
    from airflow.providers.common.compat.lineage import hook

    assets = []

    class Collector:
        def add_input_asset(self, context, *, uri, asset_extra):
            assets.append((uri, asset_extra))

    monkeypatch.setattr(hook, "get_hook_lineage_collector", Collector)
    return assets


def test_a_table_that_a_task_reads_through_the_hook_is_collected_with_its_version(table, collected_assets):
    table.create()
    table.commit(1)
    hook = DeltaHook(f"file:{table}/")
    assert [hook.get_table(version=0).version, hook.get_table().version] == [0, 1]
    assert collected_assets == [(f"file://{table}", {"version": 0}), (f"file://{table}", {"version": 1})]


def test_the_version_that_a_sensor_found_is_collected_in_both_modes(table, collected_assets, context):
    table.create(table.add())
    sensor = DeltaVersionSensor(task_id="wait", table=str(table), after_version=-1)
    version = sensor.poke(context).xcom_value
    deferred_sensor = DeltaVersionSensor(task_id="wait", table=str(table), after_version=-1, deferrable=True)
    deferred_sensor.execute_complete(context, {"status": "success", "result": version})
    assert collected_assets == [(f"file://{table}", {"version": 0})] * 2


def test_a_collector_that_refuses_the_asset_fails_no_task(table, monkeypatch, context):
    from airflow.providers.common.compat.lineage import hook

    def refuse():
        raise ValueError("no such asset")

    monkeypatch.setattr(hook, "get_hook_lineage_collector", refuse)
    table.create(table.add())
    assert DeltaVersionSensor(task_id="wait", table=str(table), after_version=-1).poke(context).is_done

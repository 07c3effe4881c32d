"""`drop_features` removes type widening from a table, so that clients without the feature can use the table."""

from __future__ import annotations

import json
import shutil

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable as DeltaRsTable

from deltalite import DeltaTable
from deltalite.commands.restore.command import restore
from deltalite.commands.table import command, feature_drop
from deltalite.commands.table.command import define_table
from deltalite.errors import InvalidRequestError, StorageError
from deltalite.protocol.file_names import checkpoint_name
from deltalite.requests import RestoreRequest, RunIdentity, TableRequest
from tests.support.tables import (
    actions_of,
    delete_rows,
    folder_content,
    optimize_table,
    rows,
    spark_rows,
    update_rows,
    write_rows,
)

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]

WIDENING = {"delta.enableTypeWidening": "true"}
PROTECTED_VERSION = "delta.requireCheckpointProtectionBeforeVersion"


def drop(spark, table, *features, run=None, **parameters):
    """Drop features, by default type widening; `run` is the app id."""
    identity = None if run is None else RunIdentity(app_id=run)
    names = features or ("typeWidening",)
    return define_table(spark, TableRequest(table=str(table), drop_features=names, identity=identity, **parameters))


def types_in_files(table):
    """The Arrow types of the column `id` in the files of the newest version, sorted."""
    (name,) = {f["metadata"].get("delta.columnMapping.physicalName", "id") for f in fields(table) if f["name"] == "id"}
    return sorted(str(pq.read_schema(table / path).field(name).type) for path in paths(table))


def paths(table):
    return DeltaTable(str(table)).files()["path"].to_pylist()


def fields(table):
    return json.loads(DeltaTable(str(table)).metadata.schema_string)["fields"]


@pytest.fixture(scope="module")
def widened_template(spark, tmp_path_factory):
    """A table with two files of INT and one file of BIGINT."""
    table = tmp_path_factory.mktemp("template") / "t"
    write_rows(spark, table, "SELECT 1 AS id, 'a' AS part", partition_by=("part",), properties=WIDENING)
    write_rows(spark, table, "SELECT 2 AS id, '' AS part")
    write_rows(spark, table, "SELECT 3000000000L AS id, 'a' AS part", merge_schema=True)
    assert types_in_files(table) == ["int32", "int32", "int64"]
    return table


@pytest.fixture
def widened_table(widened_template, tmp_path):
    """A copy of the template."""
    return shutil.copytree(widened_template, tmp_path / "t")


ROWS = [(1, "a"), (2, None), (3_000_000_000, "a")]


def test_the_files_get_the_newest_types_and_the_protocol_loses_the_feature(spark, widened_table):
    result = drop(spark, widened_table)
    assert (result.operation, result.metrics["numRewrittenFiles"]) == ("ALTER TABLE", 2)
    assert types_in_files(widened_table) == ["int64", "int64", "int64"]
    assert rows(widened_table) == spark_rows(spark, widened_table) == ROWS
    protocol = DeltaTable(str(widened_table)).protocol
    assert (protocol.min_reader_version, protocol.reader_features) == (1, None)
    assert set(protocol.writer_features) == {"appendOnly", "checkpointProtection", "invariants"}
    configuration = DeltaTable(str(widened_table)).metadata.configuration
    assert configuration == {PROTECTED_VERSION: str(result.version)}
    assert "typeChanges" not in DeltaTable(str(widened_table)).metadata.schema_string
    info = actions_of(widened_table, result.version)["commitInfo"]
    assert json.loads(info["operationParameters"]["droppedFeatures"]) == ["typeWidening"]


def test_four_checkpoints_protect_the_history_before_the_drop(spark, widened_table):
    drop_version = drop(spark, widened_table).version
    barriers = range(drop_version - feature_drop.BARRIER_COUNT, drop_version)
    for version in barriers:
        assert actions_of(widened_table, version)["commitInfo"]["operation"] == "Empty Commit"
    for version in (*barriers, drop_version):
        assert (widened_table / checkpoint_name(version)).exists()
        assert not actions_of(widened_table, version)["add"]


def test_delta_rs_reads_the_table_after_the_drop_and_this_library_still_writes_it(spark, widened_table):
    drop(spark, widened_table)
    assert sorted(DeltaRsTable(str(widened_table)).to_pyarrow_table()["id"].to_pylist()) == [1, 2, 3_000_000_000]
    write_rows(spark, widened_table, "SELECT 4L AS id, 'b' AS part")
    update_rows(spark, widened_table, {"id": "id + 10"}, "id = 2")
    assert rows(widened_table) == sorted([(1, "a"), (12, None), (3_000_000_000, "a"), (4, "b")], key=repr)


def test_a_drop_does_not_record_rewritten_rows_as_a_data_change(spark, widened_table):
    drop(spark, widened_table)
    for version in range(3, DeltaTable(str(widened_table)).version + 1):
        actions = actions_of(widened_table, version)
        assert not any(action["dataChange"] for action in [*actions["add"], *actions["remove"]])


@pytest.mark.sample(
    {"delta.columnMapping.mode": "id"}, {"delta.checkpointPolicy": "v2", "delta.enableChangeDataFeed": "true"}
)
@pytest.mark.parametrize(
    "properties",
    [
        {"delta.columnMapping.mode": "id"},
        {"delta.enableDeletionVectors": "true"},
        {"delta.enableRowTracking": "true", "delta.enableInCommitTimestamps": "true"},
        {"delta.enableIcebergCompatV2": "true"},
        {"delta.checkpointPolicy": "v2", "delta.enableChangeDataFeed": "true"},
    ],
    ids=lambda properties: next(iter(properties)),
)
def test_a_drop_keeps_the_other_features(spark, tmp_path, properties):
    table = tmp_path / "t"
    write_rows(spark, table, "SELECT CAST(id AS INT) AS id FROM range(0, 6, 1, 1)", properties=properties | WIDENING)
    delete_rows(spark, table, "id = 3")
    write_rows(spark, table, "SELECT 7L AS id", merge_schema=True)
    features_before = set(DeltaTable(str(table)).protocol.writer_features)
    drop(spark, table)
    features_after = set(DeltaTable(str(table)).protocol.writer_features)
    assert features_after == features_before - {"typeWidening"} | {"checkpointProtection"}
    assert rows(table) == spark_rows(spark, table) == [(n,) for n in (0, 1, 2, 4, 5, 7)]
    assert set(types_in_files(table)) == {"int64"}


@pytest.mark.campaign
def test_a_clustered_table_keeps_its_clustering(spark, tmp_path):
    table = tmp_path / "t"
    define_table(spark, TableRequest(table=str(table), schema="id INT", cluster_by=("id",), properties=WIDENING))
    write_rows(spark, table, "SELECT CAST(id AS INT) AS id FROM range(100)")
    optimize_table(spark, table)
    cube_ids = {add["tags"]["ZCUBE_ID"] for add in actions_of(table, 2)["add"]}
    define_table(spark, TableRequest(table=str(table), schema="id BIGINT"))
    drop(spark, table)
    adds = [
        add for version in range(4, DeltaTable(str(table)).version + 1) for add in actions_of(table, version)["add"]
    ]
    assert {add["tags"]["ZCUBE_ID"] for add in adds} == cube_ids
    assert {add["clusteringProvider"] for add in adds} == {"liquid"}


def test_a_second_drop_changes_nothing(spark, widened_table):
    drop(spark, widened_table)
    content_before = folder_content(widened_table)
    assert not drop(spark, widened_table).committed
    assert folder_content(widened_table) == content_before


def test_a_table_that_never_widened_a_column_drops_the_feature(spark, tmp_path):
    table = tmp_path / "t"
    write_rows(spark, table, "SELECT 1 AS id", properties=WIDENING)
    files = paths(table)
    drop(spark, table)
    assert paths(table) == files and "typeWidening" not in DeltaTable(str(table)).protocol.writer_features


def test_a_retry_does_not_rewrite_the_files_that_the_first_attempt_has_rewritten(spark, widened_table, monkeypatch):
    calls = []

    def fail_at_the_second_checkpoint(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            raise StorageError("The checkpoint could not be written.", remedy="Try again.")
        return write_checkpoint(*arguments)

    write_checkpoint = feature_drop.write_any_checkpoint
    monkeypatch.setattr(feature_drop, "write_any_checkpoint", fail_at_the_second_checkpoint)
    with pytest.raises(StorageError):
        drop(spark, widened_table, run="r")
    assert rows(widened_table) == ROWS and "typeWidening" in DeltaTable(str(widened_table)).protocol.writer_features
    files = paths(widened_table)
    result = drop(spark, widened_table, run="r")
    assert result.committed and not result.skipped
    assert paths(widened_table) == files and "numRewrittenFiles" not in result.metrics
    assert drop(spark, widened_table, run="r").version == result.version


def test_a_winning_commit_does_not_lower_the_protected_version(spark, widened_table, monkeypatch):
    def commit_after_a_rival(*arguments):
        write_rows(spark, widened_table, "SELECT 9L AS id, 'z' AS part")
        return commit_proposal(*arguments)

    commit_proposal = command.commit_proposal
    monkeypatch.setattr(command, "commit_proposal", commit_after_a_rival)
    result = drop(spark, widened_table)
    assert result.version == result.read_version + 2
    assert DeltaTable(str(widened_table)).metadata.configuration[PROTECTED_VERSION] == str(result.version)
    assert (widened_table / checkpoint_name(result.version)).exists() and (9, "z") in rows(widened_table)


def test_a_file_that_a_rival_changes_first_is_not_rewritten(spark, widened_table, monkeypatch):
    def rewrite_after_a_rival(*arguments):
        update_rows(spark, widened_table, {"id": "5"}, "id = 1")
        return rewrite_files(*arguments)

    rewrite_files = feature_drop.rewrite_files
    monkeypatch.setattr(feature_drop, "rewrite_files", rewrite_after_a_rival)
    assert drop(spark, widened_table).metrics["numRewrittenFiles"] == 1
    assert types_in_files(widened_table) == ["int64", "int64", "int64"] and (5, "a") in rows(widened_table)


@pytest.mark.campaign
def test_a_column_that_a_rival_widens_during_the_drop_is_rewritten_too(spark, widened_table, monkeypatch):
    def write_after_a_rival(*arguments):
        calls.append(arguments)
        if len(calls) == feature_drop.BARRIER_COUNT:
            wider = TableRequest(table=str(widened_table), schema="id DECIMAL(20, 0)", properties=WIDENING)
            define_table(spark, wider)
        return write_checkpoint(*arguments)

    calls, write_checkpoint = [], feature_drop.write_any_checkpoint
    monkeypatch.setattr(feature_drop, "write_any_checkpoint", write_after_a_rival)
    drop(spark, widened_table)
    assert set(types_in_files(widened_table)) == {"decimal128(20, 0)"}
    assert [(int(number), part) for number, part in rows(widened_table)] == ROWS
    assert "typeWidening" not in DeltaTable(str(widened_table)).protocol.writer_features


@pytest.mark.campaign
def test_files_that_a_rival_restores_during_the_drop_are_rewritten_too(spark, widened_table, monkeypatch):
    def write_after_a_rival(*arguments):
        calls.append(arguments)
        if len(calls) == feature_drop.BARRIER_COUNT:
            restore(spark, RestoreRequest(table=str(widened_table), version=2))
        return write_checkpoint(*arguments)

    calls, write_checkpoint = [], feature_drop.write_any_checkpoint
    monkeypatch.setattr(feature_drop, "write_any_checkpoint", write_after_a_rival)
    drop(spark, widened_table)
    assert types_in_files(widened_table) == ["int64", "int64", "int64"] and rows(widened_table) == ROWS


@pytest.mark.campaign
def test_a_feature_that_a_restore_enabled_again_can_be_dropped_again(spark, widened_table):
    drop(spark, widened_table)
    restore(spark, RestoreRequest(table=str(widened_table), version=2))
    assert types_in_files(widened_table) == ["int32", "int32", "int64"] and rows(widened_table) == ROWS
    assert "typeWidening" in DeltaTable(str(widened_table)).protocol.writer_features
    drop(spark, widened_table)
    assert types_in_files(widened_table) == ["int64", "int64", "int64"] and spark_rows(spark, widened_table) == ROWS


def test_a_task_can_drop_a_feature_and_change_the_table(spark, widened_table):
    drop(spark, widened_table, schema="id BIGINT, part STRING, note STRING", constraints={"positive": "id > 0"})
    assert [f["name"] for f in fields(widened_table)] == ["id", "part", "note"]
    assert DeltaTable(str(widened_table)).metadata.configuration["delta.constraints.positive"] == "id > 0"


@pytest.mark.parametrize(
    ("features", "parameters", "problem"),
    [
        (("deletionVectors",), {}, "drop_features names deletionVectors"),
        (("typeWidening",), {"properties": WIDENING}, "drop_features names"),
        (("typeWidening",), {"properties": {"delta.feature.typeWidening": "supported"}}, "drop_features names"),
        (("typeWidening", "TYPEWIDENING"), {}, "twice"),
    ],
)
def test_an_invalid_request_is_rejected_and_changes_nothing(spark, widened_table, features, parameters, problem):
    content_before = folder_content(widened_table)
    with pytest.raises(InvalidRequestError, match=problem):
        drop(spark, widened_table, *features, **parameters)
    assert folder_content(widened_table) == content_before


def test_a_constraint_that_a_row_violates_is_rejected_before_any_commit(spark, widened_table):
    content_before = folder_content(widened_table)
    with pytest.raises(Exception, match="A row that breaks this"):
        drop(spark, widened_table, constraints={"small": "id < 3"})
    assert folder_content(widened_table) == content_before

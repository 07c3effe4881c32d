"""`drop_features`: a table without type widening, which clients without the feature can read and write."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable as OtherTable

from deltalite import DeltaTable
from deltalite.commands.restore.command import restore
from deltalite.commands.table import command, feature_drop
from deltalite.commands.table.command import define_table
from deltalite.errors import InvalidRequestError, StorageError
from deltalite.protocol.file_names import checkpoint_name
from deltalite.requests import RestoreRequest, RunIdentity, TableRequest
from tests.support.tables import (
    commit,
    delete_rows,
    everything,
    optimize_table,
    rows,
    spark_rows,
    update_rows,
    write_rows,
)

pytestmark = pytest.mark.spark

WIDENING = {"delta.enableTypeWidening": "true"}
PROTECTED = "delta.requireCheckpointProtectionBeforeVersion"


def drop(spark, table, *features, run=None, **parameters):
    identity = None if run is None else RunIdentity(app_id=run)
    names = features or ("typeWidening",)
    return define_table(spark, TableRequest(table=str(table), drop_features=names, identity=identity, **parameters))


def types_in_files(table):
    """The Arrow type of the column `id` in each live file."""
    (name,) = {f["metadata"].get("delta.columnMapping.physicalName", "id") for f in fields(table) if f["name"] == "id"}
    return sorted(str(pq.read_schema(table / path).field(name).type) for path in paths(table))


def paths(table):
    return DeltaTable(str(table)).files()["path"].to_pylist()


def fields(table):
    return json.loads(DeltaTable(str(table)).metadata.schema_string)["fields"]


@pytest.fixture
def widened(spark, tmp_path):
    """A table with two files of INT and one file of BIGINT."""
    table = tmp_path / "t"
    write_rows(spark, table, "SELECT 1 AS id, 'a' AS part", partition_by=("part",), properties=WIDENING)
    write_rows(spark, table, "SELECT 2 AS id, '' AS part")
    write_rows(spark, table, "SELECT 3000000000L AS id, 'a' AS part", merge_schema=True)
    assert types_in_files(table) == ["int32", "int32", "int64"]
    return table


ROWS = [(1, "a"), (2, None), (3_000_000_000, "a")]


def test_the_files_get_the_newest_types_and_the_protocol_loses_the_feature(spark, widened):
    result = drop(spark, widened)
    assert (result.operation, result.metrics["numRewrittenFiles"]) == ("ALTER TABLE", 2)
    assert types_in_files(widened) == ["int64", "int64", "int64"]
    assert rows(widened) == spark_rows(spark, widened) == ROWS
    protocol = DeltaTable(str(widened)).protocol
    assert (protocol.min_reader_version, protocol.reader_features) == (1, None)
    assert set(protocol.writer_features) == {"appendOnly", "checkpointProtection", "invariants"}
    configuration = DeltaTable(str(widened)).metadata.configuration
    assert configuration == {PROTECTED: str(result.version)}
    assert "typeChanges" not in DeltaTable(str(widened)).metadata.schema_string
    dropped = commit(widened, result.version)["commitInfo"]
    assert json.loads(dropped["operationParameters"]["droppedFeatures"]) == ["typeWidening"]


def test_four_checkpoints_protect_the_history_before_the_drop(spark, widened):
    version = drop(spark, widened).version
    for checkpointed in range(version - feature_drop.BARRIERS, version + 1):
        assert (widened / checkpoint_name(checkpointed)).exists()
    for barrier in range(version - feature_drop.BARRIERS, version):
        assert commit(widened, barrier)["commitInfo"]["operation"] == "Empty Commit"
    assert not any(commit(widened, at)["add"] for at in range(version - feature_drop.BARRIERS, version + 1))


def test_a_client_without_the_feature_reads_and_writes_the_table(spark, widened):
    drop(spark, widened)
    other = OtherTable(str(widened))
    assert sorted(other.to_pyarrow_table()["id"].to_pylist()) == [1, 2, 3_000_000_000]
    write_rows(spark, widened, "SELECT 4L AS id, 'b' AS part")
    update_rows(spark, widened, {"id": "id + 10"}, "id = 2")
    assert rows(widened) == sorted([(1, "a"), (12, None), (3_000_000_000, "a"), (4, "b")], key=repr)


def test_rewritten_rows_are_no_change_of_data(spark, widened):
    drop(spark, widened)
    for version in range(3, DeltaTable(str(widened)).version + 1):
        actions = commit(widened, version)
        assert not any(action["dataChange"] for action in [*actions["add"], *actions["remove"]])


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
def test_other_features_stay(spark, tmp_path, properties):
    table = tmp_path / "t"
    write_rows(spark, table, "SELECT CAST(id AS INT) AS id FROM range(0, 6, 1, 1)", properties=properties | WIDENING)
    delete_rows(spark, table, "id = 3")
    write_rows(spark, table, "SELECT 7L AS id", merge_schema=True)
    before = set(DeltaTable(str(table)).protocol.writer_features)
    drop(spark, table)
    after = set(DeltaTable(str(table)).protocol.writer_features)
    assert (before - after, after - before) == ({"typeWidening"}, {"checkpointProtection"})
    assert rows(table) == spark_rows(spark, table) == [(n,) for n in (0, 1, 2, 4, 5, 7)]
    assert set(types_in_files(table)) == {"int64"}


def test_a_clustered_table_keeps_its_clustering(spark, tmp_path):
    table = tmp_path / "t"
    define_table(spark, TableRequest(table=str(table), schema="id INT", cluster_by=("id",), properties=WIDENING))
    write_rows(spark, table, "SELECT CAST(id AS INT) AS id FROM range(100)")
    optimize_table(spark, table)
    tags = {add["tags"]["ZCUBE_ID"] for add in commit(table, 2)["add"]}
    define_table(spark, TableRequest(table=str(table), schema="id BIGINT"))
    drop(spark, table)
    newest = [add for version in range(4, 12) if (table / f"_delta_log/{version:020}.json").exists()
              for add in commit(table, version)["add"]]  # fmt: skip
    assert {add["tags"]["ZCUBE_ID"] for add in newest} == tags
    assert {add["clusteringProvider"] for add in newest} == {"liquid"}


def test_a_second_task_changes_nothing(spark, widened):
    drop(spark, widened)
    before = everything(widened)
    assert not drop(spark, widened).committed
    assert everything(widened) == before


def test_a_table_that_never_widened_a_column_drops_the_feature(spark, tmp_path):
    table = tmp_path / "t"
    write_rows(spark, table, "SELECT 1 AS id", properties=WIDENING)
    files = paths(table)
    drop(spark, table)
    assert paths(table) == files and "typeWidening" not in DeltaTable(str(table)).protocol.writer_features


def test_a_retry_goes_on_where_the_first_attempt_stopped(spark, widened, monkeypatch):
    calls = []

    def fail_at_the_second_checkpoint(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            raise StorageError("The checkpoint could not be written.", remedy="Try again.")
        return write_checkpoint(*arguments)

    write_checkpoint = feature_drop.write_any_checkpoint
    monkeypatch.setattr(feature_drop, "write_any_checkpoint", fail_at_the_second_checkpoint)
    with pytest.raises(StorageError):
        drop(spark, widened, run="r")
    assert rows(widened) == ROWS and "typeWidening" in DeltaTable(str(widened)).protocol.writer_features
    files = paths(widened)
    result = drop(spark, widened, run="r")
    assert result.committed and not result.skipped
    assert paths(widened) == files and "numRewrittenFiles" not in result.metrics
    assert drop(spark, widened, run="r").version == result.version


def test_a_winning_commit_does_not_lower_the_protected_version(spark, widened, monkeypatch):
    def commit_after_a_rival(*arguments):
        write_rows(spark, widened, "SELECT 9L AS id, 'z' AS part")
        return commit_proposal(*arguments)

    commit_proposal = command.commit_proposal
    monkeypatch.setattr(command, "commit_proposal", commit_after_a_rival)
    result = drop(spark, widened)
    assert result.version == result.read_version + 2
    assert DeltaTable(str(widened)).metadata.configuration[PROTECTED] == str(result.version)
    assert (widened / checkpoint_name(result.version)).exists() and (9, "z") in rows(widened)


def test_a_file_that_a_rival_changes_first_is_not_rewritten(spark, widened, monkeypatch):
    def rewrite_after_a_rival(*arguments):
        update_rows(spark, widened, {"id": "5"}, "id = 1")
        return rewrite_files(*arguments)

    rewrite_files = feature_drop.rewrite_files
    monkeypatch.setattr(feature_drop, "rewrite_files", rewrite_after_a_rival)
    assert drop(spark, widened).metrics["numRewrittenFiles"] == 1
    assert types_in_files(widened) == ["int64", "int64", "int64"] and (5, "a") in rows(widened)


def test_a_column_that_a_rival_widens_during_the_drop_is_rewritten_too(spark, widened, monkeypatch):
    def write_after_a_rival(*arguments):
        calls.append(arguments)
        if len(calls) == feature_drop.BARRIERS:
            wider = TableRequest(table=str(widened), schema="id DECIMAL(20, 0)", properties=WIDENING)
            define_table(spark, wider)
        return write_checkpoint(*arguments)

    calls, write_checkpoint = [], feature_drop.write_any_checkpoint
    monkeypatch.setattr(feature_drop, "write_any_checkpoint", write_after_a_rival)
    drop(spark, widened)
    assert set(types_in_files(widened)) == {"decimal128(20, 0)"}
    assert [(int(number), part) for number, part in rows(widened)] == ROWS
    assert "typeWidening" not in DeltaTable(str(widened)).protocol.writer_features


def test_files_that_a_rival_restores_during_the_drop_are_rewritten_too(spark, widened, monkeypatch):
    def write_after_a_rival(*arguments):
        calls.append(arguments)
        if len(calls) == feature_drop.BARRIERS:
            restore(spark, RestoreRequest(table=str(widened), version=2))
        return write_checkpoint(*arguments)

    calls, write_checkpoint = [], feature_drop.write_any_checkpoint
    monkeypatch.setattr(feature_drop, "write_any_checkpoint", write_after_a_rival)
    drop(spark, widened)
    assert types_in_files(widened) == ["int64", "int64", "int64"] and rows(widened) == ROWS


def test_a_restore_brings_the_feature_back(spark, widened):
    drop(spark, widened)
    restore(spark, RestoreRequest(table=str(widened), version=2))
    assert types_in_files(widened) == ["int32", "int32", "int64"] and rows(widened) == ROWS
    assert "typeWidening" in DeltaTable(str(widened)).protocol.writer_features
    drop(spark, widened)
    assert types_in_files(widened) == ["int64", "int64", "int64"] and spark_rows(spark, widened) == ROWS


def test_a_change_of_the_declaration_comes_with_the_drop(spark, widened):
    drop(spark, widened, schema="id BIGINT, part STRING, note STRING", constraints={"positive": "id > 0"})
    assert [f["name"] for f in fields(widened)] == ["id", "part", "note"]
    assert DeltaTable(str(widened)).metadata.configuration["delta.constraints.positive"] == "id > 0"


@pytest.mark.parametrize(
    ("features", "parameters", "problem"),
    [
        (("deletionVectors",), {}, "drop_features names deletionVectors"),
        (("typeWidening",), {"properties": WIDENING}, "drop_features names"),
        (("typeWidening",), {"properties": {"delta.feature.typeWidening": "supported"}}, "drop_features names"),
        (("typeWidening", "TYPEWIDENING"), {}, "twice"),
    ],
)
def test_a_wrong_request_changes_nothing(spark, widened, features, parameters, problem):
    before = everything(widened)
    with pytest.raises(InvalidRequestError, match=problem):
        drop(spark, widened, *features, **parameters)
    assert everything(widened) == before


def test_a_new_constraint_that_a_row_breaks_is_found_before_any_commit(spark, widened):
    before = everything(widened)
    with pytest.raises(Exception, match="A row that breaks this"):
        drop(spark, widened, constraints={"small": "id < 3"})
    assert everything(widened) == before

"""An optimize orders the rows of a clustered table along a Hilbert curve. It keeps files that are clustered already."""

from __future__ import annotations

import json

import pytest

from deltalite import DeltaTable
from deltalite.commands.optimize import command
from deltalite.commands.table import define_table
from deltalite.errors import CorruptLogError, InvalidRequestError, SchemaMismatchError
from deltalite.protocol.clustering import clustering_columns
from deltalite.requests import TableRequest
from deltalite.snapshot import Snapshot
from deltalite.storage.local import LocalLogStore
from tests.support.tables import actions_of, folder_content, optimize_table, rows, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("one_task")]

SCHEMA = "id BIGINT, x INT, s STRUCT<y: INT>"
QUERY = (
    "SELECT id, CAST(rand(1) * 1000 AS INT) AS x, named_struct('y', CAST(rand(2) * 1000 AS INT)) AS s "
    "FROM range({}, {}, 1, {})"
)


def define(spark, table, **parameters):
    """Create or alter a table; the parameters are those of `TableRequest`."""
    return define_table(spark, TableRequest(table=str(table), **parameters))


@pytest.fixture
def table(spark, tmp_path):
    path = tmp_path / "t"
    define(spark, path, schema=SCHEMA, cluster_by=["x", "s.y"])
    return path


def clustering_columns_of(table):
    return clustering_columns(Snapshot.load(LocalLogStore(str(table))).domains)


def count_possible_files(table, column, value):
    """The number of files whose bounds include the value."""
    stats_of_files = [json.loads(text) for text in DeltaTable(str(table)).files()["stats"].to_pylist()]
    path = column.split(".")

    def bound(values):
        for name in path:
            values = values[name]
        return values

    return sum(bound(stats["minValues"]) <= value <= bound(stats["maxValues"]) for stats in stats_of_files)


@pytest.mark.campaign
def test_files_can_be_skipped_by_each_clustering_column(spark, table):
    write_rows(spark, table, QUERY.format(0, 100_000, 4))
    rows_before = rows(table)
    size = sum(DeltaTable(str(table)).files()["size_bytes"].to_pylist())
    result = optimize_table(spark, table, target_file_size=size // 16)
    files = result.metrics["numAddedFiles"]
    assert 14 <= files <= 18 and rows(table) == rows_before
    for column in ("x", "s.y"):
        counts = [count_possible_files(table, column, value) for value in range(5, 1000, 90)]
        assert sum(counts) <= 0.4 * files * len(counts), f"files that may have each value of {column}: {counts}"
    actions = actions_of(table, result.version)
    assert actions["commitInfo"]["operationParameters"]["clusterBy"] == '["x", "s.y"]'
    assert {json.dumps(json.loads(add["tags"]["ZCUBE_ZORDER_BY"])) for add in actions["add"]} == {'["x", "s.y"]'}
    assert {add["clusteringProvider"] for add in actions["add"]} == {"liquid"}
    assert len({add["tags"]["ZCUBE_ID"] for add in actions["add"]}) == 1
    assert not optimize_table(spark, table, target_file_size=size // 16).committed


def test_an_optimize_clusters_only_new_files_unless_it_is_full(spark, table):
    write_rows(spark, table, QUERY.format(0, 2_000, 1))
    optimize_table(spark, table)
    write_rows(spark, table, QUERY.format(2_000, 2_200, 1))
    rows_before = rows(table)
    result = optimize_table(spark, table)
    assert (result.metrics["numRemovedFiles"], result.metrics["numAddedFiles"]) == (1, 1)
    result = optimize_table(spark, table, full=True)
    assert (result.metrics["numRemovedFiles"], result.metrics["numAddedFiles"]) == (2, 1)
    assert not optimize_table(spark, table, full=True).committed
    assert rows(table) == rows_before


def test_the_clustering_columns_can_be_changed_and_removed(spark, table):
    write_rows(spark, table, QUERY.format(0, 1_000, 1))
    optimize_table(spark, table)
    define(spark, table, cluster_by=["id"])
    assert clustering_columns_of(table) == (("id",),)
    assert not define(spark, table, cluster_by=["ID"]).committed
    assert not optimize_table(spark, table).committed, "files that are clustered by other columns stay"
    assert optimize_table(spark, table, full=True).metrics["numAddedFiles"] == 1
    result = define(spark, table, cluster_by=[])
    assert clustering_columns_of(table) == ()
    assert json.loads(actions_of(table, result.version)["domainMetadata"]["configuration"])["clusteringColumns"] == []
    assert not define(spark, table, cluster_by=[]).committed
    with pytest.raises(InvalidRequestError, match="no clustering columns"):
        optimize_table(spark, table, full=True)


def test_a_table_with_column_mapping_records_physical_names_of_its_clustering_columns(spark, tmp_path):
    table = tmp_path / "t"
    write_rows(spark, table, QUERY.format(0, 1_000, 2), properties={"delta.columnMapping.mode": "name"})
    define(spark, table, cluster_by=["s.y"])
    ((struct, member),) = clustering_columns_of(table)
    assert struct.startswith("col-") and member.startswith("col-")
    rows_before = rows(table)
    result = optimize_table(spark, table)
    assert json.loads(actions_of(table, result.version)["add"][0]["tags"]["ZCUBE_ZORDER_BY"]) == ["s.y"]
    assert rows(table) == rows_before


@pytest.mark.parametrize(
    ("parameters", "error", "text"),
    [
        ({"cluster_by": ["nope"]}, InvalidRequestError, "cluster_by names the column 'nope'"),
        ({"cluster_by": ["s"]}, InvalidRequestError, "no bounds"),
        ({"cluster_by": ["`"]}, InvalidRequestError, "cluster_by contains '`'"),
        ({"cluster_by": ["x", "`x`"]}, InvalidRequestError, "twice"),
        ({"cluster_by": ["id", "x", "s.y", "a", "b"]}, InvalidRequestError, "5 columns"),
        ({"partition_by": ["x"]}, SchemaMismatchError, "partitioned by ()"),
        ({"properties": {"delta.feature.clustering": "supported"}}, InvalidRequestError, "`cluster_by`"),
    ],
)
def test_invalid_clustering_columns_and_properties_are_rejected(spark, table, parameters, error, text):
    content_before = folder_content(table)
    with pytest.raises(error) as error_info:
        define(spark, table, **parameters)
    assert text in f"{error_info.value.problem} {error_info.value.remedy}"
    assert folder_content(table) == content_before


def test_a_partitioned_table_cannot_be_clustered(spark, tmp_path):
    write_rows(spark, tmp_path / "t", "SELECT 1 AS id, 2 AS part", partition_by=("part",))
    with pytest.raises(SchemaMismatchError, match="cannot be partitioned"):
        define(spark, tmp_path / "t", cluster_by=["id"])


@pytest.mark.parametrize("options", [{"z_order_by": ["x"]}, {"min_file_size": 5}])
def test_an_optimize_of_a_clustered_table_rejects_a_z_order_and_a_minimum_file_size(spark, table, options):
    with pytest.raises(InvalidRequestError, match="is a clustered table"):
        optimize_table(spark, table, **options)


def test_an_overwrite_cannot_give_a_clustering_column_a_type_without_an_order(spark, table):
    write_rows(spark, table, QUERY.format(0, 10, 1))
    content_before = folder_content(table)
    query = "SELECT id, map(1, 2) AS x, named_struct('y', 1) AS s FROM range(10)"
    with pytest.raises(SchemaMismatchError, match="clustered by x"):
        write_rows(spark, table, query, mode="overwrite", overwrite_schema=True)
    assert folder_content(table) == content_before


def test_clustering_columns_that_do_not_exist_can_be_replaced(spark, table):
    domain = json.dumps({"clusteringColumns": [["nope"]], "domainName": "delta.clustering"})
    action = {"domainMetadata": {"domain": "delta.clustering", "configuration": domain, "removed": False}}
    (table / "_delta_log" / f"{1:020}.json").write_text(f'{{"commitInfo": {{}}}}\n{json.dumps(action)}\n')
    with pytest.raises(CorruptLogError, match="clustered by nope"):
        optimize_table(spark, table)
    define(spark, table, cluster_by=["x"])
    assert clustering_columns_of(table) == (("x",),)


@pytest.mark.campaign
def test_an_optimize_replans_if_the_clustering_columns_change_between_two_commits(spark, table, monkeypatch):
    for start in (0, 1_000, 2_000):
        write_rows(spark, table, QUERY.format(start, start + 1_000, 1))
    rows_before = rows(table)
    commit_proposal = command.commit_proposal

    def commit_and_change_columns(*arguments):
        monkeypatch.setattr(command, "commit_proposal", commit_proposal)
        result = commit_proposal(*arguments)
        define(spark, table, cluster_by=["id"])
        return result

    monkeypatch.setattr(command, "commit_proposal", commit_and_change_columns)
    result = optimize_table(spark, table, max_commit_bytes=1)
    last_commits = [actions_of(table, version)["add"] for version in (result.version - 1, result.version)]
    assert [add["tags"]["ZCUBE_ZORDER_BY"] for adds in last_commits for add in adds] == ['["id"]', '["id"]']
    assert rows(table) == rows_before


@pytest.mark.campaign
def test_a_full_optimize_does_nothing_after_a_full_optimize_with_several_commits(spark, table):
    for start in (0, 1_000, 2_000):
        write_rows(spark, table, QUERY.format(start, start + 1_000, 1))
    assert optimize_table(spark, table, full=True, max_commit_bytes=1).committed
    assert not optimize_table(spark, table, full=True, max_commit_bytes=1).committed


def test_an_optimize_clusters_files_that_were_z_ordered_before(spark, tmp_path):
    table = tmp_path / "t"
    write_rows(spark, table, QUERY.format(0, 100, 1))
    optimize_table(spark, table, z_order_by=["x"])
    define(spark, table, cluster_by=["id"])
    assert optimize_table(spark, table).metrics["numAddedFiles"] == 1


@pytest.mark.parametrize("columns", [["x"], []])
def test_malformed_clustering_can_be_replaced(spark, table, columns):
    action = {"domainMetadata": {"domain": "delta.clustering", "configuration": "garbage", "removed": False}}
    (table / "_delta_log" / f"{1:020}.json").write_text(f'{{"commitInfo": {{}}}}\n{json.dumps(action)}\n')
    with pytest.raises(CorruptLogError, match="names no clustering columns") as error_info:
        write_rows(spark, table, QUERY.format(0, 10, 1))
    assert "DeltaTableOperator" in error_info.value.remedy
    define(spark, table, cluster_by=columns)
    assert clustering_columns_of(table) == tuple((name,) for name in columns)
    write_rows(spark, table, QUERY.format(0, 10, 1))
    assert len(rows(table)) == 10

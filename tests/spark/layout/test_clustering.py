"""A clustered table is ordered by its clustering columns along a Hilbert curve, and again only as far as needed."""

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
from tests.support.tables import commit, everything, optimize_table, rows, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("one_task")]

SCHEMA = "id BIGINT, x INT, s STRUCT<y: INT>"
QUERY = (
    "SELECT id, CAST(rand(1) * 1000 AS INT) AS x, named_struct('y', CAST(rand(2) * 1000 AS INT)) AS s "
    "FROM range({}, {}, 1, {})"
)


def defined(spark, table, **parameters):
    return define_table(spark, TableRequest(table=str(table), **parameters))


@pytest.fixture
def table(spark, tmp_path):
    path = tmp_path / "t"
    defined(spark, path, schema=SCHEMA, cluster_by=["x", "s.y"])
    return path


def columns_of(table):
    return clustering_columns(Snapshot.load(LocalLogStore(str(table))).domains)


def kept(table, column, value):
    """The number of files that may hold the value, by their statistics."""
    files = DeltaTable(str(table)).files()["stats"].to_pylist()
    stats = [json.loads(text) for text in files]
    path = column.split(".")

    def bound(values):
        for name in path:
            values = values[name]
        return values

    return sum(bound(one["minValues"]) <= value <= bound(one["maxValues"]) for one in stats)


def test_files_can_be_skipped_by_each_clustering_column(spark, table):
    write_rows(spark, table, QUERY.format(0, 100_000, 4))
    before = rows(table)
    size = sum(DeltaTable(str(table)).files()["size_bytes"].to_pylist())
    result = optimize_table(spark, table, target_file_size=size // 16)
    files = result.metrics["numAddedFiles"]
    assert 14 <= files <= 18 and rows(table) == before
    for column in ("x", "s.y"):
        counts = [kept(table, column, value) for value in range(5, 1000, 90)]
        assert sum(counts) <= 0.4 * files * len(counts), f"of {files} files, so many may hold a {column}: {counts}"
    made = commit(table, result.version)
    assert made["commitInfo"]["operationParameters"]["clusterBy"] == '["x", "s.y"]'
    assert {json.dumps(json.loads(add["tags"]["ZCUBE_ZORDER_BY"])) for add in made["add"]} == {'["x", "s.y"]'}
    assert {add["clusteringProvider"] for add in made["add"]} == {"liquid"}
    assert len({add["tags"]["ZCUBE_ID"] for add in made["add"]}) == 1
    assert not optimize_table(spark, table, target_file_size=size // 16).committed


def test_new_rows_are_clustered_without_the_old_ones(spark, table):
    write_rows(spark, table, QUERY.format(0, 20_000, 1))
    optimize_table(spark, table)
    write_rows(spark, table, QUERY.format(20_000, 22_000, 1))
    before = rows(table)
    result = optimize_table(spark, table)
    assert (result.metrics["numRemovedFiles"], result.metrics["numAddedFiles"]) == (1, 1)
    result = optimize_table(spark, table, full=True)
    assert (result.metrics["numRemovedFiles"], result.metrics["numAddedFiles"]) == (2, 1)
    assert not optimize_table(spark, table, full=True).committed
    assert rows(table) == before


def test_the_clustering_columns_can_be_changed_and_removed(spark, table):
    write_rows(spark, table, QUERY.format(0, 1_000, 1))
    optimize_table(spark, table)
    defined(spark, table, cluster_by=["id"])
    assert columns_of(table) == (("id",),)
    assert not defined(spark, table, cluster_by=["ID"]).committed
    assert not optimize_table(spark, table).committed, "files that are clustered by other columns stay"
    assert optimize_table(spark, table, full=True).metrics["numAddedFiles"] == 1
    result = defined(spark, table, cluster_by=[])
    assert columns_of(table) == ()
    assert json.loads(commit(table, result.version)["domainMetadata"]["configuration"])["clusteringColumns"] == []
    assert not defined(spark, table, cluster_by=[]).committed
    with pytest.raises(InvalidRequestError, match="no clustering columns"):
        optimize_table(spark, table, full=True)


def test_a_table_gets_clustering_columns_later_with_physical_names(spark, tmp_path):
    table = tmp_path / "t"
    write_rows(spark, table, QUERY.format(0, 1_000, 2), properties={"delta.columnMapping.mode": "name"})
    defined(spark, table, cluster_by=["s.y"])
    ((struct, member),) = columns_of(table)
    assert struct.startswith("col-") and member.startswith("col-")
    before = rows(table)
    result = optimize_table(spark, table)
    assert json.loads(commit(table, result.version)["add"][0]["tags"]["ZCUBE_ZORDER_BY"]) == ["s.y"]
    assert rows(table) == before


@pytest.mark.parametrize(
    ("parameters", "error", "text"),
    [
        ({"cluster_by": ["nope"]}, InvalidRequestError, "cluster_by names the column 'nope'"),
        ({"cluster_by": ["s"]}, InvalidRequestError, "no bounds"),
        ({"cluster_by": ["`"]}, InvalidRequestError, "cluster_by has '`'"),
        ({"cluster_by": ["x", "`x`"]}, InvalidRequestError, "twice"),
        ({"cluster_by": ["id", "x", "s.y", "a", "b"]}, InvalidRequestError, "5 columns"),
        ({"partition_by": ["x"]}, SchemaMismatchError, "partitioned by ()"),
        ({"properties": {"delta.feature.clustering": "supported"}}, InvalidRequestError, "`cluster_by`"),
    ],
)
def test_wrong_clustering_columns_are_rejected(spark, table, parameters, error, text):
    before = everything(table)
    with pytest.raises(error) as caught:
        defined(spark, table, **parameters)
    assert text in f"{caught.value.problem} {caught.value.remedy}"
    assert everything(table) == before


def test_a_partitioned_table_cannot_be_clustered(spark, tmp_path):
    write_rows(spark, tmp_path / "t", "SELECT 1 AS id, 2 AS part", partition_by=("part",))
    with pytest.raises(SchemaMismatchError, match="cannot be partitioned"):
        defined(spark, tmp_path / "t", cluster_by=["id"])


@pytest.mark.parametrize("options", [{"z_order_by": ["x"]}, {"min_file_size": 5}])
def test_an_optimize_of_a_clustered_table_takes_no_other_order(spark, table, options):
    with pytest.raises(InvalidRequestError, match="is a clustered table"):
        optimize_table(spark, table, **options)


def test_an_overwrite_gives_a_clustering_column_no_type_that_cannot_be_ordered(spark, table):
    write_rows(spark, table, QUERY.format(0, 10, 1))
    before = everything(table)
    query = "SELECT id, map(1, 2) AS x, named_struct('y', 1) AS s FROM range(10)"
    with pytest.raises(SchemaMismatchError, match="clustered by x"):
        write_rows(spark, table, query, mode="overwrite", overwrite_schema=True)
    assert everything(table) == before


def test_clustering_columns_that_the_table_lacks_can_be_replaced(spark, table):
    domain = json.dumps({"clusteringColumns": [["nope"]], "domainName": "delta.clustering"})
    action = {"domainMetadata": {"domain": "delta.clustering", "configuration": domain, "removed": False}}
    (table / "_delta_log" / f"{1:020}.json").write_text(f'{{"commitInfo": {{}}}}\n{json.dumps(action)}\n')
    with pytest.raises(CorruptLogError, match="clustered by nope"):
        optimize_table(spark, table)
    defined(spark, table, cluster_by=["x"])
    assert columns_of(table) == (("x",),)


def test_a_change_of_the_columns_between_two_commits_leads_to_a_new_plan(spark, table, monkeypatch):
    for start in (0, 1_000, 2_000):
        write_rows(spark, table, QUERY.format(start, start + 1_000, 1))
    before = rows(table)
    real = command.commit_proposal

    def commit_then_change(*arguments):
        monkeypatch.setattr(command, "commit_proposal", real)
        result = real(*arguments)
        defined(spark, table, cluster_by=["id"])
        return result

    monkeypatch.setattr(command, "commit_proposal", commit_then_change)
    result = optimize_table(spark, table, max_commit_bytes=1)
    last_commits = [commit(table, version)["add"] for version in (result.version - 1, result.version)]
    assert [add["tags"]["ZCUBE_ZORDER_BY"] for adds in last_commits for add in adds] == ['["id"]', '["id"]']
    assert rows(table) == before


def test_a_second_full_run_of_several_commits_does_nothing(spark, table):
    for start in (0, 1_000, 2_000):
        write_rows(spark, table, QUERY.format(start, start + 1_000, 1))
    assert optimize_table(spark, table, full=True, max_commit_bytes=1).committed
    assert not optimize_table(spark, table, full=True, max_commit_bytes=1).committed


def test_files_of_a_z_order_are_clustered(spark, tmp_path):
    table = tmp_path / "t"
    write_rows(spark, table, QUERY.format(0, 100, 1))
    optimize_table(spark, table, z_order_by=["x"])
    defined(spark, table, cluster_by=["id"])
    assert optimize_table(spark, table).metrics["numAddedFiles"] == 1

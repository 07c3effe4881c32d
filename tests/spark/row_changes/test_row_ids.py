"""With row tracking, changed and moved rows keep their row ids, and moved rows keep their row commit version."""

from __future__ import annotations

import shutil

import pytest

import deltalite.spark as delta
from deltalite import DeltaTable
from deltalite.commands.merge import merge
from deltalite.commands.restore import restore
from deltalite.errors import InvalidRequestError
from deltalite.requests import MergeClause, MergeRequest, RestoreRequest, Source
from deltalite.spark.reader.read import read
from tests.support.properties import FEED, VECTORS
from tests.support.tables import UNUSED_SOURCE, actions_of, delete_rows, optimize_table, rows, update_rows, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("one_task")]

TRACKED = {"delta.enableRowTracking": "true"}
KINDS = [
    pytest.param({}, id="files", marks=pytest.mark.campaign),
    pytest.param({**VECTORS, **FEED, "delta.columnMapping.mode": "name"}, id="vectors-feed-names"),
    pytest.param(VECTORS, id="vectors", marks=pytest.mark.campaign),
    pytest.param({**FEED, "delta.columnMapping.mode": "id"}, id="feed-ids", marks=pytest.mark.campaign),
]


@pytest.fixture(scope="module", params=KINDS)
def template(request, spark, tmp_path_factory):
    """A table with the rows 0 to 5, in two files and two partitions."""
    path = tmp_path_factory.mktemp("template") / "t"
    properties = {**TRACKED, **request.param}
    query = "SELECT id, id % 2 AS part, CAST(id AS string) AS name FROM range(0, 6, 1, 1)"
    write_rows(spark, path, query, partition_by=["part"], properties=properties)
    return path


@pytest.fixture
def table(template, tmp_path):
    """A copy of the template."""
    return shutil.copytree(template, tmp_path / "t")


def row_ids_and_versions(table):
    """The row id and the row commit version of each row, by the table's `id`."""
    result = DeltaTable(str(table)).to_arrow(columns=["id", "_row_id", "_row_commit_version"])
    by_id = {row["id"]: (row["_row_id"], row["_row_commit_version"]) for row in result.to_pylist()}
    assert len(by_id) == result.num_rows
    row_ids = [row_id for row_id, _ in by_id.values()]
    assert None not in row_ids and len(set(row_ids)) == len(row_ids), "row ids are missing or not unique"
    return by_id


def upsert(spark, table, query):
    request = MergeRequest(
        table=str(table), sources={"s": UNUSED_SOURCE}, query=query, on="target.id = source.id",
        when_matched=[MergeClause(update={"name": "source.name"})],
        when_not_matched=[MergeClause(insert="*")],
    )  # fmt: skip
    return merge(spark, request)


def test_a_new_table_gives_each_row_an_id_and_the_version_of_its_commit(spark, table):
    write_rows(spark, table, "SELECT 6L AS id, 0L AS part, 'six' AS name")
    by_id = row_ids_and_versions(table)
    assert sorted(row_id for row_id, _ in by_id.values()) == list(range(7))
    assert {version for key, (_, version) in by_id.items() if key < 6} == {0}
    assert by_id[6] == (6, 1)
    assert actions_of(table, 1)["domainMetadata"]["configuration"] == '{"rowIdHighWaterMark":6}'


def test_an_update_keeps_ids_and_sets_the_version_of_the_updated_rows(spark, table):
    ids_before = row_ids_and_versions(table)
    update_rows(spark, table, {"name": "'new'"}, "id = 3")
    assert row_ids_and_versions(table) == {**ids_before, 3: (ids_before[3][0], 1)}
    update_rows(spark, table, {"name": "'newer'", "part": "0"}, "id IN (1, 3)")
    assert row_ids_and_versions(table) == {**ids_before, 1: (ids_before[1][0], 2), 3: (ids_before[3][0], 2)}


@pytest.mark.campaign
def test_a_delete_keeps_the_ids_of_the_other_rows(spark, table):
    ids_before = row_ids_and_versions(table)
    delete_rows(spark, table, "id = 2")
    update_rows(spark, table, {"name": "'new'"}, "id = 0")
    delete_rows(spark, table, "id = 4")
    assert row_ids_and_versions(table) == {
        0: (ids_before[0][0], 2),
        1: ids_before[1],
        3: ids_before[3],
        5: ids_before[5],
    }


def test_a_merge_keeps_the_ids_of_matched_rows_and_gives_new_rows_new_ids(spark, table):
    ids_before = row_ids_and_versions(table)
    upsert(spark, table, "SELECT id, 1L AS part, 'merged' AS name FROM range(4, 8)")
    ids_after = row_ids_and_versions(table)
    assert {key: ids_after[key] for key in range(4)} == {key: ids_before[key] for key in range(4)}
    assert [ids_after[key] for key in (4, 5)] == [(ids_before[key][0], 1) for key in (4, 5)]
    assert all(row_id > 5 and version == 1 for row_id, version in (ids_after[6], ids_after[7]))


@pytest.mark.campaign
def test_a_merge_with_a_new_column_keeps_the_ids(spark, table):
    ids_before = row_ids_and_versions(table)
    query = "SELECT 5L AS id, 1L AS part, 'merged' AS name, 2.5D AS price"
    request = MergeRequest(
        table=str(table), sources={"s": UNUSED_SOURCE}, query=query, on="target.id = source.id", merge_schema=True,
        when_matched=[MergeClause(update="*")],
        when_not_matched_by_source=[MergeClause(condition="target.id = 1", delete=True)],
    )  # fmt: skip
    merge(spark, request)
    assert row_ids_and_versions(table) == {key: ids_before[key] for key in (0, 2, 3, 4)} | {5: (ids_before[5][0], 1)}


def test_a_replacing_write_keeps_the_ids_of_surviving_rows(spark, table):
    ids_before = row_ids_and_versions(table)
    query = "SELECT 3L AS id, 1L AS part, 'replaced' AS name"
    write_rows(spark, table, query, mode="overwrite", replace_where="id = 3")
    ids_after = row_ids_and_versions(table)
    new_id, new_version = ids_after[3]
    assert new_id > 5 and new_version == 1
    assert ids_after == {**ids_before, 3: (new_id, new_version)}


@pytest.mark.parametrize("z_order_by", [[], pytest.param(["id", "name"], marks=pytest.mark.campaign)])
def test_an_optimize_keeps_ids_and_versions(spark, table, z_order_by):
    write_rows(spark, table, "SELECT id, id % 2 AS part, 'later' AS name FROM range(6, 9)")
    update_rows(spark, table, {"name": "'new'"}, "id = 3")
    delete_rows(spark, table, "id = 0")
    ids_before, rows_before = row_ids_and_versions(table), rows(table)
    assert optimize_table(spark, table, z_order_by=z_order_by).committed
    assert row_ids_and_versions(table) == ids_before and rows(table) == rows_before
    assert actions_of(table, DeltaTable(str(table)).version)["commitInfo"]["tags"] == {
        "delta.rowTracking.preserved": "true"
    }


@pytest.mark.campaign
def test_a_restore_brings_back_the_ids(spark, table):
    ids_before = row_ids_and_versions(table)
    update_rows(spark, table, {"name": "'new'"})
    delete_rows(spark, table, "id = 2")
    restore(spark, RestoreRequest(table=str(table), version=0))
    assert row_ids_and_versions(table) == ids_before
    write_rows(spark, table, "SELECT 9L AS id, 0L AS part, 'nine' AS name")
    assert row_ids_and_versions(table)[9][0] > 5


def test_spark_reads_the_same_row_ids_as_the_arrow_reader(spark, table):
    update_rows(spark, table, {"name": "'new'"}, "id = 3")
    delete_rows(spark, table, "id = 2")
    frame = read(spark, str(table), where="id > 0", options={"readRowIds": "true"})
    assert frame.columns == ["id", "part", "name", "_row_id", "_row_commit_version"]
    assert {row[0]: (row[3], row[4]) for row in frame.collect()} == {
        k: v for k, v in row_ids_and_versions(table).items() if k > 0
    }
    assert delta.read(spark, str(table)).columns == ["id", "part", "name"]


def test_a_query_can_read_the_row_ids_of_its_source(spark, table, tmp_path):
    source = Source(format="delta", path=str(table), options={"readRowIds": "TRUE"})
    query = "SELECT id, _row_id, _row_commit_version FROM source"
    write_rows(spark, tmp_path / "copy", query, sources={"source": source})
    copied_rows = DeltaTable(str(tmp_path / "copy")).to_arrow().to_pylist()
    assert {row["id"]: (row["_row_id"], row["_row_commit_version"]) for row in copied_rows} == row_ids_and_versions(
        table
    )


def test_a_remove_has_the_base_row_id_and_commit_version_of_its_file(spark, table):
    update_rows(spark, table, {"name": "'new'"}, "id = 3")
    (remove,) = actions_of(table, 1)["remove"]
    names = ("baseRowId", "defaultRowCommitVersion")
    values_by_path = {add["path"]: [add[name] for name in names] for add in actions_of(table, 0)["add"]}
    assert [remove[name] for name in names] == values_by_path[remove["path"]]


def test_an_overwrite_without_data_change_records_that_it_does_not_preserve_row_ids(spark, table):
    source = Source(format="delta", path=str(table))
    write_rows(spark, table, sources={"s": source}, mode="overwrite", data_change=False)
    assert actions_of(table, 1)["commitInfo"]["tags"] == {"delta.rowTracking.preserved": "false"}
    assert all(row_id > 5 for row_id, _ in row_ids_and_versions(table).values())


def test_a_table_without_row_tracking_has_no_ids(spark, tmp_path):
    table = tmp_path / "t"
    write_rows(spark, table, "SELECT 1 AS id")
    with pytest.raises(InvalidRequestError, match="row tracking is not enabled"):
        DeltaTable(str(table)).to_arrow(columns=["_row_id"])
    with pytest.raises(InvalidRequestError, match="row tracking is not enabled"):
        read(spark, str(table), options={"readRowIds": True})

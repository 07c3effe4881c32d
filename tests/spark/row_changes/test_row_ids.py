"""With row tracking, changed and moved rows keep their row ids, and moved rows keep the version that wrote them."""

from __future__ import annotations

import pytest

import deltalite.spark as delta
from deltalite import DeltaTable
from deltalite.commands.merge import merge
from deltalite.commands.restore import restore
from deltalite.errors import InvalidRequestError
from deltalite.requests import MergeClause, MergeRequest, RestoreRequest, Source
from deltalite.spark.reader.read import read
from tests.support.properties import FEED, VECTORS
from tests.support.tables import HERE, commit, delete_rows, optimize_table, rows, update_rows, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("one_task")]

TRACKED = {"delta.enableRowTracking": "true"}
KINDS = [
    pytest.param({}, id="files", marks=pytest.mark.campaign),
    pytest.param({**VECTORS, **FEED, "delta.columnMapping.mode": "name"}, id="vectors-feed-names"),
    pytest.param(VECTORS, id="vectors", marks=pytest.mark.campaign),
    pytest.param({**FEED, "delta.columnMapping.mode": "id"}, id="feed-ids", marks=pytest.mark.campaign),
]


@pytest.fixture(params=KINDS)
def table(request, spark, tmp_path):
    """A table with the rows 0 to 5, in two files and two partitions."""
    path = tmp_path / "t"
    properties = {**TRACKED, **request.param}
    query = "SELECT id, id % 2 AS part, CAST(id AS string) AS name FROM range(0, 6, 1, 1)"
    write_rows(spark, path, query, partition_by=["part"], properties=properties)
    return path


def ids(table):
    """The row id and the row commit version of each row, by the table's `id`."""
    result = DeltaTable(str(table)).to_arrow(columns=["id", "_row_id", "_row_commit_version"])
    by_id = {row["id"]: (row["_row_id"], row["_row_commit_version"]) for row in result.to_pylist()}
    assert len(by_id) == result.num_rows
    row_ids = [row_id for row_id, _ in by_id.values()]
    assert None not in row_ids and len(set(row_ids)) == len(row_ids), "row ids are missing or not unique"
    return by_id


def _without_3(by_id):
    return {key: value for key, value in by_id.items() if key != 3}


def upserted(spark, table, query):
    request = MergeRequest(
        table=str(table), sources={"s": HERE}, query=query, on="target.id = source.id",
        when_matched=[MergeClause(update={"name": "source.name"})],
        when_not_matched=[MergeClause(insert="*")],
    )  # fmt: skip
    return merge(spark, request)


def test_a_new_table_gives_each_row_an_id_and_the_version_of_its_commit(spark, table):
    write_rows(spark, table, "SELECT 6L AS id, 0L AS part, 'six' AS name")
    by_id = ids(table)
    assert sorted(row_id for row_id, _ in by_id.values()) == list(range(7))
    assert {version for key, (_, version) in by_id.items() if key < 6} == {0}
    assert by_id[6] == (6, 1)
    assert commit(table, 1)["domainMetadata"]["configuration"] == '{"rowIdHighWaterMark":6}'


def test_an_update_keeps_ids_and_sets_the_version_of_the_updated_rows(spark, table):
    before = ids(table)
    update_rows(spark, table, {"name": "'new'"}, "id = 3")
    assert ids(table) == {**before, 3: (before[3][0], 1)}
    update_rows(spark, table, {"name": "'newer'", "part": "0"}, "id IN (1, 3)")
    assert ids(table) == {**before, 1: (before[1][0], 2), 3: (before[3][0], 2)}


def test_a_delete_keeps_the_ids_of_the_other_rows(spark, table):
    before = ids(table)
    delete_rows(spark, table, "id = 2")
    update_rows(spark, table, {"name": "'new'"}, "id = 0")
    delete_rows(spark, table, "id = 4")
    assert ids(table) == {0: (before[0][0], 2), 1: before[1], 3: before[3], 5: before[5]}


def test_a_merge_keeps_the_ids_of_matched_rows_and_gives_new_rows_new_ids(spark, table):
    before = ids(table)
    upserted(spark, table, "SELECT id, 1L AS part, 'merged' AS name FROM range(4, 8)")
    after = ids(table)
    assert {key: after[key] for key in range(4)} == {key: before[key] for key in range(4)}
    assert [after[key] for key in (4, 5)] == [(before[key][0], 1) for key in (4, 5)]
    assert all(row_id > 5 and version == 1 for row_id, version in (after[6], after[7]))


def test_a_merge_with_a_new_column_keeps_the_ids(spark, table):
    before = ids(table)
    query = "SELECT 5L AS id, 1L AS part, 'merged' AS name, 2.5D AS price"
    request = MergeRequest(
        table=str(table), sources={"s": HERE}, query=query, on="target.id = source.id", merge_schema=True,
        when_matched=[MergeClause(update="*")],
        when_not_matched_by_source=[MergeClause(condition="target.id = 1", delete=True)],
    )  # fmt: skip
    merge(spark, request)
    assert ids(table) == {key: before[key] for key in (0, 2, 3, 4)} | {5: (before[5][0], 1)}


def test_a_replacing_write_keeps_the_ids_of_surviving_rows(spark, table):
    before = ids(table)
    query = "SELECT 3L AS id, 1L AS part, 'replaced' AS name"
    write_rows(spark, table, query, mode="overwrite", replace_where="id = 3")
    after = ids(table)
    assert _without_3(after) == _without_3(before)
    assert after[3][0] > 5 and after[3][1] == 1


@pytest.mark.parametrize("z_order_by", [[], ["id", "name"]])
def test_an_optimize_keeps_ids_and_versions(spark, table, z_order_by):
    write_rows(spark, table, "SELECT id, id % 2 AS part, 'later' AS name FROM range(6, 9)")
    update_rows(spark, table, {"name": "'new'"}, "id = 3")
    delete_rows(spark, table, "id = 0")
    before, content = ids(table), rows(table)
    assert optimize_table(spark, table, z_order_by=z_order_by).committed
    assert ids(table) == before and rows(table) == content
    assert commit(table, DeltaTable(str(table)).version)["commitInfo"]["tags"] == {
        "delta.rowTracking.preserved": "true"
    }


def test_a_restore_brings_back_the_ids(spark, table):
    before = ids(table)
    update_rows(spark, table, {"name": "'new'"})
    delete_rows(spark, table, "id = 2")
    restore(spark, RestoreRequest(table=str(table), version=0))
    assert ids(table) == before
    write_rows(spark, table, "SELECT 9L AS id, 0L AS part, 'nine' AS name")
    assert ids(table)[9][0] > 5


def test_spark_reads_the_same_ids(spark, table):
    update_rows(spark, table, {"name": "'new'"}, "id = 3")
    delete_rows(spark, table, "id = 2")
    frame = read(spark, str(table), where="id > 0", options={"readRowIds": "true"})
    assert frame.columns == ["id", "part", "name", "_row_id", "_row_commit_version"]
    assert {row[0]: (row[3], row[4]) for row in frame.collect()} == {k: v for k, v in ids(table).items() if k > 0}
    assert delta.read(spark, str(table)).columns == ["id", "part", "name"]


def test_the_source_of_a_task_has_the_ids(spark, table, tmp_path):
    source = Source(format="delta", path=str(table), options={"readRowIds": "TRUE"})
    query = "SELECT id, _row_id, _row_commit_version FROM source"
    write_rows(spark, tmp_path / "copy", query, sources={"source": source})
    copied = DeltaTable(str(tmp_path / "copy")).to_arrow().to_pylist()
    assert {row["id"]: (row["_row_id"], row["_row_commit_version"]) for row in copied} == ids(table)


def test_removes_carry_the_ids_of_their_files(spark, table):
    update_rows(spark, table, {"name": "'new'"}, "id = 3")
    (removed,) = commit(table, 1)["remove"]
    names = ("baseRowId", "defaultRowCommitVersion")
    by_path = {add["path"]: [add[name] for name in names] for add in commit(table, 0)["add"]}
    assert [removed[name] for name in names] == by_path[removed["path"]]


def test_a_rearranging_write_of_the_user_says_that_it_loses_ids(spark, table):
    source = Source(format="delta", path=str(table))
    write_rows(spark, table, sources={"s": source}, mode="overwrite", data_change=False)
    assert commit(table, 1)["commitInfo"]["tags"] == {"delta.rowTracking.preserved": "false"}
    assert all(row_id > 5 for row_id, _ in ids(table).values())


def test_a_table_without_row_tracking_has_no_ids(spark, tmp_path):
    table = tmp_path / "t"
    write_rows(spark, table, "SELECT 1 AS id")
    with pytest.raises(InvalidRequestError, match="row tracking is not enabled"):
        DeltaTable(str(table)).to_arrow(columns=["_row_id"])
    with pytest.raises(InvalidRequestError, match="row tracking is not enabled"):
        read(spark, str(table), options={"readRowIds": True})

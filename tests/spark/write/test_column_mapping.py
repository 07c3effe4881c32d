"""Tables with column mapping: files, partition values and statistics use physical names, rows use logical names."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable as OtherTable
from deltalake import QueryBuilder

from deltalite import DeltaTable
from deltalite.errors import InvalidRequestError
from deltalite.requests import Source
from tests.support.tables import commit, data_files, everything, rows, spark_rows, write_rows

pytestmark = pytest.mark.spark

MODE, HIGHEST = "delta.columnMapping.mode", "delta.columnMapping.maxColumnId"
ROWS = """SELECT * FROM VALUES
    (1, 'a', named_struct('x', 1, 'l', array(named_struct('y', 'u'))), map('k', named_struct('v', 1.5D))),
    (2, 'b', NULL, NULL), (3, NULL, named_struct('x', 3, 'l', array()), map())
    AS rows(`the id`, day, s, m)"""


def fields(table):
    """For each column: its id, its physical name and its type as JSON."""
    schema = json.loads(DeltaTable(str(table)).metadata.schema_string)
    fields_by_name = {f["name"]: (f["metadata"], f["type"]) for f in schema["fields"]}
    prefix = "delta.columnMapping."
    return {n: (m.get(f"{prefix}id"), m.get(f"{prefix}physicalName"), kind) for n, (m, kind) in fields_by_name.items()}


def file_ids(table, add):
    """Name and field id of each group and leaf of the data file's own schema, at every depth."""
    ids = {}

    def walk(field):
        number = (field.metadata or {}).get(b"PARQUET:field_id")
        if number is not None:
            ids[field.name] = int(number)
        for inner in range(field.type.num_fields):
            walk(field.type.field(inner))

    for field in pq.read_schema(table / add["path"]):
        walk(field)
    return ids


def self_source(table):
    return {"source": Source(format="delta", path=str(table))}


def theirs(table, columns):
    query = QueryBuilder().register("t", OtherTable(str(table)))
    return sorted(tuple(r.values()) for r in pa.table(query.execute(f"SELECT {columns} FROM t").read_all()).to_pylist())


@pytest.mark.parametrize("mode", ["name", "id"])
def test_a_table_with_column_mapping_is_created_appended_to_and_given_a_new_schema(spark, tmp_path, mode):
    table = tmp_path / "t"
    write_rows(spark, table, ROWS, partition_by=("day",), properties={MODE: mode})
    first = commit(table, 0)
    known = fields(table)
    by_id = known["the id"][1]
    assert first["protocol"]["minReaderVersion"] == 2 and first["protocol"]["minWriterVersion"] == 5
    assert first["metaData"]["partitionColumns"] == ["day"] and first["metaData"]["configuration"][HIGHEST] == "8"
    assert {tuple(a["partitionValues"].items()) for a in first["add"]} == {
        ((known["day"][1], value),) for value in ("a", "b", None)
    }
    stats = [json.loads(a["stats"]) for a in first["add"]]
    assert sorted(s["minValues"][by_id] for s in stats) == [1, 2, 3] and "the id" not in stats[0]["minValues"]
    ids = file_ids(table, first["add"][0])
    assert ids[by_id] == known["the id"][0] and sorted(ids.values()) == [1, 3, 4, 5, 6, 7, 8]
    inner = known["s"][2]["fields"][0]["metadata"]
    assert ids[inner["delta.columnMapping.physicalName"]] == inner["delta.columnMapping.id"]
    whole = rows(table)
    assert len(whole) == 3 and whole[0][2] == {"x": 1, "l": [{"y": "u"}]} and whole[0][3] == [("k", {"v": 1.5})]

    write_rows(
        spark,
        table,
        "SELECT 4 AS `THE ID`, 'b' AS day, 9L AS added, named_struct('x', 4, 'more', 1) AS s",
        merge_schema=True,
    )
    grown = fields(table)
    assert commit(table, 1)["metaData"]["configuration"][HIGHEST] == "10" and "protocol" not in commit(table, 1)
    assert {name: grown[name][:2] for name in known} == {name: field[:2] for name, field in known.items()}
    assert grown["added"][0] in (9, 10) and grown["added"][1] not in {field[1] for field in known.values()}
    got = theirs(table, '"the id", day, added')
    assert got == sorted([(1, "a", None), (2, "b", None), (3, None, None), (4, "b", 9)], key=lambda r: r[0])

    write_rows(spark, table, "SELECT 5 AS `the id`, 'c' AS day", mode="overwrite", replace_where="`the id` >= 4")
    write_rows(spark, table, "SELECT 6 AS `the id`, 'b' AS day", mode="overwrite", partition_overwrite="dynamic")
    write_rows(
        spark, table, "SELECT 7 AS `the id`, 'c' AS day", mode="overwrite", replace_where="day = 'c' AND `the id` = 7"
    )
    assert [r[:2] for r in sorted(rows(table))] == [(1, "a"), (3, None), (5, "c"), (6, "b"), (7, "c")]
    assert [tuple(r)[:2] for r in sorted(spark_rows(spark, table))] == [r[:2] for r in sorted(rows(table))]

    write_rows(
        spark, table, "SELECT * FROM source", mode="overwrite", overwrite_schema=True, sources=self_source(table)
    )
    assert "metaData" not in commit(table, 5) and len(rows(table)) == 5  # the same columns keep their ids
    anew = "SELECT 8 AS `the id`, 'text' AS s, 1 AS fresh"
    write_rows(spark, table, anew, mode="overwrite", overwrite_schema=True, partition_by=())
    last = fields(table)
    assert last["the id"][:2] == known["the id"][:2]
    assert (last["s"][0], last["fresh"][0]) == (11, 12) and last["s"][1] != known["s"][1]
    assert commit(table, 6)["metaData"]["configuration"][HIGHEST] == "12"
    assert rows(table) == [(8, "text", 1)] == theirs(table, "*") and len(rows(table, version=0)) == 3


def test_overwrite_schema_enables_column_mapping_and_cannot_disable_it(spark, tmp_path):
    table = tmp_path / "t"
    write_rows(spark, table, "SELECT 1 AS id")
    write_rows(spark, table, "SELECT 2 AS id", mode="overwrite", overwrite_schema=True, properties={MODE: "name"})
    assert fields(table)["id"][1].startswith("col-") and commit(table, 1)["protocol"]["minReaderVersion"] == 2
    assert rows(table) == [(2,)] == theirs(table, "*") and rows(table, version=0) == [(1,)]
    before = everything(table)
    for mode in ("none", "id"):
        with pytest.raises(InvalidRequestError, match="can only change from 'none' to 'name'"):
            write_rows(spark, table, "SELECT 3 AS id", mode="overwrite", overwrite_schema=True, properties={MODE: mode})
    with pytest.raises(InvalidRequestError, match="maxColumnId"):
        write_rows(spark, tmp_path / "n", "SELECT 3 AS id", properties={MODE: "name", HIGHEST: "5"})
    assert everything(table) == before and data_files(table) and not (tmp_path / "n").exists()


def test_rows_of_a_mapped_table_are_written_without_field_ids_to_a_plain_table(spark, tmp_path):
    write_rows(spark, tmp_path / "mapped", ROWS, properties={MODE: "id"})
    write_rows(spark, tmp_path / "plain", None, sources=self_source(tmp_path / "mapped"))
    assert {field[:2] for field in fields(tmp_path / "plain").values()} == {(None, None)}
    assert file_ids(tmp_path / "plain", commit(tmp_path / "plain", 0)["add"][0]) == {}
    assert rows(tmp_path / "plain") == rows(tmp_path / "mapped")

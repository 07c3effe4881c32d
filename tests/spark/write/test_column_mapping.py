"""Tables with column mapping: files, partition values and statistics use physical names, rows use logical names."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable as DeltaRsTable
from deltalake import QueryBuilder

from deltalite import DeltaTable
from deltalite.errors import InvalidRequestError
from deltalite.requests import Source
from tests.support.tables import actions_of, data_files, folder_content, rows, spark_rows, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]

MODE, MAX_COLUMN_ID = "delta.columnMapping.mode", "delta.columnMapping.maxColumnId"
ROWS = """SELECT * FROM VALUES
    (1, 'a', named_struct('x', 1, 'l', array(named_struct('y', 'u'))), map('k', named_struct('v', 1.5D))),
    (2, 'b', NULL, NULL), (3, NULL, named_struct('x', 3, 'l', array()), map())
    AS rows(`the id`, day, s, m)"""


def fields(table):
    """(id, physical name, type as JSON) of each column, by its name."""
    schema = json.loads(DeltaTable(str(table)).metadata.schema_string)
    return {
        field["name"]: (
            field["metadata"].get("delta.columnMapping.id"),
            field["metadata"].get("delta.columnMapping.physicalName"),
            field["type"],
        )
        for field in schema["fields"]
    }


def field_ids_in_file(table, add):
    """The field id of each column of a data file and of each nested field, by name."""
    ids = {}

    def walk(field):
        field_id = (field.metadata or {}).get(b"PARQUET:field_id")
        if field_id is not None:
            ids[field.name] = int(field_id)
        for position in range(field.type.num_fields):
            walk(field.type.field(position))

    for field in pq.read_schema(table / add["path"]):
        walk(field)
    return ids


def self_source(table):
    return {"source": Source(format="delta", path=str(table))}


def rows_by_delta_rs(table, columns):
    """The rows of these columns as delta-rs reads them, sorted."""
    query = QueryBuilder().register("t", DeltaRsTable(str(table)))
    table_rows = pa.table(query.execute(f"SELECT {columns} FROM t").read_all()).to_pylist()
    return sorted(tuple(row.values()) for row in table_rows)


@pytest.mark.sample("name")
@pytest.mark.parametrize("mode", ["name", "id"])
def test_columns_of_a_mapped_table_keep_ids_and_names_unless_their_type_is_replaced(spark, tmp_path, mode):
    table = tmp_path / "t"
    write_rows(spark, table, ROWS, partition_by=("day",), properties={MODE: mode})
    creation_actions = actions_of(table, 0)
    first_fields = fields(table)
    physical_id = first_fields["the id"][1]
    assert (
        creation_actions["protocol"]["minReaderVersion"] == 2 and creation_actions["protocol"]["minWriterVersion"] == 5
    )
    assert creation_actions["metaData"]["partitionColumns"] == ["day"]
    assert creation_actions["metaData"]["configuration"][MAX_COLUMN_ID] == "8"
    assert {tuple(add["partitionValues"].items()) for add in creation_actions["add"]} == {
        ((first_fields["day"][1], value),) for value in ("a", "b", None)
    }
    stats_of_files = [json.loads(add["stats"]) for add in creation_actions["add"]]
    assert sorted(stats["minValues"][physical_id] for stats in stats_of_files) == [1, 2, 3]
    assert "the id" not in stats_of_files[0]["minValues"]
    ids = field_ids_in_file(table, creation_actions["add"][0])
    assert ids[physical_id] == first_fields["the id"][0] and sorted(ids.values()) == [1, 3, 4, 5, 6, 7, 8]
    member_metadata = first_fields["s"][2]["fields"][0]["metadata"]
    assert ids[member_metadata["delta.columnMapping.physicalName"]] == member_metadata["delta.columnMapping.id"]
    first_rows = rows(table)
    assert len(first_rows) == 3
    assert first_rows[0][2:] == ({"x": 1, "l": [{"y": "u"}]}, [("k", {"v": 1.5})])

    write_rows(
        spark,
        table,
        "SELECT 4 AS `THE ID`, 'b' AS day, 9L AS added, named_struct('x', 4, 'more', 1) AS s",
        merge_schema=True,
    )
    evolved_fields = fields(table)
    assert actions_of(table, 1)["metaData"]["configuration"][MAX_COLUMN_ID] == "10"
    assert "protocol" not in actions_of(table, 1)
    assert {name: evolved_fields[name][:2] for name in first_fields} == {
        n: field[:2] for n, field in first_fields.items()
    }
    assert evolved_fields["added"][0] in (9, 10) and evolved_fields["added"][1] not in {
        field[1] for field in first_fields.values()
    }
    evolved_rows = rows_by_delta_rs(table, '"the id", day, added')
    assert evolved_rows == [(1, "a", None), (2, "b", None), (3, None, None), (4, "b", 9)]

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
    # An overwrite with the same columns keeps their ids.
    assert "metaData" not in actions_of(table, 5) and len(rows(table)) == 5
    query = "SELECT 8 AS `the id`, 'text' AS s, 1 AS fresh"
    write_rows(spark, table, query, mode="overwrite", overwrite_schema=True, partition_by=())
    replaced_fields = fields(table)
    assert replaced_fields["the id"][:2] == first_fields["the id"][:2]
    assert (replaced_fields["s"][0], replaced_fields["fresh"][0]) == (11, 12) and replaced_fields["s"][
        1
    ] != first_fields["s"][1]
    assert actions_of(table, 6)["metaData"]["configuration"][MAX_COLUMN_ID] == "12"
    assert rows(table) == [(8, "text", 1)] == rows_by_delta_rs(table, "*") and len(rows(table, version=0)) == 3


def test_overwrite_schema_enables_column_mapping_and_cannot_disable_it(spark, tmp_path):
    table = tmp_path / "t"
    write_rows(spark, table, "SELECT 1 AS id")
    write_rows(spark, table, "SELECT 2 AS id", mode="overwrite", overwrite_schema=True, properties={MODE: "name"})
    assert fields(table)["id"][1].startswith("col-") and actions_of(table, 1)["protocol"]["minReaderVersion"] == 2
    assert rows(table) == [(2,)] == rows_by_delta_rs(table, "*") and rows(table, version=0) == [(1,)]
    content_before = folder_content(table)
    for mode in ("none", "id"):
        with pytest.raises(InvalidRequestError, match="can only change from 'none' to 'name'"):
            write_rows(spark, table, "SELECT 3 AS id", mode="overwrite", overwrite_schema=True, properties={MODE: mode})
    with pytest.raises(InvalidRequestError, match="maxColumnId"):
        write_rows(spark, tmp_path / "n", "SELECT 3 AS id", properties={MODE: "name", MAX_COLUMN_ID: "5"})
    assert folder_content(table) == content_before and data_files(table) and not (tmp_path / "n").exists()


def test_rows_of_a_mapped_table_are_written_without_field_ids_to_a_plain_table(spark, tmp_path):
    write_rows(spark, tmp_path / "mapped", ROWS, properties={MODE: "id"})
    write_rows(spark, tmp_path / "plain", None, sources=self_source(tmp_path / "mapped"))
    assert {field[:2] for field in fields(tmp_path / "plain").values()} == {(None, None)}
    assert field_ids_in_file(tmp_path / "plain", actions_of(tmp_path / "plain", 0)["add"][0]) == {}
    assert rows(tmp_path / "plain") == rows(tmp_path / "mapped")

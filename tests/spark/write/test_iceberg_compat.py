"""Data files contain the partition columns when the table has Iceberg compatibility.

The feature `materializePartitionColumns` has the same effect without Iceberg compatibility.
"""

from __future__ import annotations

import json
import shutil

import pyarrow.parquet as pq
import pytest

from deltalite import DeltaTable
from deltalite.commands.checkpoint import checkpoint
from deltalite.commands.convert.command import convert
from deltalite.commands.restore.command import restore
from deltalite.commands.table.command import define_table
from deltalite.commands.vacuum import vacuum
from deltalite.errors import InvalidRequestError, SchemaMismatchError, UnsupportedFeatureError
from deltalite.protocol.file_names import commit_name
from deltalite.requests import CheckpointRequest, ConvertRequest, RestoreRequest, TableRequest, VacuumRequest
from deltalite.spark.runtime.session import settings
from tests.support.merging import feed, merge_into
from tests.support.properties import FEED
from tests.support.tables import (
    actions_of,
    delete_rows,
    folder_content,
    optimize_table,
    rows,
    schema_json,
    spark_rows,
    update_rows,
    values,
    write_data_file,
    write_foreign_table,
    write_rows,
)

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]

V1, V2 = {"delta.enableIcebergCompatV1": "true"}, {"delta.enableIcebergCompatV2": "true"}
FEATURE = {"delta.feature.materializePartitionColumns": "supported"}
FEATURE_BY_PROPERTY = {"delta.enableMaterializePartitionColumnsFeature": "true"}
HINT = {"delta.writePartitionColumnsToParquet": "true"}
ROWS = "SELECT id, CAST(id % 2 AS STRING) AS part, 'v' || id AS v FROM range(6)"
ICEBERG = pytest.mark.parametrize("properties", [V1, V2], ids=["V1", "V2"])


@pytest.fixture
def table(tmp_path):
    return tmp_path / "t"


def columns_in_file(table, path):
    """The columns of a Parquet file by their logical names, in the order of the file."""
    fields = json.loads(DeltaTable(str(table)).metadata.schema_string)["fields"]
    logical_names = {f["metadata"].get("delta.columnMapping.physicalName", f["name"]): f["name"] for f in fields}
    columns = pq.read_table(table / path).to_pydict()
    return {logical_names[name]: column for name, column in columns.items() if name in logical_names}


def assert_partition_columns_are_in_files(table):
    """Assert that the data files and the new change files have the partition column after the others."""
    newest_actions = actions_of(table, DeltaTable(str(table)).version)
    files = [(f["path"], dict(f["partition_values"])) for f in DeltaTable(str(table)).files().to_pylist()]
    files += [(change["path"], change["partitionValues"]) for change in newest_actions.get("cdc", [])]
    assert files
    for path, partition_values in files:
        columns = columns_in_file(table, path)
        assert list(columns) == ["id", "v", "part"]
        assert set(columns["part"]) == set(partition_values.values())
        assert "=" not in path


@pytest.mark.sample(V2)
@pytest.mark.parametrize(
    "properties", [V1, V2, FEATURE, FEATURE_BY_PROPERTY, HINT], ids=["V1", "V2", "feature", "by property", "hint"]
)
def test_each_operation_writes_the_partition_columns_after_the_others(spark, table, properties):
    write_rows(spark, table, ROWS, partition_by=("part",), properties={**properties, **FEED})
    assert_partition_columns_are_in_files(table)
    write_rows(spark, table, values("id, part, v", "6, NULL, 'v6'", "7, '', 'v7'"))
    write_rows(spark, table, values("id, part, v", "8, 'ä/b=%', 'v8'"), optimize_write=True)
    update_rows(spark, table, {"v": "'new'"}, "id = 2")
    assert_partition_columns_are_in_files(table)
    assert feed(table, 3) == [("update_postimage", 2, "0", "new"), ("update_preimage", 2, "0", "v2")]
    delete_rows(spark, table, "id = 3")
    merge_into(spark, table, "SELECT 4L AS id, '1' AS part, 'moved' AS v", "target.id = source.id",
               matched=[{"update": "*"}])  # fmt: skip
    assert_partition_columns_are_in_files(table)
    optimize_table(spark, table)
    optimize_table(spark, table, z_order_by=["id"])
    assert_partition_columns_are_in_files(table)
    expected = [(0, "0", "v0"), (1, "1", "v1"), (2, "0", "new"), (4, "1", "moved"), (5, "1", "v5"), (6, None, "v6"),
                (7, None, "v7"), (8, "ä/b=%", "v8")]  # fmt: skip
    assert rows(table) == spark_rows(spark, table) == expected


@pytest.mark.parametrize("name", ["folder0", "FOLDER0", "folderfolder0"])
def test_a_column_with_the_name_of_a_folder_is_written(spark, table, name):
    query = f"SELECT id, id % 2 AS p, 'v' || id AS `{name}` FROM range(4)"
    write_rows(spark, table, query, partition_by=("p", name), properties=FEATURE)
    assert rows(table) == spark_rows(spark, table) == [(n, n % 2, f"v{n}") for n in range(4)]


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York"])
def test_a_partition_value_is_the_same_in_the_file_and_in_the_log(spark, table, zone):
    partition_values = {
        "t": "TIMESTAMP '2026-11-01 06:30:00.123456Z'", "n": "TIMESTAMP_NTZ '0001-01-01 00:00:00'",
        "d": "DATE '1582-10-04'", "m": "CAST('-0.50' AS DECIMAL(6, 2))", "f": "CAST('-0.0' AS DOUBLE)",
        "o": "true",
    }  # fmt: skip
    columns = ", ".join(f"{sql} AS {name}" for name, sql in partition_values.items())
    with settings(spark, {"spark.sql.session.timeZone": zone}):
        query = f"SELECT 1 AS id, {columns}"
        write_rows(spark, table, query, partition_by=tuple(partition_values), properties=FEATURE)
    (path,) = DeltaTable(str(table)).files()["path"].to_pylist()
    assert DeltaTable(str(table)).to_arrow().to_pylist() == pq.read_table(table / path).to_pylist()


def test_partition_columns_stay_out_of_files_without_a_request_for_them(spark, table):
    write_rows(spark, table, ROWS, partition_by=("part",), properties={"delta.writePartitionColumnsToParquet": "false"})
    (path, *_) = DeltaTable(str(table)).files()["path"].to_pylist()
    assert list(columns_in_file(table, path)) == ["id", "v"] and path.startswith("part=")


@ICEBERG
def test_a_new_table_gets_column_mapping_field_ids_and_the_features(spark, table, properties):
    write_rows(spark, table, ROWS, partition_by=("part",), properties=properties)
    creation_actions = actions_of(table, 0)
    assert creation_actions["metaData"]["configuration"]["delta.columnMapping.mode"] == "name"
    iceberg_features = [name for name in creation_actions["protocol"]["writerFeatures"] if name.startswith("iceberg")]
    assert iceberg_features == ["icebergCompatV1" if properties is V1 else "icebergCompatV2"]
    for add in creation_actions["add"]:
        ids = [field.metadata[b"PARQUET:field_id"] for field in pq.read_schema(table / add["path"])]
        assert sorted(ids) == [b"1", b"2", b"3"]
        assert json.loads(add["stats"])["numRecords"] > 0
        assert add.get("tags") == (None if properties is V1 else {"ICEBERG_COMPAT_VERSION": "2"})


def test_an_optimize_keeps_the_tag_with_the_version_of_iceberg_compatibility(spark, table):
    write_rows(spark, table, ROWS, properties=V2)
    write_rows(spark, table, ROWS)
    optimize_table(spark, table)
    (add,) = actions_of(table, 2)["add"]
    assert add["tags"]["ICEBERG_COMPAT_VERSION"] == "2" and len(add["tags"]) > 1


@pytest.mark.parametrize(
    ("properties", "query", "error", "problem"),
    [
        (V1 | V2, "SELECT 1 AS id", InvalidRequestError, "both true"),
        (V1 | {"delta.columnMapping.mode": "none"}, "SELECT 1 AS id", InvalidRequestError, "needs column mapping"),
        (V2 | {"delta.enableDeletionVectors": "true"}, "SELECT 1 AS id", InvalidRequestError, "deletion vectors"),
        (V1, "SELECT array(1) AS a", SchemaMismatchError, "array"),
        (V2, "SELECT array(1) AS a", UnsupportedFeatureError, "field ids"),
        (V2, "SELECT 1 AS id, struct(map(1, 2) AS m) AS s", UnsupportedFeatureError, "column 'm'"),
        (V2, "SELECT parse_json('1') AS v", SchemaMismatchError, "variant"),
    ],
)
def test_a_table_that_breaks_a_rule_of_iceberg_compatibility_is_not_created(
    spark, table, properties, query, error, problem
):
    with pytest.raises(error, match=problem) as error_info:
        write_rows(spark, table, query, properties=properties)
    assert error_info.value.remedy and not table.exists()
    schema = ", ".join(f"`{f.name}` {f.dataType.simpleString()}" for f in spark.sql(query).schema)
    with pytest.raises(error, match=problem):
        define_table(spark, TableRequest(table=str(table), schema=schema, properties=properties))
    assert not table.exists()


@pytest.fixture(scope="module")
def compatible_template(spark, tmp_path_factory):
    """A table with Iceberg compatibility V2 and type widening, partitioned by `part`."""
    table = tmp_path_factory.mktemp("template") / "t"
    write_rows(
        spark, table, "SELECT 1 AS id, 'a' AS part, CAST(1 AS DECIMAL(6, 2)) AS d",
        partition_by=("part",), properties={**V2, "delta.enableTypeWidening": "true"},
    )  # fmt: skip
    return table


@pytest.fixture
def compatible_table(compatible_template, table):
    """A copy of the template."""
    return shutil.copytree(compatible_template, table)


@pytest.mark.parametrize(
    ("query", "options", "error", "problem"),
    [
        ("SELECT 1 AS id, 'a' AS part, 0BD AS d, array(1) AS x", {"merge_schema": True}, UnsupportedFeatureError,
         "'x'"),
        ("SELECT 1 AS id, 'a' AS part, CAST(1 AS DECIMAL(8, 4)) AS d", {"merge_schema": True}, SchemaMismatchError,
         "no such type promotion"),
        ("SELECT 1 AS id, 'a' AS other", {"mode": "overwrite", "overwrite_schema": True, "partition_by": ("other",)},
         InvalidRequestError, r"from \(part\) to \(other\)"),
        ("SELECT 1 AS id, 'a' AS other", {"mode": "overwrite", "overwrite_schema": True, "partition_by": ()},
         InvalidRequestError, r"from \(part\) to \(\)"),
    ],
)  # fmt: skip
def test_a_write_that_breaks_a_rule_of_iceberg_compatibility_is_rejected_and_changes_nothing(
    spark, compatible_table, query, options, error, problem
):
    content_before = folder_content(compatible_table)
    with pytest.raises(error, match=problem):
        write_rows(spark, compatible_table, query, **options)
    assert folder_content(compatible_table) == content_before


def test_a_compatible_table_widens_integers_and_the_precision_of_decimals(spark, compatible_table):
    write_rows(
        spark, compatible_table, "SELECT 2L AS id, 'b' AS part, CAST(2 AS DECIMAL(9, 2)) AS d", merge_schema=True
    )
    assert [(r[0], r[1], str(r[2])) for r in rows(compatible_table)] == [(1, "a", "1.00"), (2, "b", "2.00")]
    types = {
        f["name"]: f["type"] for f in json.loads(DeltaTable(str(compatible_table)).metadata.schema_string)["fields"]
    }
    assert types == {"id": "long", "part": "string", "d": "decimal(9,2)"}


def test_the_partition_columns_may_change_their_type(spark, compatible_table):
    write_rows(spark, compatible_table, "SELECT 1 AS id, 7 AS part", mode="overwrite", overwrite_schema=True)
    assert rows(compatible_table) == [(1, 7)]


@ICEBERG
def test_a_table_with_files_becomes_compatible_only_by_an_overwrite_of_its_schema(spark, table, properties):
    write_rows(spark, table, ROWS, partition_by=("part",), properties={"delta.columnMapping.mode": "name"})
    content_before = folder_content(table)
    with pytest.raises(InvalidRequestError, match="written without the rules") as error_info:
        define_table(spark, TableRequest(table=str(table), properties=properties))
    assert "overwrite_schema=True" in error_info.value.remedy and folder_content(table) == content_before
    write_rows(spark, table, ROWS, mode="overwrite", overwrite_schema=True, properties=properties)
    assert_partition_columns_are_in_files(table)


@ICEBERG
def test_a_table_without_files_can_become_compatible_and_later_unset_the_property(spark, table, properties):
    write_rows(
        spark, table, f"{ROWS} WHERE id < 0", partition_by=("part",), properties={"delta.columnMapping.mode": "id"}
    )
    define_table(spark, TableRequest(table=str(table), properties=properties))
    write_rows(spark, table, ROWS)
    assert_partition_columns_are_in_files(table)
    define_table(spark, TableRequest(table=str(table), unset_properties=tuple(properties)))
    write_rows(spark, table, values("id, part, v", "9, 'x', 'v9'"))
    (add,) = actions_of(table, 4)["add"]
    assert list(columns_in_file(table, add["path"])) == ["id", "v"]
    assert len(rows(table)) == len(spark_rows(spark, table)) == 7


def test_an_overwrite_of_the_schema_with_iceberg_compatibility_enables_column_mapping(spark, table):
    write_rows(spark, table, "SELECT 1 AS id")
    write_rows(spark, table, "SELECT 2 AS id", mode="overwrite", overwrite_schema=True, properties=V2)
    assert actions_of(table, 1)["metaData"]["configuration"]["delta.columnMapping.mode"] == "name"
    assert rows(table) == [(2,)]


def test_a_folder_of_parquet_files_is_not_converted_to_a_compatible_table(spark, table):
    table.mkdir()
    write_data_file(table, "1.parquet", id=[1])
    content_before = folder_content(table)
    with pytest.raises(InvalidRequestError, match="written without the rules"):
        convert(spark, ConvertRequest(table=str(table), properties=V2))
    assert folder_content(table) == content_before


def test_a_restore_to_a_compatible_version_with_other_partition_columns_is_rejected(spark, table):
    write_rows(spark, table, ROWS, partition_by=("part",), properties=V2)
    define_table(spark, TableRequest(table=str(table), unset_properties=tuple(V2)))
    write_rows(spark, table, ROWS, mode="overwrite", overwrite_schema=True, partition_by=("v",))
    content_before = folder_content(table)
    with pytest.raises(InvalidRequestError, match=r"from \(v\) to \(part\)"):
        restore(spark, RestoreRequest(table=str(table), version=0))
    assert folder_content(table) == content_before
    restore(spark, RestoreRequest(table=str(table), version=1))
    assert len(rows(table)) == 6


def test_a_restore_of_a_file_without_a_record_count_is_rejected(spark, table):
    write_rows(spark, table, ROWS, properties=V2)
    log = table / commit_name(0)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        line.get("add", {}).pop("stats", None)
    log.write_text("\n".join(map(json.dumps, lines)))
    (table / "_delta_log" / f".{0:020}.json.crc").unlink(missing_ok=True)
    (table / "_delta_log" / f"{0:020}.crc").unlink(missing_ok=True)
    delete_rows(spark, table, "true", confirm_all_rows=True)
    content_before = folder_content(table)
    with pytest.raises(InvalidRequestError, match="lack numRecords"):
        restore(spark, RestoreRequest(table=str(table), version=0))
    assert folder_content(table) == content_before


def test_a_compatible_table_of_another_engine_with_an_array_rejects_writes_and_accepts_maintenance(spark, table):
    table.mkdir()
    array = {"type": "array", "elementType": "long", "containsNull": True}
    schema = json.loads(schema_json(("id", "long"), ("a", array)))
    for number, field in enumerate(schema["fields"], 1):
        field["metadata"] = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": field["name"]}
    schema["fields"][1]["metadata"]["delta.columnMapping.nested.ids"] = {"a.element": 3}
    files = [
        write_data_file(table, f"{n}.parquet", id=[n], a=[[n, 2]]) | {"stats": '{"numRecords": 1}'} for n in range(2)
    ]
    write_foreign_table(table, json.dumps(schema), files, features=("columnMapping", "icebergCompatV2"), configuration={
        **V2, "delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "3"})  # fmt: skip
    content_before = folder_content(table)
    for write in (
        lambda: write_rows(spark, table, "SELECT 1L AS id, array(1L) AS a"),
        lambda: update_rows(spark, table, {"id": "2"}, "id = 1"),
        lambda: optimize_table(spark, table),
    ):
        with pytest.raises(UnsupportedFeatureError, match="column 'a'"):
            write()
    assert folder_content(table) == content_before
    define_table(spark, TableRequest(table=str(table), properties={"delta.checkpointInterval": "20"}))
    checkpoint(spark, CheckpointRequest(table=str(table)))
    vacuum(spark, VacuumRequest(table=str(table)))
    restore(spark, RestoreRequest(table=str(table), version=0))
    assert rows(table) == spark_rows(spark, table) == [(0, [0, 2]), (1, [1, 2])]

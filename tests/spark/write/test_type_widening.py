"""In a table with type widening, columns get the wider types of new rows, and old rows keep their values."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pytest

import deltalite.spark as delta
from deltalite import DeltaTable
from deltalite.commands.checkpoint import checkpoint
from deltalite.commands.restore import restore
from deltalite.errors import SchemaMismatchError
from deltalite.protocol.type_changes import TYPE_CHANGES
from deltalite.requests import CheckpointRequest, RestoreRequest
from tests.support.merging import feed, merge_into
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
    write_foreign_table,
    write_rows,
)

pytestmark = [pytest.mark.spark, pytest.mark.generated_code, pytest.mark.usefixtures("quick_plans")]

ENABLED = {"delta.enableTypeWidening": "true"}
# For each column: the type before the widening, and the type after it.
TYPES = {
    "b": ("TINYINT", "BIGINT"),
    "i": ("INT", "BIGINT"),
    "f": ("FLOAT", "DOUBLE"),
    "d": ("DECIMAL(4,2)", "DECIMAL(12,4)"),
    "day": ("DATE", "TIMESTAMP_NTZ"),
}
# For each column: the text of a value of the narrow type, and the text of a value that needs the wide type.
SMALL = {"b": "-128", "i": "2147483647", "f": "1.5", "d": "-99.25", "day": "2026-02-28"}
LARGE = {
    "b": "3000000000", "i": "-3000000001", "f": "0.1", "d": "12345678.9876", "day": "2026-03-01 12:30:00.000001",
}  # fmt: skip


def moment(text):
    return dt.datetime.fromisoformat(text)


SMALL_VALUES = (-128, 2147483647, 1.5, Decimal("-99.2500"), moment("2026-02-28"))
LARGE_VALUES = (3000000000, -3000000001, 0.1, Decimal("12345678.9876"), moment("2026-03-01 12:30:00.000001"))
WIDE_SCHEMA = pa.schema({
    "id": pa.int32(), "b": pa.int64(), "i": pa.int64(), "f": pa.float64(), "d": pa.decimal128(12, 4),
    "day": pa.timestamp("us"),
})  # fmt: skip


def row_of(key, texts, position):
    """The query for one row. `position` chooses the type of each value: 0 is the narrow one, and 1 is the wide one."""
    columns = [f"CAST('{texts[name]}' AS {types[position]}) AS {name}" for name, types in TYPES.items()]
    return f"SELECT {key} AS id, {', '.join(columns)}"


@pytest.fixture(params=[pytest.param("files", marks=pytest.mark.campaign), "vectors"])
def table(spark, tmp_path, request):
    """A table with the narrow types and one row."""
    properties = ENABLED | {
        "delta.enableDeletionVectors": str(request.param == "vectors").lower(),
        "delta.enableChangeDataFeed": "true",
        "delta.checkpoint.writeStatsAsStruct": "true",
    }
    write_rows(spark, tmp_path / "t", row_of(1, SMALL, 0), properties=properties)
    return tmp_path / "t"


def append_large(spark, table):
    write_rows(spark, table, row_of(2, LARGE, 1), merge_schema=True)


BOTH_ROWS = [(1, *SMALL_VALUES), (2, *LARGE_VALUES)]


def assert_rows(spark, table, expected):
    """Assert that both readers return these rows with the wide types."""
    assert DeltaTable(str(table)).schema.remove_metadata().equals(WIDE_SCHEMA)
    assert rows(table) == spark_rows(spark, table) == expected


def test_an_append_widens_each_column_and_records_the_changes(spark, table):
    append_large(spark, table)
    assert_rows(spark, table, BOTH_ROWS)
    schema = json.loads(actions_of(table, 1)["metaData"]["schemaString"])
    assert {field["name"]: field["metadata"] for field in schema["fields"]} == {
        "id": {},
        "b": {TYPE_CHANGES: [{"fromType": "byte", "toType": "long"}]},
        "i": {TYPE_CHANGES: [{"fromType": "integer", "toType": "long"}]},
        "f": {TYPE_CHANGES: [{"fromType": "float", "toType": "double"}]},
        "d": {TYPE_CHANGES: [{"fromType": "decimal(4,2)", "toType": "decimal(12,4)"}]},
        "day": {TYPE_CHANGES: [{"fromType": "date", "toType": "timestamp_ntz"}]},
    }
    features = actions_of(table, 1)["protocol"]["readerFeatures"]
    assert {"typeWidening", "timestampNtz"} <= set(features)
    write_rows(spark, table, row_of(3, SMALL, 0))  # A row with the narrow types does not change the schema.
    assert "metaData" not in actions_of(table, 2)
    assert_rows(spark, table, [*BOTH_ROWS, (3, *SMALL_VALUES)])


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("i = 2147483647", [1]), ("i > 2147483647", []), ("i < -3000000000", [2]), ("f = 1.5", [1]),
        ("d = -99.25", [1]), ("day = TIMESTAMP_NTZ'2026-02-28 00:00:00'", [1]),
        ("day >= TIMESTAMP_NTZ'2026-02-28 00:00:01'", [2]),
    ],
)  # fmt: skip
@pytest.mark.sample("i = 2147483647", "day = TIMESTAMP_NTZ'2026-02-28 00:00:00'")
def test_a_condition_with_a_wider_value_finds_exactly_the_matching_rows_of_old_files(spark, table, condition, expected):
    append_large(spark, table)
    checkpoint(spark, CheckpointRequest(table=str(table)))
    matching_rows = delta.read(spark, str(table), where=condition).select("id").collect()
    assert [row.id for row in matching_rows] == expected
    result = delete_rows(spark, table, condition)
    # A delete without a matching row commits nothing, and its result has no metrics.
    assert result.committed is bool(expected) and result.metrics.get("numDeletedRows", 0) == len(expected)


@pytest.mark.campaign
def test_operations_on_old_files_keep_the_values_and_write_the_wider_types(spark, table):
    append_large(spark, table)
    write_rows(spark, table, row_of(3, SMALL, 0))
    update_rows(spark, table, {"i": "i + 1"}, "id = 1")
    updated_row = (1, SMALL_VALUES[0], 2147483648, *SMALL_VALUES[2:])
    assert_rows(spark, table, [updated_row, BOTH_ROWS[1], (3, *SMALL_VALUES)])
    assert feed(table, 3) == [("update_postimage", *updated_row), ("update_preimage", *BOTH_ROWS[0])]
    optimize_table(spark, table)
    assert_rows(spark, table, [updated_row, BOTH_ROWS[1], (3, *SMALL_VALUES)])
    delete_rows(spark, table, "day = TIMESTAMP_NTZ'2026-03-01 12:30:00.000001'")
    checkpoint(spark, CheckpointRequest(table=str(table)))
    assert_rows(spark, table, [updated_row, (3, *SMALL_VALUES)])


def test_a_merge_widens_columns_and_copies_old_rows(spark, table):
    write_rows(spark, table, row_of(3, SMALL, 0))
    optimize_table(spark, table)
    source = f"{row_of(1, LARGE, 1)} UNION ALL {row_of(2, LARGE, 1)}"
    on, clauses = "target.id = source.id", {"matched": [{"update": "*"}], "inserts": [{"insert": "*"}]}
    content_before = folder_content(table)
    with pytest.raises(Exception, match="does not convert to it without loss"):
        merge_into(spark, table, source, on, **clauses)
    assert folder_content(table) == content_before
    merge_into(spark, table, source, on, merge_schema=True, **clauses)
    assert_rows(spark, table, [(1, *LARGE_VALUES), (2, *LARGE_VALUES), (3, *SMALL_VALUES)])
    assert feed(table, 3) == [
        ("insert", 2, *LARGE_VALUES),
        ("update_postimage", 1, *LARGE_VALUES),
        ("update_preimage", *BOTH_ROWS[0]),
    ]


def test_a_restored_version_has_its_narrow_types_again(spark, table):
    rows_before = rows(table)
    append_large(spark, table)
    restore(spark, RestoreRequest(table=str(table), version=0))
    assert rows(table) == spark_rows(spark, table) == rows_before
    assert "typeChanges" not in DeltaTable(str(table)).metadata.schema_string
    append_large(spark, table)
    assert_rows(spark, table, BOTH_ROWS)
    assert rows(table, version=0) == rows_before


def test_partition_columns_widen(spark, tmp_path):
    table = tmp_path / "t"
    properties = ENABLED | {"delta.checkpoint.writeStatsAsStruct": "true"}
    narrow_query = "SELECT 1 AS id, 7 AS n, DATE'2026-02-28' AS day"
    write_rows(spark, table, narrow_query, partition_by=("n", "day"), properties=properties)
    wide_query = "SELECT 2 AS id, 3000000000L AS n, TIMESTAMP_NTZ'2026-02-28 01:00:00' AS day"
    write_rows(spark, table, wide_query, merge_schema=True)
    narrow_row, wide_row = (1, 7, moment("2026-02-28")), (2, 3000000000, moment("2026-02-28 01:00:00"))
    assert rows(table) == spark_rows(spark, table) == [narrow_row, wide_row]
    checkpoint(spark, CheckpointRequest(table=str(table)))
    assert rows(table) == spark_rows(spark, table) == [narrow_row, wide_row]
    replacement = "SELECT 3 AS id, 7L AS n, TIMESTAMP_NTZ'2026-02-28 00:00:00' AS day"
    write_rows(spark, table, replacement, mode="overwrite", partition_overwrite="dynamic")
    assert rows(table) == spark_rows(spark, table) == [wide_row, (3, 7, moment("2026-02-28"))]
    delete_rows(spark, table, "n = 7 AND day = TIMESTAMP_NTZ'2026-02-28 00:00:00'")
    assert rows(table) == [wide_row]


def test_an_overwrite_of_some_rows_copies_the_others_with_the_wider_type(spark, tmp_path):
    table = tmp_path / "t"
    write_rows(spark, table, values("id, n", "1, 10", "2, 20"), properties=ENABLED)
    options = {"mode": "overwrite", "replace_where": "id = 2", "merge_schema": True}
    write_rows(spark, table, "SELECT 2 AS id, 3000000000L AS n", **options)
    assert rows(table) == spark_rows(spark, table) == [(1, 10), (2, 3000000000)]


def test_a_column_that_a_constraint_uses_does_not_widen_but_other_columns_do(spark, tmp_path):
    table = tmp_path / "t"
    write_rows(spark, table, "SELECT 1 AS n, 1 AS m", properties=ENABLED | {"delta.constraints.positive": "n > 0"})
    content_before = folder_content(table)
    with pytest.raises(SchemaMismatchError, match="'positive'"):
        write_rows(spark, table, "SELECT 3000000000L AS n, 1 AS m", merge_schema=True)
    assert folder_content(table) == content_before
    write_rows(spark, table, "SELECT 1 AS n, 3000000000L AS m", merge_schema=True)
    assert rows(table) == [(1, 1), (1, 3000000000)]


def test_a_table_with_the_preview_feature_keeps_its_type_changes_and_does_not_widen(spark, tmp_path):
    table = tmp_path / "t"
    type_changes = [{"fromType": "short", "toType": "integer", "tableVersion": 1}]
    field = {"name": "n", "type": "integer", "nullable": True, "metadata": {TYPE_CHANGES: type_changes}}
    schema = json.dumps({"type": "struct", "fields": [field, *json.loads(schema_json(("s", "string")))["fields"]]})
    write_foreign_table(table, schema, [], features=("typeWidening-preview",), configuration=ENABLED)
    write_rows(spark, table, "SELECT 1 AS n, 'a' AS s")
    with pytest.raises(SchemaMismatchError):
        write_rows(spark, table, "SELECT 3000000000L AS n, 'a' AS s", merge_schema=True)
    write_rows(spark, table, "SELECT 2 AS n, 'b' AS s, 'c' AS new", merge_schema=True)
    fields_after = json.loads(actions_of(table, 2)["metaData"]["schemaString"])["fields"]
    assert fields_after[0]["metadata"][TYPE_CHANGES] == type_changes
    assert "protocol" not in actions_of(table, 2)
    assert rows(table) == spark_rows(spark, table) == [(1, "a", None), (2, "b", "c")]

"""Rows that do not fit the table are rejected before a write. The error names the column, both types and a remedy."""

from __future__ import annotations

import pytest

from deltalite.errors import (
    ConstraintViolationError,
    InvalidRequestError,
    SchemaMismatchError,
    SourceError,
    SourceNotFoundError,
    UnsupportedFeatureError,
)
from deltalite.requests import Source
from tests.support.tables import actions_of, folder_content, rows, schema_json, values, write_foreign_table, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]


@pytest.fixture(scope="module")
def table(spark, tmp_path_factory):
    """A table with one row and columns of many types. The tests do not change it."""
    table = tmp_path_factory.mktemp("t") / "orders"
    query = (
        "SELECT 1 AS id, 'n' AS name, 1.5F AS x, CAST(1 AS DECIMAL(10,2)) AS amount, DATE'2026-01-01' AS day, "
        "TIMESTAMP'2026-01-01 00:00:00' AS at, struct(1 AS a, 'b' AS b) AS s, array(1) AS list, "
        "map('k', 1) AS m, true AS ok"
    )
    write_rows(spark, table, query, partition_by=("day",))
    return table


@pytest.mark.parametrize(
    ("query", "column", "type_names", "remedy"),
    [
        ("SELECT 1 AS id, 2 AS extra", "extra", "int", "merge_schema=True"),
        ("SELECT 1 AS id, struct(1 AS a, 2 AS c) AS s", "s.c", "int", "merge_schema=True"),
        ("SELECT 2L AS id", "id", "int bigint", "CAST(id AS int)"),
        ("SELECT '1' AS id", "id", "int string", "CAST"),
        ("SELECT 1 AS name", "name", "string int", "CAST"),
        ("SELECT 1.5D AS x", "x", "float double", "CAST"),
        ("SELECT 16777217 AS x", "x", "float int", "CAST"),
        ("SELECT CAST(1 AS DECIMAL(12,2)) AS amount", "amount", "decimal(10,2) decimal(12,2)", "CAST"),
        ("SELECT CAST(1 AS DECIMAL(10,3)) AS amount", "amount", "decimal(10,2) decimal(10,3)", "CAST"),
        ("SELECT 1 AS amount", "amount", "decimal(10,2) int", "overwrite_schema=True"),
        ("SELECT TIMESTAMP'2026-01-01 00:00:00' AS day", "day", "date timestamp", "CAST"),
        ("SELECT TIMESTAMP_NTZ'2026-01-01 00:00:00' AS at", "at", "timestamp timestamp_ntz", "CAST"),
        ("SELECT 1 AS ok", "ok", "boolean int", "CAST"),
        ("SELECT array(1L) AS list", "list.element", "int bigint", "Rebuild list"),
        ("SELECT map('k', 'v') AS m", "m.value", "int string", "Rebuild m"),
        ("SELECT map(1, 1) AS m", "m.key", "string int", "Rebuild m"),
        ("SELECT struct('1' AS a) AS s", "s.a", "int string", "Rebuild s"),
        ("SELECT array(1) AS s", "s", "struct array", "Convert it to struct<a:int,b:string>"),
    ],
)
def test_an_error_about_types_states_the_column_both_types_and_a_remedy(
    spark, table, query, column, type_names, remedy
):
    content_before = folder_content(table)
    for mode in ("append", "overwrite"):
        with pytest.raises(SchemaMismatchError) as error_info:
            write_rows(spark, table, query, mode=mode)
        assert column in error_info.value.problem
        assert all(name in error_info.value.problem for name in type_names.split())
        assert remedy in error_info.value.remedy
    assert folder_content(table) == content_before


@pytest.mark.parametrize(
    ("query", "options", "error", "text"),
    [
        ("SELECT 1 AS id, 2 AS ID", {}, SchemaMismatchError, "'id'"),
        ("SELECT 1 AS id, INTERVAL '1' DAY AS x", {}, SchemaMismatchError, "interval"),
        ("SELECT 1 AS id, NULL AS extra", {"merge_schema": True}, SchemaMismatchError, "extra"),
        ("SELECT 1 AS id, '2L' AS amount", {"merge_schema": True}, SchemaMismatchError, "amount"),
        ("SELECT 1 AS id", {"partition_by": ("id",)}, SchemaMismatchError, "partitioned by (day)"),
        ("SELECT 1 AS id", {"partition_by": ()}, SchemaMismatchError, "partitioned by (day)"),
        (
            "SELECT 1 AS id",
            {"mode": "overwrite", "overwrite_schema": True, "partition_by": ("no",)},
            InvalidRequestError,
            "'no'",
        ),
        (
            "SELECT 1 AS id",
            {"mode": "overwrite", "overwrite_schema": True, "partition_by": ("id",)},
            InvalidRequestError,
            "every column",
        ),
        ("SELECT 1 AS id", {"mode": "overwrite", "replace_where": "nope = 1"}, InvalidRequestError, "nope"),
        ("SELECT 1 AS id", {"mode": "overwrite", "replace_where": "id ="}, InvalidRequestError, "replace_where"),
        ("SELECT 1 AS id", {"mode": "overwrite", "replace_where": "id"}, InvalidRequestError, "replace_where"),
        (
            "SELECT 1 AS id",
            {"mode": "overwrite", "replace_where": "rand() < 0.5"},
            InvalidRequestError,
            "deterministic",
        ),
        ("SELECT 1 AS id", {"mode": "overwrite", "replace_where": "id IN (SELECT 1)"}, InvalidRequestError, "subquery"),
        ("SELECT 1 AS id", {"properties": {"delta.nope": "1"}}, InvalidRequestError, "delta.nope"),
        (
            "SELECT 1 AS id",
            {"properties": {"delta.checkpointInterval": "0"}},
            InvalidRequestError,
            "checkpointInterval",
        ),
    ],
)
def test_a_query_or_option_that_does_not_fit_the_table_is_rejected(spark, table, query, options, error, text):
    content_before = folder_content(table)
    with pytest.raises(error) as error_info:
        write_rows(spark, table, query, **options)
    assert text in error_info.value.problem and error_info.value.remedy
    assert folder_content(table) == content_before


@pytest.mark.parametrize(
    ("query", "options", "error", "text"),
    [
        ("SELECT NULL AS x", {}, SchemaMismatchError, "x"),
        ("SELECT struct(array(NULL) AS deep) AS x", {}, SchemaMismatchError, "x.deep.element"),
        ("SELECT 1 AS id", {"partition_by": ("id",)}, InvalidRequestError, "every column"),
        ("SELECT 1 AS id, 2 AS x", {"partition_by": ("no",)}, InvalidRequestError, "'no'"),
        ("SELECT 1 AS id, array(1) AS x", {"partition_by": ("x",)}, InvalidRequestError, "array"),
        (
            "SELECT 1 AS id",
            {"properties": {"delta.feature.catalogManaged": "supported"}},
            UnsupportedFeatureError,
            "catalogManaged",
        ),
    ],
)
def test_a_rejected_first_write_leaves_no_folder(spark, tmp_path, query, options, error, text):
    with pytest.raises(error) as error_info:
        write_rows(spark, tmp_path / "deep" / "er" / "t", query, **options)
    assert text in str(error_info.value)
    assert not (tmp_path / "deep").exists()


@pytest.fixture
def not_null_table(tmp_path):
    """An empty table with a NOT NULL column, struct member, array element and map value."""
    table = tmp_path / "not-null"
    member = {"type": "struct", "fields": [{"name": "a", "type": "integer", "nullable": False, "metadata": {}}]}
    fields = (
        ("id", "integer"),
        ("s", member),
        ("list", {"type": "array", "elementType": "string", "containsNull": False}),
        ("m", {"type": "map", "keyType": "string", "valueType": "integer", "valueContainsNull": False}),
    )
    write_foreign_table(table, schema_json(*fields, required=("id",)), [])
    return table


@pytest.mark.parametrize(
    ("row", "column"),
    [
        ("CAST(NULL AS INT), struct(1 AS a), array('x'), map('k', 1)", "id"),
        ("1, struct(CAST(NULL AS INT) AS a), array('x'), map('k', 1)", "s.a"),
        ("1, struct(1 AS a), array('x', NULL), map('k', 1)", "list.element"),
        ("1, struct(1 AS a), array('x'), map('k', CAST(NULL AS INT))", "m.value"),
    ],
)
def test_a_null_in_a_not_null_column_or_member_of_any_depth_is_rejected(spark, not_null_table, row, column):
    valid_row = values("id, s, list, m", "1, struct(1 AS a), array('x'), map('k', 1)")
    content_before = folder_content(not_null_table)
    with pytest.raises(ConstraintViolationError, match=f"'{column}' is NOT NULL") as error_info:
        write_rows(spark, not_null_table, f"{valid_row} UNION ALL {values('id, s, list, m', row)}")
    assert '"id":' in error_info.value.problem and "Filter or fill" in error_info.value.remedy
    assert folder_content(not_null_table) == content_before


def test_a_nullable_column_with_not_null_parts_may_be_null_or_empty(spark, not_null_table):
    write_rows(spark, not_null_table, "SELECT 1 AS id")
    write_rows(spark, not_null_table, values("id, s, list, m", "2, struct(1 AS a), array(), map()"))
    assert len(rows(not_null_table)) == 2
    with pytest.raises(SchemaMismatchError, match=r"'id' .* missing"):
        write_rows(spark, not_null_table, "SELECT array('x') AS list")
    assert "metaData" not in actions_of(not_null_table, 2)


def test_rows_without_the_partition_column_cause_a_warning(spark, tmp_path, caplog):
    table = tmp_path / "t"
    write_rows(spark, table, "SELECT 1 AS id, 'a' AS day", partition_by=("day",))
    assert not caplog.messages
    write_rows(spark, table, "SELECT id FROM VALUES (2), (3) AS rows(id)")
    (message,) = [record.getMessage() for record in caplog.records if "partition column" in record.getMessage()]
    assert "2 rows" in message and "day" in message and str(table) in message
    write_rows(spark, table, "SELECT CAST(id AS INT) AS id FROM range(0)")
    assert len([record for record in caplog.records if "partition column" in record.getMessage()]) == 1
    assert rows(table) == [(1, "a"), (2, None), (3, None)]


def test_a_missing_input_is_a_retryable_error(spark, tmp_path):
    for source in (Source(format="csv", path=f"{tmp_path}/none/*.csv"), Source(format="parquet", path=f"{tmp_path}/x")):
        with pytest.raises(SourceNotFoundError, match=r"'source' .* does not exist") as error_info:
            write_rows(spark, tmp_path / "t", sources={"source": source})
        assert error_info.value.retryable and not (tmp_path / "t").exists()


def test_the_error_of_a_failed_cast_has_the_value_and_a_remedy(spark, tmp_path):
    for value, kind in (("'abc'", "INT"), ("3000000000L", "SMALLINT")):
        with pytest.raises(SourceError, match=r"abc|3000000000") as error_info:
            write_rows(spark, tmp_path / "t", f"SELECT CAST(v AS {kind}) AS id FROM VALUES ({value}) AS rows(v)")
        assert f"try_cast(... AS {kind})" in error_info.value.remedy

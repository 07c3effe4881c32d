"""UPDATE and MERGE convert a text to the type of its column if nothing is lost, and accept the keyword DEFAULT."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
from pyspark.sql import functions as F  # noqa: N812  the usual name

from deltalite import DeltaTable
from deltalite.errors import ConstraintViolationError, InvalidRequestError, SourceError
from deltalite.protocol.schema import parse_type
from deltalite.spark.columns.text_values import text_value
from tests.support.column_rules import high_water_marks, table_with_column_rules
from tests.support.merging import merge_into
from tests.support.tables import rows as rows_of
from tests.support.tables import update_rows, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]

ON = "target.id = source.id"
ROW_OF_ALL_TYPES = (
    "SELECT 1L AS id, 1S AS small, 1 AS n, 1L AS big, CAST(1 AS DECIMAL(10,2)) AS price, 1.5F AS f, 1.5D AS x, "
    "true AS b, "
    "DATE'2020-01-01' AS day, TIMESTAMP'2020-01-01 00:00:00' AS at, TIMESTAMP_NTZ'2020-01-01 00:00:00' AS local, "
    "X'00' AS raw"
)
# For each column: a text in SQL, and the value to which it converts.
TEXTS = {
    "small": ("'-32768'", -32768),
    "n": ("' 7 '", 7),
    "big": ("'5'", 5),
    "price": ("'2.5000'", Decimal("2.50")),
    "f": ("'0.1'", pytest.approx(0.1)),
    "x": ("'8'", 8.0),
    "b": ("'true'", True),
    "day": ("'2024-01-02'", dt.date(2024, 1, 2)),
    "at": ("'2024-01-02'", dt.datetime(2024, 1, 2, tzinfo=dt.UTC)),
    "local": ("'2024-01-02 03:04:05'", dt.datetime(2024, 1, 2, 3, 4, 5)),  # noqa: DTZ001  the column has no time zone
    "raw": ("'ab'", b"ab"),
}


def test_literal_texts_are_converted_to_the_types_of_columns(spark, tmp_path):
    table = tmp_path / "t"
    write_rows(spark, table, ROW_OF_ALL_TYPES)
    expected = {"id": 1, **{column: value for column, (_, value) in TEXTS.items()}}
    update_rows(spark, table, {column: text for column, (text, _) in TEXTS.items()})
    assert DeltaTable(str(table)).to_arrow().to_pylist() == [expected]
    source = "SELECT " + ", ".join(f"{text} AS {column}" for column, (text, _) in TEXTS.items()) + ", '2' AS id"
    merge_into(spark, table, source, "false", inserts=[{"insert": "*"}])
    assert sorted(DeltaTable(str(table)).to_arrow().to_pylist(), key=lambda row: row["id"]) == [
        expected,
        expected | {"id": 2},
    ]
    with pytest.raises(SourceError, match=r"'x' is double, and the value abc \(string\) does not convert to it"):
        update_rows(spark, table, {"x": "'abc'"})
    with pytest.raises(SourceError, match=r"'big' is bigint, and the value 5\.5 \(string\)"):
        merge_into(spark, table, "SELECT '5.5' AS v", "true", matched=[{"update": {"big": "source.v"}}])


# For each type: texts that convert without loss, and texts that do not.
CONVERSIONS = {
    "integer": (["5", "-7", "+1"], ["5.5", "5.0", "3000000000", "x", "", "1e3"]),
    "double": (
        ["8", "0.1", "-1e-3", "1e300", "-0", "0e9", "5.", "NaN", "-Infinity", "1.7976931348623157E308"],
        ["1e999", "0.12345678901234567890", "123456789012345678901234", "1.23456789012345678901e-30", "1e-999", "x"],
    ),
    "float": (["0.1", "16777216"], ["16777217", "1e39", "1e-50", "1.23456789e30"]),
    "decimal(5,2)": (
        ["1.00000", "-.5", "12e1", "999.99", "0e5"],
        ["1.005", "1000", "1005e-3", "1.5e-40", f"1.{'0' * 40}1e0", "x"],
    ),
    "decimal(38,0)": (["99999999999999999999999999999999999999", "7."], ["7.5"]),
    "boolean": (["true", "F"], ["maybe"]),
    "date": (
        ["2024-01-02", "2024", "2024-01-02 00:00:00"],
        ["2024-01-02 10:00:00", "2024-13-01", "now", "2024-01Tx"],
    ),
    "timestamp": (
        ["2024-01-02", "2024-01-02T03:04:05.123456", "2024-01-02 03:04:05+01:00", "2024-01-02 03:04:05 Europe/Berlin"],
        ["10:00", "today", "2024-01-02 03:04:05.1234567"],
    ),
    "timestamp_ntz": (["2024-01-02 03:04:05"], ["2024-01-02 03:04:05+01:00", "now"]),
}


def test_a_text_that_cannot_be_converted_without_loss_becomes_null(spark):
    for name, (exact, lossy) in CONVERSIONS.items():
        texts = spark.createDataFrame([(text,) for text in [*exact, *lossy]], "value STRING")
        values = texts.select("value", text_value(F.col("value"), parse_type(name)).alias("converted")).collect()
        assert [row["value"] for row in values if row["converted"] is not None] == exact, name


@pytest.mark.campaign
def test_the_keyword_default_gives_the_default_of_the_column(spark, tmp_path):
    table = table_with_column_rules(tmp_path / "t")
    source = "SELECT 1L AS id, 5 AS x, TIMESTAMP'2026-01-01 10:00:00' AS at"
    insert = {"id": "id", "x": "x", "at": "at", "kind": "'given'", "day": "DEFAULT", "n": "default"}
    merge_into(spark, table, source, ON, inserts=[{"insert": insert}])
    day = dt.date(2026, 1, 1)
    assert [(row[0], row[2], row[4], row[5]) for row in rows_of(table)] == [(50, 5, day, "given")]
    assert high_water_marks(table, 1)["n"] == 50
    update_rows(spark, table, {"kind": " Default ", "at": "TIMESTAMP'2026-01-03 00:00:00'", "day": "DEFAULT"})
    assert [(row[4], row[5]) for row in rows_of(table)] == [(dt.date(2026, 1, 3), "new")]
    merge_into(spark, table, source, ON, matched=[{"update": {"at": "DEFAULT", "kind": "'debt'"}}])
    assert [(row[3], row[4], row[5]) for row in rows_of(table)] == [(None, None, "debt")]
    with pytest.raises(ConstraintViolationError, match="'id' is NOT NULL"):
        update_rows(spark, table, {"id": "DEFAULT"})
    with pytest.raises(InvalidRequestError, match="identity column 'n'"):
        update_rows(spark, table, {"n": "DEFAULT"})


def test_the_word_default_is_a_column_name_if_the_table_has_such_a_column(spark, tmp_path):
    write_rows(spark, tmp_path / "t", "SELECT 1 AS a, 7 AS `default`")
    update_rows(spark, tmp_path / "t", {"a": "DEFAULT"})
    assert rows_of(tmp_path / "t") == [(7, 7)]

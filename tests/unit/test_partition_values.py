"""Partition values are text in the log and typed everywhere else."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltalite.errors import CorruptLogError, UnsupportedFeatureError
from deltalite.protocol.partition_values import parse_partition_value
from deltalite.protocol.schema import ArrayType, DecimalType, MapType, PrimitiveType, StructType

PRIMITIVE_NAMES = ["string", "long", "integer", "short", "byte", "float", "double", "boolean", "binary", "date"]


def kind(name):
    return DecimalType(10, 2) if name == "decimal" else PrimitiveType(name)


@pytest.mark.parametrize("name", [*PRIMITIVE_NAMES, "timestamp", "timestamp_ntz", "decimal"])
@pytest.mark.parametrize("text", [None, ""])
def test_null_and_the_empty_text_are_null_for_every_type(name, text):
    assert parse_partition_value(text, kind(name)) is None


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("ä/b c", "string", "ä/b c"),
        (" ", "string", " "),
        ("-128", "byte", -128),
        ("9223372036854775807", "long", 9223372036854775807),
        ("-12.50", "decimal", Decimal("-12.50")),
        ("0E-8", "decimal", Decimal(0)),
        ("1.5E10", "double", 1.5e10),
        ("-Infinity", "float", float("-inf")),
        ("true", "boolean", True),
        ("FALSE", "boolean", False),
        ("2026-02-28", "date", date(2026, 2, 28)),
        ("0001-01-01", "date", date(1, 1, 1)),
        ("\x01ü", "binary", b"\x01\xc3\xbc"),
        ("2026-01-01 10:20:30", "timestamp", datetime(2026, 1, 1, 10, 20, 30, tzinfo=UTC)),
        ("2026-01-01 10:20:30.123456", "timestamp", datetime(2026, 1, 1, 10, 20, 30, 123456, UTC)),
        ("2026-01-01 10:20:30.5", "timestamp", datetime(2026, 1, 1, 10, 20, 30, 500000, UTC)),
        ("2026-01-01T10:20:30.123456Z", "timestamp", datetime(2026, 1, 1, 10, 20, 30, 123456, UTC)),
        ("2026-01-01T10:20:30+02:00", "timestamp", datetime(2026, 1, 1, 8, 20, 30, tzinfo=UTC)),
        ("2026-01-01 10:20:30.000001", "timestamp_ntz", datetime(2026, 1, 1, 10, 20, 30, 1)),  # noqa: DTZ001
    ],
)
def test_text_becomes_a_value_of_the_column_s_type(text, name, value):
    found = parse_partition_value(text, kind(name))
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("x", "long"), ("1.5", "integer"), ("yes", "boolean"), ("1", "boolean"), ("2026-13-01", "date"),
        ("yesterday", "timestamp"), ("2026-01-01 25:00:00", "timestamp_ntz"), ("1,5", "decimal"), ("1,5", "double"),
    ],
)  # fmt: skip
def test_text_that_is_no_value_of_the_type_is_refused_by_both_names(text, name):
    with pytest.raises(CorruptLogError, match=r"partition value '.*', which is no "):
        parse_partition_value(text, kind(name))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("-9999-12-31 23:59:59.999999", "timestamp_ntz"),
        ("0000-01-01 00:00:00", "timestamp"),
        ("-0001-01-01", "date"),
        ("+10000-01-01", "date"),
        ("0001-01-01T00:00:00+01:00", "timestamp"),
    ],
)
def test_years_that_python_does_not_have_are_refused_as_unsupported_and_not_as_corrupt(text, name):
    with pytest.raises(UnsupportedFeatureError, match="years 1 to 9999"):
        parse_partition_value(text, kind(name))


@pytest.mark.parametrize("nested", [ArrayType(PrimitiveType("long")), StructType(()), PrimitiveType("void")])
def test_nested_types_partition_nothing(nested):
    with pytest.raises(CorruptLogError):
        parse_partition_value("1", nested)
    with pytest.raises(CorruptLogError):
        parse_partition_value("1", MapType(PrimitiveType("long"), nested))


@given(moment=st.datetimes())
def test_every_time_of_day_comes_back_from_spark_s_spelling(moment):
    text = f"{moment:%H:%M:%S}.{moment.microsecond:06d}".rstrip("0").rstrip(".")
    spelled = f"{moment.year:04d}-{moment:%m-%d} {text}"
    assert parse_partition_value(spelled, PrimitiveType("timestamp_ntz")) == moment
    assert parse_partition_value(spelled, PrimitiveType("timestamp")) == moment.replace(tzinfo=UTC)

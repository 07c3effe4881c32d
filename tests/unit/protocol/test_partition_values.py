"""Partition values are text in the log and typed everywhere else."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltalite.errors import CorruptLogError, UnsupportedFeatureError
from deltalite.protocol.arrow_schema import type_to_arrow
from deltalite.protocol.partition_values import canonical_text, parse_partition_value, partition_scalar, partition_text
from deltalite.protocol.schema import ArrayType, DecimalType, MapType, PrimitiveType, StructType

PRIMITIVE_NAMES = ["string", "long", "integer", "short", "byte", "float", "double", "boolean", "binary", "date"]


def data_type(name):
    return DecimalType(10, 2) if name == "decimal" else PrimitiveType(name)


@pytest.mark.parametrize("name", [*PRIMITIVE_NAMES, "timestamp", "timestamp_ntz", "decimal"])
@pytest.mark.parametrize("text", [None, ""])
def test_null_and_the_empty_text_are_null_for_every_type(name, text):
    assert parse_partition_value(text, data_type(name)) is None
    assert partition_scalar(text, data_type(name)) == pa.scalar(None, type_to_arrow(data_type(name)))


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
def test_text_becomes_a_value_of_the_type_of_the_column(text, name, value):
    parsed = parse_partition_value(text, data_type(name))
    assert (parsed, type(parsed)) == (value, type(value))
    assert partition_scalar(text, data_type(name)) == pa.scalar(value, type_to_arrow(data_type(name)))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("x", "long"), ("1.5", "integer"), ("yes", "boolean"), ("1", "boolean"), ("2026-13-01", "date"),
        ("yesterday", "timestamp"), ("2026-01-01 25:00:00", "timestamp_ntz"), ("1,5", "decimal"), ("1,5", "double"),
        ("NaN", "decimal"), ("Infinity", "decimal"), ("1_000", "long"), (" 1", "long"), ("1_0.5", "double"),
        ("\u0661", "long"),
        ("20260101", "date"), ("2026-W01-1", "date"), ("2026-01-01x", "date"), ("2026-02-30", "date"),
        ("-2026-02-29", "date"), ("-0001-13-01 00:00:00", "timestamp"), ("10000-01-01 24:00:00", "timestamp_ntz"),
        ("1000000000-01-01", "date"), ("2026-001-01", "date"), ("226-01-01", "date"), (" ", "date"),
        ("2026-01-01 10:20:30 Mars/Olympus", "timestamp"), ("2026-01-01 10:20:30 ../etc/passwd", "timestamp"),
        ("2026-01-01 10:20:30 localtime", "timestamp"), ("2026-01-01 10:20:30+19:00", "timestamp"),
        ("2026-01-01 10:20:30 Mars/Olympus", "timestamp_ntz"), ("10:20:30", "timestamp"), ("T10:20:30", "timestamp"),
        ("9999-12-31 23:59:59 Europe/Berlin" * 2, "timestamp"), ("12000-01-01 00:00:00 Europe/Berlin", "timestamp"),
    ],
)  # fmt: skip
def test_the_error_names_the_text_and_the_type_that_it_does_not_fit(text, name):
    for parse in (parse_partition_value, partition_scalar):
        with pytest.raises(CorruptLogError, match=r"partition value '.*', which is not a valid "):
            parse(text, data_type(name))


@pytest.mark.parametrize(
    ("text", "name"),
    [("128", "byte"), ("-32769", "short"), ("2147483648", "integer"), ("9223372036854775808", "long"),
     ("1.234", "decimal"), ("123456789.00", "decimal"), ("400000-01-01 00:00:00", "timestamp")],
)  # fmt: skip
def test_a_value_that_does_not_fit_its_type_has_no_scalar(text, name):
    with pytest.raises(CorruptLogError, match=r"partition value '.*', which is not a valid "):
        partition_scalar(text, data_type(name))


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
def test_years_beyond_the_calendar_of_python_are_unsupported_and_not_corrupt(text, name):
    with pytest.raises(UnsupportedFeatureError, match="years 1 to 9999"):
        parse_partition_value(text, data_type(name))
    assert partition_scalar(text, data_type(name)).is_valid


@pytest.mark.parametrize(
    ("text", "name", "number"),
    [  # the numbers of numpy's proleptic calendar
        ("1970-01-01", "date", 0),
        ("0000-12-31", "date", -719163),
        ("0000-02-29", "date", -719469),
        ("-0001-01-01", "date", -719893),
        ("-9999-12-31", "date", -4371223),
        ("+10000-01-01", "date", 2932897),
        ("10000-01-01", "date", 2932897),
        ("-9999-12-31 23:59:59.999999", "timestamp_ntz", -4371222 * 86_400_000_000 - 1),
        ("0000-01-01 00:00:00", "timestamp", -719528 * 86_400_000_000),
        ("0001-01-01T00:00:00+01:00", "timestamp", -719162 * 86_400_000_000 - 3_600_000_000),
        ("0001-01-01T00:00:00-0130", "timestamp", -719162 * 86_400_000_000 + 5_400_000_000),
        ("+10000-01-01T00:00:00.5Z", "timestamp", 2932897 * 86_400_000_000 + 500_000),
        ("9999-12-31 23:59:59.999999", "timestamp_ntz", 2932897 * 86_400_000_000 - 1),
        ("0001-01-01T00:00:00+01:00", "timestamp_ntz", -719162 * 86_400_000_000),
        ("1969-12-31 23:59:59.9999999", "timestamp_ntz", -1),
    ],
)
def test_every_year_that_spark_writes_has_a_scalar(text, name, number):
    scalar = partition_scalar(text, data_type(name))
    assert scalar.type == type_to_arrow(data_type(name))
    assert scalar.cast(pa.int32() if name == "date" else pa.int64()).as_py() == number


@given(days=st.integers(-4_000_000, 4_000_000))
def test_the_calendar_is_that_of_arrow(days):
    day = pa.array([days], pa.date32())
    year, month, day_of_month = (function(day)[0].as_py() for function in (pc.year, pc.month, pc.day))
    text = f"{'-' if year < 0 else ''}{abs(year):04d}-{month:02d}-{day_of_month:02d}"
    assert partition_scalar(text, data_type("date")) == day[0]


@pytest.mark.parametrize("unsupported_type", [ArrayType(PrimitiveType("long")), StructType(()), PrimitiveType("void")])
def test_nested_and_void_types_are_rejected_as_partition_types(unsupported_type):
    with pytest.raises(CorruptLogError):
        parse_partition_value("1", unsupported_type)
    with pytest.raises(CorruptLogError):
        parse_partition_value("1", MapType(PrimitiveType("long"), unsupported_type))


@given(moment=st.datetimes())
def test_every_time_of_day_parses_from_the_spelling_of_spark(moment):
    text = f"{moment:%H:%M:%S}.{moment.microsecond:06d}".rstrip("0").rstrip(".")
    spelling = f"{moment.year:04d}-{moment:%m-%d} {text}"
    assert parse_partition_value(spelling, PrimitiveType("timestamp_ntz")) == moment
    assert parse_partition_value(spelling, PrimitiveType("timestamp")) == moment.replace(tzinfo=UTC)
    assert partition_scalar(spelling, PrimitiveType("timestamp_ntz")) == pa.scalar(moment, pa.timestamp("us"))


def test_the_column_name_of_a_partition_value_is_case_insensitive():
    assert partition_text({"day": "x", "Day": "y"}, "Day") == "y"
    assert partition_text({"day": "x"}, "Day") == "x"
    assert partition_text({"Day": None, "day": "x"}, "Day") is None
    assert partition_text({}, "Day") is None


@pytest.mark.parametrize(
    ("text", "name", "canonical"),
    [
        ("2020-1-1", "date", "2020-01-01"),
        ("-0001-1-1T", "date", "-0001-01-01"),
        ("99999-12-31", "date", "+99999-12-31"),
        ("0000-02-29", "date", "0000-02-29"),
        ("2020-1-1 1:2:3 UTC", "timestamp", "2020-01-01 01:02:03.000000Z"),
        ("1969-12-31 23:59:59.9999999", "timestamp", "1969-12-31 23:59:59.999999Z"),
        ("2020-1-1 1:2:3 +0130", "timestamp_ntz", "2020-01-01 01:02:03.000000"),
        ("x y", "string", "x y"),
        ("1.2345", "decimal", "1.2345"),
        ("", "string", None),
    ],
)
def test_each_value_has_one_canonical_spelling(text, name, canonical):
    assert canonical_text(text, data_type(name)) == canonical


def test_an_invalid_text_has_no_canonical_spelling():
    with pytest.raises(CorruptLogError):
        canonical_text("-1-01-01", data_type("date"))

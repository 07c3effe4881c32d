"""The reader skips a row group if the bounds in the footer prove that no row matches the predicate."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from deltalite.columnar.predicates.predicate import In, IsNotNull, IsNull, Not, StartsWith
from deltalite.errors import CorruptDataFileError
from deltalite.protocol.column_mapping import MappingMode, TableSchema
from deltalite.protocol.schema import ArrayType, DecimalType, PrimitiveType, StructType
from tests.support.lake import NUMBERS, add_numbers, comparison, field_with, read_numbers, struct_of
from tests.support.vectors import inline_vector

LONG, STRING = PrimitiveType("long"), PrimitiveType("string")
INSTANT = datetime(2026, 1, 1, 12, 0, 0, 123_456, tzinfo=UTC)


def timestamps(unit, zone="UTC"):
    start = int(INSTANT.timestamp() * 1_000_000)
    return pa.array([start + n for n in range(4)], pa.timestamp("us", zone)).cast(pa.timestamp(unit, zone), safe=False)


DATE, DOUBLE, NTZ, TIMESTAMP = (PrimitiveType(name) for name in ("date", "double", "timestamp_ntz", "timestamp"))
DAYS = pa.array([date(2026, 1, day) for day in (1, 2, 3, 4)])
EXTREME_DAYS = pa.array([-800_000, 3_000_000, 0, 1], pa.int32()).cast(pa.date32())
CENTS = pa.array([Decimal("1.50"), Decimal("-2.00"), None, Decimal("9.99")])
LOCAL = INSTANT.replace(tzinfo=None, microsecond=123_457)
# Each case has a column with four rows in four row groups, its type, a predicate, the rows that the predicate selects,
# and the row groups that are read.
SKIPPING = [
    (pa.array([1, 2, 3, None]), LONG, comparison("c", ">", 2), [2], [2]),
    (pa.array([1, 2, 3, None]), LONG, IsNull(("c",)), [3], [3]),
    (pa.array([1, 2, 3, None]), LONG, IsNotNull(("c",)), [0, 1, 2], [0, 1, 2]),
    (pa.array([1, 2, 3, None]), LONG, Not(comparison("c", "=", 2)), [0, 2], [0, 2]),
    (pa.array([1, 2, 3, None]), LONG, comparison("c", "<=>", None), [3], [3]),
    (pa.array([1, 2, 3, None], pa.int8()), LONG, In(("c",), (1, 3)), [0, 2], [0, 2]),
    (pa.array([1, 2, 3, None], pa.int32()), DecimalType(12, 1), comparison("c", ">", Decimal("1.5")), [1, 2], [1, 2]),
    (pa.array([1, 2, 3, None], pa.int32()), DOUBLE, comparison("c", ">", 2.5), [2], [0, 1, 2]),
    (pa.array([1.5, math.nan, -0.0, 0.0]), DOUBLE, comparison("c", ">", 1.0), [0, 1], [0, 1, 2, 3]),
    (pa.array([1.5, math.nan, -0.0, 0.0]), DOUBLE, comparison("c", "=", 0.0), [2, 3], [1, 2, 3]),
    (pa.array([1.5, math.nan, -0.0, 0.0]), DOUBLE, comparison("c", "<", 1.0), [2, 3], [1, 2, 3]),
    (pa.array([0.5, 1.5, 2.5, 3.5], pa.float32()), DOUBLE, comparison("c", "<", 2.0), [0, 1], [0, 1]),
    (pa.array(["a", "b", "ba", None]), STRING, comparison("c", "<", "b"), [0], [0]),
    (pa.array(["a", "b", "ba", None]), STRING, StartsWith(("c",), "b"), [1, 2], [1, 2]),
    (pa.array(["a", "b", "ba", "\U0001f600"]), STRING, comparison("c", ">", "\uffff"), [3], [3]),
    (pa.array([b"a", b"b", b"\xff", None]), PrimitiveType("binary"), comparison("c", ">", b"b"), [2], [0, 1, 2]),
    (pa.array([True, False, None, True]), PrimitiveType("boolean"), comparison("c", "=", False), [1], [1]),
    (DAYS, DATE, comparison("c", "<", date(2026, 1, 3)), [0, 1], [0, 1]),
    (EXTREME_DAYS, DATE, comparison("c", "=", date(1970, 1, 2)), [3], [0, 1, 3]),
    (CENTS, DecimalType(3, 2), comparison("c", "<", Decimal("1.505")), [0, 1], [0, 1]),
    (timestamps("us"), TIMESTAMP, comparison("c", "=", INSTANT.replace(microsecond=123_458)), [2], [2]),
    (timestamps("us", None), NTZ, comparison("c", ">", LOCAL), [2, 3], [2, 3]),
    (timestamps("ns", None), TIMESTAMP, comparison("c", "<=", INSTANT), [0], [0]),
    (timestamps("ms"), TIMESTAMP, comparison("c", "<", INSTANT), [0, 1, 2, 3], [0, 1, 2, 3]),
    (pa.array([{"x": 1}, None, {"x": None}, {"x": 4}]), struct_of(x=LONG), comparison("c/x", ">", 1), [3], [3]),
    (pa.array([{"x": 1}, None, {"x": None}, {"x": 4}]), struct_of(x=LONG), IsNull(("c", "x")), [1, 2], [1, 2]),
    (pa.array([{"x": 1}, None, {"x": None}, {"x": 4}]), struct_of(x=LONG), IsNull(("c",)), [1], [0, 1, 2, 3]),
    (pa.array([{"x": 1}, None, {"x": 2}, {"x": 4}]), struct_of(x=LONG, new=LONG), IsNotNull(("c", "new")), [], []),
    (pa.array([[1], None, [], [None]]), ArrayType(LONG), IsNull(("c",)), [1], [0, 1, 2, 3]),
    (pa.array([1, 2, 3, 4]), LONG, comparison("p", "=", "b"), [], []),
    (pa.array([1, 2, 3, 4]), LONG, IsNull(("missing",)), [0, 1, 2, 3], [0, 1, 2, 3]),
    (pa.array([1, 2, 3, 4]), LONG, comparison("missing", "=", 1), [], []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("column", "kind", "predicate", "rows", "groups"), SKIPPING, ids=lambda value: f"{value!s:.60}"
)
def test_row_groups_are_skipped_only_if_no_row_can_match(lake, read_groups, column, kind, predicate, rows, groups):
    lake.add(pa.table({"c": column}), partition_values={"p": "a"}, row_group_size=1)
    schema = struct_of(c=kind, p=STRING, missing=LONG)
    rows_read = lake.rows_of(schema, ["p"], predicate=predicate, columns=["_row_index"])
    assert ([row["_row_index"] for row in rows_read], read_groups) == (rows, groups)


@pytest.mark.parametrize("options", [{"write_statistics": False}, {"write_statistics": ["other"]}])
def test_every_row_group_is_read_if_the_column_has_no_statistics(lake, read_groups, options):
    add_numbers(lake, 4, 2, **options)
    assert read_numbers(lake, predicate=comparison("a", "=", 3)) == [3] and read_groups == [0, 1]


def test_int96_and_julian_dates_have_no_bounds(lake, read_groups):
    spark_metadata = {"org.apache.spark.version": "2.4.0", "org.apache.spark.timeZone": "UTC"}
    days = pa.array([-141_428, -141_420], pa.int32()).cast(pa.date32())
    stored_table = pa.table({"d": days, "t": pa.array([1, 2], pa.timestamp("us"))}).replace_schema_metadata(
        spark_metadata
    )
    lake.add(stored_table, row_group_size=1, use_deprecated_int96_timestamps=True)
    schema = struct_of(d=DATE, t=TIMESTAMP)
    rows_read = lake.rows_of(schema, predicate=comparison("d", "=", date(1582, 10, 4)), columns=["_row_index"])
    assert rows_read == [{"_row_index": 0}] and read_groups == [0, 1]
    read_groups.clear()
    assert lake.rows_of(schema, predicate=comparison("t", ">", INSTANT)) == [] and read_groups == [0, 1]


def test_a_time_between_two_microseconds_is_rejected_and_not_skipped(lake):
    lake.add(pa.table({"t": pa.array([5_500], pa.timestamp("ns"))}))
    above = comparison("t", ">", datetime(1970, 1, 1, 0, 0, 0, 5, tzinfo=UTC))
    with pytest.raises(CorruptDataFileError, match="would lose data"):
        lake.read(struct_of(t=TIMESTAMP), predicate=above)


def test_row_groups_of_mapped_columns_are_skipped_by_their_bounds(lake, read_groups):
    lake.add(pa.table({"a": [1, 9], "b": [9, 1]}), row_group_size=1)
    table = TableSchema(
        logical=StructType((field_with("a", LONG, physical="b", id=2), field_with("b", LONG, physical="a", id=1))),
        mode=MappingMode.NAME,
    )
    assert lake.rows_of(table, predicate=comparison("a", ">", 5)) == [{"a": 9, "b": 1}] and read_groups == [0]


def test_positions_and_vectors_stay_correct_if_row_groups_are_skipped(lake, read_groups):
    add_numbers(lake, 12, 3, deletion_vector=inline_vector([1, 7, 10]))
    rows_read = lake.rows_of(NUMBERS, predicate=comparison("a", ">=", 6), columns=["_row_index", "a"])
    assert [tuple(row.values()) for row in rows_read] == [(n, n) for n in (6, 8, 9, 11)] and read_groups == [2, 3]

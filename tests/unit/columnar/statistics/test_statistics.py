"""Statistics come from the Parquet footer. No value is below the minimum or above the maximum."""

from __future__ import annotations

import io
import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltalite.columnar.statistics.footer import indexed_columns, parse_column_list, statistics_json
from deltalite.columnar.statistics.string_bounds import cut_max, cut_min
from deltalite.errors import InvalidRequestError
from deltalite.protocol.column_mapping import TableSchema
from deltalite.protocol.schema import PrimitiveType, StructField, StructType
from tests.unit.builders import schema_from_arrow

LONG = PrimitiveType("long")
NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001  the tests need a time without a time zone


def footer_of(table, **options):
    file = io.BytesIO()
    pq.write_table(table, file, **options)
    return pq.read_metadata(io.BytesIO(file.getvalue()))


def stats_text(table, *, schema=None, partition_columns=(), configuration=None, **options):
    schema = schema or schema_from_arrow(table.schema)
    indexed = indexed_columns(
        TableSchema(logical=schema, partition_columns=tuple(partition_columns)), configuration or {}
    )
    return statistics_json(footer_of(table, **options), indexed)


def stats(table, **options):
    return json.loads(stats_text(table, **options))


def stats_of_column(values, arrow_type, **options):
    return stats(pa.table({"c": pa.array(values, arrow_type)}), **options)


@pytest.mark.parametrize(
    ("values", "arrow_type", "low", "high"),
    [
        ([3, None, -1], pa.int8(), -1, 3),
        ([2**62, 0], pa.int64(), 0, 2**62),
        ([1.5, -2.5], pa.float32(), -2.5, 1.5),
        (["b", "añ"], pa.string(), "añ", "b"),
        ([date(2026, 1, 2), date(1, 1, 1)], pa.date32(), "0001-01-01", "2026-01-02"),
        ([datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), datetime(2026, 1, 1, 0, 0, 0, 1_999, tzinfo=UTC)],
         pa.timestamp("us", "UTC"), "1969-12-31T23:59:59.999Z", "2026-01-01T00:00:00.001Z"),
        ([NAIVE], pa.timestamp("us"), "2026-01-01T00:00:00.000", "2026-01-01T00:00:00.000"),
    ],
    ids=str,
)  # fmt: skip
def test_bounds_have_the_spelling_of_spark(values, arrow_type, low, high):
    statistics = stats_of_column(values, arrow_type)
    assert statistics["minValues"]["c"] == low and statistics["maxValues"]["c"] == high
    assert statistics["numRecords"] == len(values) and statistics["nullCount"]["c"] == values.count(None)


@pytest.mark.parametrize("as_integer", [True, False])
def test_decimals_are_numbers_with_all_their_digits(as_integer):
    amounts = pa.array([Decimal("123456789012345678901234567890.10"), Decimal("-0.01")], pa.decimal128(38, 2))
    small_amounts = pa.array([Decimal("1.20"), Decimal("7.00")], pa.decimal128(5, 2))
    text = stats_text(pa.table({"a": amounts, "s": small_amounts}), store_decimal_as_integer=as_integer)
    assert '"minValues":{"a":-0.01,"s":1.20}' in text
    assert '"maxValues":{"a":123456789012345678901234567890.10,"s":7.00}' in text


@pytest.mark.parametrize(
    ("values", "arrow_type"),
    [
        ([True, False], pa.bool_()),
        ([b"a"], pa.binary()),
        ([None, None], pa.int64()),
        ([1.0, math.inf], pa.float64()),
        ([-math.inf, 1.0], pa.float32()),
        ([math.nan], pa.float64()),
        ([99_999_999], pa.date32()),
        ([300_000_000_000_000_000], pa.timestamp("us", "UTC")),
    ],
    ids=str,
)
def test_a_column_that_lacks_a_bound_still_has_a_null_count(values, arrow_type):
    statistics = stats_of_column(values, arrow_type)
    assert set(statistics["nullCount"]) == {"c"}
    assert not (statistics["minValues"] and statistics["maxValues"])


def test_a_nan_in_the_footer_removes_both_bounds():
    footer = FakeFooter([(1.0, math.nan, 0), (2.0, 3.0, 0)])
    assert json.loads(statistics_json(footer, ONE_DOUBLE)) == {
        "numRecords": 20, "minValues": {}, "maxValues": {}, "nullCount": {"c": 0},
    }  # fmt: skip


def test_an_int96_timestamp_has_no_bounds():
    statistics = stats_of_column([NAIVE], pa.timestamp("us"), use_deprecated_int96_timestamps=True)
    assert statistics["minValues"] == statistics["maxValues"] == {}


def test_statistics_combine_all_row_groups():
    statistics = stats_of_column([5, None, 9, 1, None, None], pa.int64(), row_group_size=2)
    assert statistics == {"numRecords": 6, "minValues": {"c": 1}, "maxValues": {"c": 9}, "nullCount": {"c": 3}}


class FakeFooter:
    """A footer with row groups of ten rows.

    Each of `groups` is the minimum, the maximum and the null count of a row group, or None for no statistics.
    """

    def __init__(self, groups):
        self.groups = groups
        self.num_row_groups, self.num_rows = len(groups), 10 * len(groups)
        self.schema = footer_of(pa.table({"c": [1.0]})).schema

    def row_group(self, group):
        group_statistics = self.groups[group]

        class Statistics:
            has_null_count, has_min_max = True, group_statistics is not None and group_statistics[0] is not None
            min, max, null_count = group_statistics or (None, None, 0)

        class Chunk:
            num_values, statistics = 10, None if group_statistics is None else Statistics

            def column(self, _position):
                return self

        return Chunk()


ONE_DOUBLE = indexed_columns(TableSchema(logical=StructType((StructField("c", PrimitiveType("double")),))), {})


def test_one_row_group_without_statistics_removes_the_column():
    assert json.loads(statistics_json(FakeFooter([(1.0, 2.0, 0), None]), ONE_DOUBLE))["nullCount"] == {}


def test_one_row_group_without_bounds_removes_the_bounds_unless_it_is_all_null():
    without_bounds = json.loads(statistics_json(FakeFooter([(1.0, 2.0, 0), (None, None, 3)]), ONE_DOUBLE))
    assert without_bounds["minValues"] == {} and without_bounds["nullCount"] == {"c": 3}
    all_null = json.loads(statistics_json(FakeFooter([(1.0, 2.0, 0), (None, None, 10)]), ONE_DOUBLE))
    assert all_null["minValues"] == {"c": 1.0} and all_null["nullCount"] == {"c": 10}


def test_a_file_written_without_statistics_has_only_its_number_of_rows():
    assert stats_of_column([1], pa.int64(), write_statistics=False) == {
        "numRecords": 1, "minValues": {}, "maxValues": {}, "nullCount": {},
    }  # fmt: skip


def test_an_empty_file_has_counts_of_zero():
    assert stats_of_column([], pa.int64()) == {"numRecords": 0, "minValues": {}, "maxValues": {}, "nullCount": {"c": 0}}


NESTED = pa.table(
    {
        "tags": pa.array([[1, None], None], pa.list_(pa.int64())),
        "m": pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int64())),
        "deep": pa.array([[{"x": 1, "y": 2}], []], pa.list_(pa.struct([("x", pa.int64()), ("y", pa.int64())]))),
        "st.a": pa.array([7, 8]),
        "st": pa.array([{"a": 1, "in": {"b c": "x"}}, None]),
        "last": pa.array([3, 4]),
    }
)


def test_statistics_have_the_members_of_structs_and_dotted_names_but_no_lists_and_maps():
    assert stats(NESTED) == {
        "numRecords": 2,
        "minValues": {"st.a": 7, "st": {"a": 1, "in": {"b c": "x"}}, "last": 3},
        "maxValues": {"st.a": 8, "st": {"a": 1, "in": {"b c": "x"}}, "last": 4},
        "nullCount": {"st.a": 0, "st": {"a": 1, "in": {"b c": 1}}, "last": 0},
    }


def test_names_in_the_file_are_case_insensitive_and_statistics_have_the_names_of_the_table():
    statistics = stats(pa.table({"ID": [1]}), schema=StructType((StructField("id", LONG), StructField("absent", LONG))))
    assert statistics["minValues"] == {"id": 1} and statistics["nullCount"] == {"id": 0}


def test_a_malformed_field_id_in_the_schema_of_arrow_is_ignored():
    schema = pa.schema([pa.field("c", pa.int64(), metadata={"PARQUET:field_id": "no number"})])
    assert stats(pa.table([[1]], schema=schema))["minValues"] == {"c": 1}


WIDE = pa.table({f"c{number}": [number] for number in range(40)})


@pytest.mark.parametrize(
    ("configuration", "count"),
    [
        ({}, 32),
        ({"delta.dataSkippingNumIndexedCols": "-1"}, 38),
        ({"delta.dataSkippingNumIndexedCols": "0"}, 0),
        ({"delta.dataSkippingNumIndexedCols": "3"}, 3),
        ({"delta.dataSkippingNumIndexedCols": "0", "delta.dataSkippingStatsColumns": "C5, c39"}, 2),
        ({"delta.dataSkippingStatsColumns": ""}, 0),
    ],
)
def test_the_configuration_selects_the_indexed_leaves_without_partition_columns(configuration, count):
    statistics = stats(WIDE, partition_columns=["c0", "C1"], configuration=configuration)
    assert len(statistics["minValues"]) == len(statistics["nullCount"]) == count
    assert "c0" not in statistics["nullCount"]


def test_each_leaf_of_a_struct_counts_and_the_name_of_a_struct_selects_all_its_leaves():
    assert set(stats(NESTED, configuration={"delta.dataSkippingNumIndexedCols": "5"})["minValues"]) == {"st.a", "st"}
    struct_stats = stats(NESTED, configuration={"delta.dataSkippingStatsColumns": "st.in, `st.a`"})
    assert struct_stats["minValues"] == {"st.a": 7, "st": {"in": {"b c": "x"}}}


def test_the_error_names_an_unknown_stats_column():
    with pytest.raises(InvalidRequestError, match="nope"):
        indexed_columns(
            TableSchema(logical=schema_from_arrow(WIDE.schema)), {"delta.dataSkippingStatsColumns": "c1,nope"}
        )


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("", []),
        (" a , b.c ", [("a",), ("b", "c")]),
        ("`a.b`.c,`x,``y`", [("a.b", "c"), ("x,`y",)]),
    ],
)
def test_a_list_of_columns_is_read_with_backticks(text, columns):
    assert parse_column_list(text) == columns


@pytest.mark.parametrize("text", ["a,,b", "a.", "`a", "a b`c", "``", "`a`b", ",a"])
def test_a_malformed_list_of_columns_is_rejected(text):
    with pytest.raises(InvalidRequestError):
        parse_column_list(text)


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("short", "short", "short"),
        ("x" * 32, "x" * 32, "x" * 32),
        ("x" * 33, "x" * 32, "x" * 32 + "\x7f"),
        ("x" * 32 + "ä", "x" * 32, "x" * 32 + "\U0010ffff"),
        ("x" * 32 + "\x7f", "x" * 32, "x" * 32 + "\U0010ffff"),
        ("x" * 32 + "\U0010ffff", "x" * 32, "x" * 32 + "\U0010ffff"),
        ("x" * 32 + "\U0010ffff" * 2 + "y", "x" * 32, "x" * 32 + "\U0010ffff" * 2 + "\x7f"),
        ("x" * 32 + "\U0010ffff" * 40, "x" * 32, None),
        ("\U0001f600" * 20, "\U0001f600" * 16, "\U0001f600" * 16 + "\U0010ffff"),
        ("x" + "\U0001f600" * 20, "x" + "\U0001f600" * 16, "x" + "\U0001f600" * 16 + "\U0010ffff"),
    ],
)
def test_long_strings_are_truncated_by_the_rule_of_delta(text, low, high):
    assert cut_min(text, 32) == low
    assert cut_max(text, 32) == high


strings = st.text(alphabet=st.sampled_from("a\x7f\x80\uffff\U00010000\U0010ffff"), max_size=14)


@given(texts=st.lists(strings, min_size=1), length=st.integers(1, 6))
def test_truncated_bounds_hold_for_all_strings_and_are_short(texts, length):
    low, high = cut_min(min(texts), length), cut_max(max(texts), length)
    assert all(low.encode() <= text.encode() for text in texts)
    assert high is None or all(text.encode() <= high.encode() for text in texts)
    assert high is None or len(high.encode("utf-16-le")) // 2 <= 2 * length + 2
    assert len(low.encode("utf-16-le")) // 2 <= length + 1


def test_a_table_property_limits_the_length_of_strings():
    statistics = stats_of_column(["abcdef"], pa.string(), configuration={"delta.dataSkippingStringPrefixLength": "2"})
    assert statistics["minValues"] == {"c": "ab"} and statistics["maxValues"] == {"c": "ab\x7f"}

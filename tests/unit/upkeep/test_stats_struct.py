"""Statistics and partition values as structs have the values that data skipping uses, and no others."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltalite.columnar.statistics.footer import indexed_columns
from deltalite.log.parsed_stats import stats_texts
from deltalite.protocol.column_mapping import TableSchema
from deltalite.protocol.schema import ArrayType, DecimalType, PrimitiveType, StructField, StructType
from deltalite.upkeep.partition_struct import PartitionStruct
from deltalite.upkeep.stats_struct import StatsStruct
from tests.support.fuzzing import examples

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LONG_DECIMAL = Decimal("12345678901234567890.123456789012345678")


def column(name, kind):
    return StructField(name, PrimitiveType(kind) if isinstance(kind, str) else kind)


def struct_of(*columns):
    table = TableSchema(logical=StructType(columns))
    return StatsStruct(indexed_columns(table, {}).leaves)


def stats_of(kind, *texts):
    return struct_of(column("x", kind)).parse(pa.chunked_array([pa.array(texts, pa.string())])).to_pylist()


def bound(kind, raw):
    """Return `maxValues.x` of the struct for the JSON text `raw`."""
    return stats_of(kind, f'{{"numRecords":2,"maxValues":{{"x":{raw}}}}}')[0]["maxValues"]["x"]


@pytest.mark.parametrize(
    ("kind", "raw", "value"),
    [
        ("long", "-5", -5),
        ("long", "5.0", None),
        ("long", "true", None),
        ("byte", "1000", None),
        ("double", "0.1", 0.1),
        ("double", "3", 3.0),
        ("double", '"NaN"', None),
        ("float", "1e39", None),
        ("string", '"ü\\n\\u0000"', "ü\n\0"),
        ("string", '"\\ud800"', None),
        ("string", "5", None),
        ("date", '"2026-01-02"', date(2026, 1, 2)),
        ("date", '"2026-02-30"', None),
        ("timestamp", '"2026-01-01T12:00:00.000Z"', NOON),
        ("timestamp", '"2026-01-01T04:00:00.000-08:00"', NOON),
        ("timestamp", '"2026-01-01T12:00:00.000"', None),
        ("timestamp_ntz", '"2026-01-01T12:00:00.000"', NOON.replace(tzinfo=None)),
        ("timestamp_ntz", '"2026-01-01T12:00:00.000-08:00"', None),
        (DecimalType(5, 2), "123.45", Decimal("123.45")),
        (DecimalType(38, 18), f"{LONG_DECIMAL}", LONG_DECIMAL),
        (DecimalType(5, 2), "1234.5", None),
    ],
    ids=str,
)  # fmt: skip
def test_a_bound_has_the_type_of_its_column_or_is_omitted(kind, raw, value):
    assert bound(kind, raw) == value


def test_a_column_without_bounds_has_its_null_count():
    for kind in ("boolean", "binary", ArrayType(PrimitiveType("long"))):
        assert stats_of(kind, '{"numRecords":3,"minValues":{"x":true},"nullCount":{"x":1}}') == [
            {"numRecords": 3, "nullCount": {"x": 1}}
        ]


@pytest.mark.parametrize("text", [None, "", " ", "5", "{", '{"numRecords":1}{"numRecords":2}', '{}},{"stats":{}', "[]"])
def test_a_text_that_is_not_a_json_object_has_no_struct_and_does_not_affect_others(text):
    good = '{"numRecords":7}'
    structs = stats_of("long", good, text, good)
    assert [row and row["numRecords"] for row in structs] == [7, None, 7]


def test_only_indexed_columns_are_in_the_struct_by_their_physical_names():
    fields = [
        StructField("a", PrimitiveType("long"), True, {"delta.columnMapping.physicalName": "col-a"}),
        StructField("b", PrimitiveType("long"), True, {"delta.columnMapping.physicalName": "col-b"}),
        StructField("p", PrimitiveType("long"), True, {"delta.columnMapping.physicalName": "col-p"}),
    ]
    table = TableSchema(logical=StructType(tuple(fields)), partition_columns=("p",), mode="name")
    stats_struct = StatsStruct(indexed_columns(table, {"delta.dataSkippingNumIndexedCols": "1"}).leaves)
    assert [f.name for f in stats_struct.type.field("minValues").type] == ["col-a"]
    assert "tightBounds" not in [f.name for f in stats_struct.type]


values = st.one_of(st.integers(-300, 300), st.floats(), st.text(max_size=3), st.none(), st.booleans())
bounds = st.fixed_dictionaries({}, optional={"x": values, "y": values})
objects = st.fixed_dictionaries({}, optional={"numRecords": values, "maxValues": bounds, "nullCount": bounds})
texts = st.lists(st.one_of(st.none(), st.text(max_size=4), objects.map(json.dumps)), max_size=80)


@given(texts=texts)
@examples(150)
def test_texts_that_are_parsed_together_give_the_same_structs_as_alone(texts):
    stats_struct = struct_of(column("x", "byte"), column("y", "string"))
    together = stats_struct.parse(pa.chunked_array([pa.array(texts, pa.string())])).to_pylist()
    assert [_without_empty_members(row) for row in together] == [
        _without_empty_members(stats_struct._parse_one(text)) for text in texts
    ]


def _without_empty_members(row):
    """A struct without its empty members: a missing struct equals one without values."""
    if isinstance(row, dict):
        return {
            key: member for key, value in row.items() if (member := _without_empty_members(value)) not in (None, {})
        }
    return row


def test_a_struct_converts_back_to_its_text():
    text = '{"numRecords":3,"minValues":{"x":"2026-01-01T12:00:00.123Z"},"maxValues":{"x":"2026-01-01T12:00:00.124Z"},"nullCount":{"x":1}}'  # noqa: E501
    parsed = struct_of(column("x", "timestamp")).parse(pa.chunked_array([pa.array([text, None])]))
    assert stats_texts(parsed).to_pylist() == [text, None]


MAP = pa.map_(pa.string(), pa.string())


def partitions(kind, *rows):
    table = TableSchema(logical=StructType((column("p", kind), column("x", "long"))), partition_columns=("p",))
    return PartitionStruct(table).parse(pa.chunked_array([pa.array(rows, MAP)]))


def test_partition_values_are_typed_and_their_keys_are_case_insensitive():
    typed = partitions("date", [("p", "2026-01-01")], [("P", "2026-01-02")], [("p", "")], [("p", None)], [], None)
    assert [row["p"] for row in typed.to_pylist()] == [date(2026, 1, 1), date(2026, 1, 2), None, None, None, None]


def test_a_partition_value_beyond_the_calendar_of_python_is_kept():
    typed = partitions("date", [("p", "+10000-01-01")])
    assert typed.cast(pa.struct([("p", pa.int32())])).to_pylist() == [{"p": 2_932_897}]


def test_an_invalid_partition_value_is_null_and_the_others_are_kept():
    typed = partitions("date", [("p", "yesterday")], [("p", "2026-1-2")])
    assert typed.to_pylist() == [{"p": None}, {"p": date(2026, 1, 2)}]

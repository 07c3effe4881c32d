"""Each Delta type has one Arrow type. All Arrow types for the same values convert to one Delta type."""

from __future__ import annotations

import pyarrow as pa
import pytest

from deltalite.errors import SchemaMismatchError
from deltalite.protocol.arrow_schema import schema_to_arrow, type_from_arrow
from deltalite.protocol.schema import ArrayType, DecimalType, MapType, PrimitiveType, StructField, StructType
from tests.unit.builders import schema_from_arrow

STRING, LONG = PrimitiveType("string"), PrimitiveType("long")
ALL_TYPES = StructType(
    (
        *(StructField(f"c_{name}", PrimitiveType(name), nullable=False) for name in (
            "string", "long", "integer", "short", "byte", "float", "double", "boolean", "binary", "date", "timestamp",
            "timestamp_ntz",
        )),
        StructField("amount", DecimalType(38, 18)),
        StructField("tags", ArrayType(STRING, contains_null=False)),
        StructField("counts", MapType(STRING, LONG, value_contains_null=False)),
        StructField("st.a b", StructType((StructField("x", ArrayType(StructType((StructField("y", LONG),)))),))),
    )
)  # fmt: skip


def test_every_type_survives_the_conversion_to_arrow_and_back():
    assert schema_from_arrow(schema_to_arrow(ALL_TYPES)) == ALL_TYPES


def test_timestamps_are_microseconds_with_and_without_a_zone():
    arrow = schema_to_arrow(ALL_TYPES)
    assert arrow.field("c_timestamp").type == pa.timestamp("us", tz="UTC")
    assert arrow.field("c_timestamp_ntz").type == pa.timestamp("us")


def test_nullability_is_kept_at_every_depth():
    arrow = schema_to_arrow(ALL_TYPES)
    assert not arrow.field("c_long").nullable
    assert not arrow.field("tags").type.value_field.nullable
    assert not arrow.field("counts").type.item_field.nullable
    assert arrow.field("amount").nullable


@pytest.mark.parametrize(
    ("arrow", "delta"),
    [
        (pa.large_string(), STRING),
        (pa.string_view(), STRING),
        (pa.dictionary(pa.int8(), pa.string()), STRING),
        (pa.run_end_encoded(pa.int32(), pa.int64()), LONG),
        (pa.large_binary(), PrimitiveType("binary")),
        (pa.binary(16), PrimitiveType("binary")),
        (pa.uuid(), PrimitiveType("binary")),
        (pa.date64(), PrimitiveType("date")),
        (pa.timestamp("ns", tz="Europe/Berlin"), PrimitiveType("timestamp")),
        (pa.timestamp("s"), PrimitiveType("timestamp_ntz")),
        (pa.decimal256(20, 2), DecimalType(20, 2)),
        (pa.decimal32(5, 2), DecimalType(5, 2)),
        (pa.large_list(pa.int64()), ArrayType(LONG)),
        (pa.list_(pa.int64(), 3), ArrayType(LONG)),
        (pa.list_view(pa.int64()), ArrayType(LONG)),
    ],
    ids=str,
)
def test_other_arrow_types_convert_to_the_same_delta_type(arrow, delta):
    assert type_from_arrow(arrow, "c") == delta


@pytest.mark.parametrize(
    "arrow",
    [
        pa.uint64(),
        pa.uint8(),
        pa.float16(),
        pa.null(),
        pa.time64("us"),
        pa.duration("s"),
        pa.month_day_nano_interval(),
        pa.decimal256(50, 2),
        pa.decimal128(5, -2),
        pa.dense_union([pa.field("a", pa.int64())]),
    ],
    ids=str,
)
def test_the_error_names_the_column_and_a_type_that_delta_cannot_store(arrow):
    schema = pa.schema([("ok", pa.int64()), ("st", pa.struct([("list", pa.list_(arrow))]))])
    with pytest.raises(SchemaMismatchError) as caught:
        schema_from_arrow(schema)
    assert "'st.list.element'" in caught.value.problem and str(arrow) in caught.value.problem


def test_two_columns_that_differ_only_in_case_are_rejected():
    with pytest.raises(SchemaMismatchError, match=r"'st\.B'"):
        schema_from_arrow(pa.schema([("st", pa.struct([("b", pa.int64()), ("B", pa.int64())]))]))

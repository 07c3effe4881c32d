"""The library recognizes a file that stores a column with a narrower type than the table has."""

from __future__ import annotations

import io
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltalite.columnar.parquet.narrower_columns import NarrowerColumns
from deltalite.errors import CorruptDataFileError
from deltalite.protocol.column_mapping import FIELD_ID, PHYSICAL_NAME, MappingMode, TableSchema
from deltalite.protocol.schema import ArrayType, DecimalType, MapType, PrimitiveType, StructField, StructType

LONG, DOUBLE, TEXT = PrimitiveType("long"), PrimitiveType("double"), PrimitiveType("string")


def footer_of(**columns):
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return pq.ParquetFile(sink).metadata


def has_narrower_column(footer, **columns):
    schema = StructType(tuple(StructField(name, data_type) for name, data_type in columns.items()))
    return NarrowerColumns(TableSchema(logical=schema)).are_in(footer, "f.parquet")


@pytest.mark.parametrize(
    ("stored_values", "data_type", "expected"),
    [
        (pa.array([1], pa.int32()), LONG, True),
        (pa.array([1], pa.int64()), LONG, False),
        (pa.array([1], pa.int8()), PrimitiveType("short"), True),
        (pa.array([1], pa.int32()), DOUBLE, True),
        (pa.array([1], pa.int32()), DecimalType(12, 1), True),
        (pa.array([1.0], pa.float32()), DOUBLE, True),
        (pa.array([1.0], pa.float64()), DOUBLE, False),
        (pa.array([Decimal("1.50")], pa.decimal128(6, 2)), DecimalType(8, 2), True),
        (pa.array([Decimal("1.50")], pa.decimal128(8, 2)), DecimalType(8, 2), False),
        (pa.array([1], pa.date32()), PrimitiveType("timestamp_ntz"), True),
        (pa.array([1], pa.date32()), PrimitiveType("date"), False),
        (pa.array(["a"]), TEXT, False),
        (pa.array([[1]], pa.list_(pa.int16())), ArrayType(LONG), True),
        (pa.array([[1]], pa.list_(pa.int64())), ArrayType(LONG), False),
        (pa.array([[(1, 2)]], pa.map_(pa.int32(), pa.int64())), MapType(LONG, LONG), True),
        (pa.array([[(1, 2)]], pa.map_(pa.int64(), pa.int32())), MapType(LONG, LONG), True),
        (pa.array([[(1, 2)]], pa.map_(pa.int64(), pa.int64())), MapType(LONG, LONG), False),
        (pa.array([{"a": 1}], pa.struct({"a": pa.int32()})), StructType((StructField("a", LONG),)), True),
        (pa.array([{"a": 1}], pa.struct({"a": pa.int64()})), StructType((StructField("a", LONG),)), False),
        (pa.array([[{"a": 1}]], pa.list_(pa.struct({"a": pa.int32()}))),
         ArrayType(StructType((StructField("a", LONG),))), True),
    ],
)  # fmt: skip
def test_a_type_is_narrower_if_the_table_has_widened_it(stored_values, data_type, expected):
    assert has_narrower_column(footer_of(C=stored_values), c=data_type) is expected


def test_a_column_that_the_file_lacks_is_not_narrower():
    assert not has_narrower_column(footer_of(other=pa.array([1], pa.int32())), c=LONG)


def test_columns_are_found_by_their_ids():
    field = StructField("c", LONG, metadata={FIELD_ID: 7, PHYSICAL_NAME: "x"})
    narrower_columns = NarrowerColumns(TableSchema(logical=StructType((field,)), mode=MappingMode.ID))
    schema = pa.schema([pa.field("y", pa.int32(), metadata={"PARQUET:field_id": "7"})])
    sink = io.BytesIO()
    pq.write_table(pa.table({"y": pa.array([1], pa.int32())}, schema=schema), sink)
    assert narrower_columns.are_in(pq.ParquetFile(sink).metadata, "f.parquet")
    with pytest.raises(CorruptDataFileError, match=r"f\.parquet"):
        narrower_columns.are_in(footer_of(y=pa.array([1], pa.int32())), "f.parquet")

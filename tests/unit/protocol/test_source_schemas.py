"""Source files are read with the types of the table, and new columns keep the types of the files."""

from __future__ import annotations

import pytest

from deltalite.errors import SchemaMismatchError
from deltalite.protocol.schema import ArrayType, MapType, PrimitiveType, StructField, StructType
from deltalite.protocol.source_schemas import columns_by_header, schema_for_reading, wider_columns, with_types_as_text
from tests.support.lake import struct_of
from tests.unit.builders import struct


def test_columns_of_the_table_have_its_types_at_every_depth():
    table = struct_of(ID=PrimitiveType("integer"), items=ArrayType(struct(price="double"), contains_null=False))
    inferred = struct_of(
        items=ArrayType(struct(price="long", note="string")), id=PrimitiveType("long"), new=struct(x="date")
    )
    assert schema_for_reading(inferred, table) == struct_of(
        items=ArrayType(struct(price="double", note="string")), id=PrimitiveType("integer"), new=struct(x="date")
    ), "the names are those of the files, because Spark's JSON reader distinguishes upper and lower case"


def test_values_of_a_map_keep_members_that_the_table_does_not_have():
    text = PrimitiveType("string")
    table = struct_of(prices=MapType(text, struct(amount="double")), notes=MapType(text, text))
    inferred = struct_of(
        prices=struct_of(a=struct(amount="long"), b=text, c=struct(amount="long", unit="string")),
        notes=StructType(()),
    )
    assert schema_for_reading(inferred, table) == struct_of(
        prices=MapType(text, struct(amount="double", unit="string")), notes=MapType(text, text)
    )
    two_spellings = struct_of(prices=struct_of(a=struct(amount="long"), b=struct(Amount="long")))
    with pytest.raises(SchemaMismatchError, match="'amount' and 'Amount'"):
        schema_for_reading(two_spellings, table)


def test_a_column_of_another_kind_has_the_type_of_the_table():
    table, inferred = struct_of(a=PrimitiveType("string")), struct_of(a=struct(b="long"))
    assert schema_for_reading(inferred, table) == table


def test_a_new_column_gets_a_type_that_holds_the_values_of_all_files():
    columns = wider_columns(
        [struct(a="integer", b="long", c="date"), struct(A="long", b="integer", c="double", d="void")]
    )
    assert {name: str(field.type) for name, field in columns.items()} == {
        "a": "bigint", "b": "bigint", "c": "string", "d": "void",
    }  # fmt: skip


def test_a_header_decides_the_order_of_the_columns():
    table, inferred = struct(id="integer", name="string"), {"price": StructField("price", PrimitiveType("double"))}
    columns = columns_by_header(["Price", "ID", "other"], table, inferred)
    assert columns == struct_of(
        price=PrimitiveType("double"), id=PrimitiveType("integer"), other=PrimitiveType("string")
    )
    assert columns_by_header(["a"], None, {}) == struct(a="string")


def test_types_are_read_as_text_at_every_depth():
    text = PrimitiveType("string")
    schema = struct_of(
        a=struct(day="date", n="long"), b=ArrayType(PrimitiveType("date")), c=MapType(text, struct(d="date"))
    )
    assert with_types_as_text(schema, lambda data_type: data_type == PrimitiveType("date")) == struct_of(
        a=struct(day="string", n="long"), b=ArrayType(text), c=MapType(text, struct(d="string"))
    )

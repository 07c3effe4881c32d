"""Columns that files have and the table lacks are named, and are read as texts or left out, at every depth."""

from __future__ import annotations

import pytest

from deltalite.protocol.schema import ArrayType, MapType, PrimitiveType, StructField, StructType
from deltalite.protocol.unknown_columns import (
    columns_problem,
    hides_columns,
    known_columns,
    unknown_columns,
    with_unknown_as_text,
)
from tests.support.lake import struct_of
from tests.unit.builders import struct

TEXT = PrimitiveType("string")


TABLE = struct_of(
    id=PrimitiveType("long"),
    n=struct(a="long"),
    items=ArrayType(struct(price="double")),
    prices=MapType(TEXT, struct(amount="double")),
)
FILES = struct_of(
    ID=PrimitiveType("long"),
    x=struct(y="long"),
    n=struct(A="long", b="date"),
    items=ArrayType(struct(price="double", unit="string")),
    prices=MapType(TEXT, struct(c="long")),
)


def test_columns_that_the_table_does_not_have_are_named_with_their_paths():
    assert [(path, str(data_type)) for path, data_type in unknown_columns(FILES, TABLE)] == [
        ("x", "struct<y:bigint>"), ("n.b", "date"), ("items.element.unit", "string"), ("prices.value.c", "bigint"),
    ]  # fmt: skip
    assert not list(unknown_columns(TABLE, TABLE))


def test_unknown_columns_are_read_as_texts_or_left_out():
    assert with_unknown_as_text(FILES, TABLE) == struct_of(
        ID=PrimitiveType("long"), x=TEXT, n=struct(A="long", b="string"),
        items=ArrayType(struct(price="double", unit="string")),
        prices=MapType(TEXT, struct(amount="double", c="string")),
    )  # fmt: skip
    assert known_columns(FILES, TABLE) == struct_of(
        ID=PrimitiveType("long"), n=struct(A="long"), items=ArrayType(struct(price="double")),
        prices=MapType(TEXT, struct(amount="double")),
    ), "a struct that has only unknown members gets a member of the table"  # fmt: skip


def test_the_columns_of_a_file_fit_if_the_table_has_them_and_holds_their_values():
    not_null = StructType((StructField("id", PrimitiveType("long"), nullable=False), StructField("name", TEXT)))
    assert columns_problem(struct(name="string"), not_null, merge_schema=False) is None, "a file may lack columns"
    assert columns_problem(struct(ID="integer"), not_null, merge_schema=False) is None
    assert columns_problem(struct(new="date"), not_null, merge_schema=True) is None
    problem = columns_problem(struct(id="long", new="date"), not_null, merge_schema=False)
    assert problem == "The table does not have these columns of the file: new (date)."
    for merge_schema in (False, True):
        problem = columns_problem(struct(id="string"), not_null, merge_schema=merge_schema)
        assert "'id' is bigint in the table and string in the data" in problem


@pytest.mark.parametrize(
    ("inferred", "hides"),
    [
        (struct_of(n=TEXT), True),
        (struct_of(n=struct(a="string")), False),
        (struct_of(items=ArrayType(TEXT)), True),
        (struct_of(items=TEXT), True),
        (struct_of(prices=struct_of(k=TEXT)), True),
        (struct_of(prices=struct_of(k=struct(amount="long"))), False),
        (struct_of(id=struct(a="long"), x=TEXT), False),
        (struct_of(prices=StructType(())), False),
    ],
)
def test_a_type_without_members_hides_the_members_that_the_table_has(inferred, hides):
    assert hides_columns(inferred, TABLE) is hides

"""The schema of a table after a declaration: added columns, changed columns, and rejected changes."""

from __future__ import annotations

import pytest

from deltalite.errors import SchemaMismatchError
from deltalite.protocol.altering import altered_schema, changed_columns, newly_required_columns
from deltalite.protocol.schema import ArrayType, MapType, PrimitiveType, StructField, StructType

INT, LONG, TEXT = PrimitiveType("integer"), PrimitiveType("long"), PrimitiveType("string")


def schema(*fields):
    return StructType(tuple(fields))


def alter(table, declared, *, widens=False, has_rows=True):
    return altered_schema(table, declared, widens=widens, has_rows=has_rows)


def test_undeclared_columns_stay_and_declared_ones_keep_the_spelling_and_the_order_of_the_table():
    table = schema(StructField("Id", INT), StructField("name", TEXT))
    after = alter(table, schema(StructField("new", TEXT), StructField("NAME", TEXT), StructField("ID", INT)))
    assert after.names == ("Id", "name", "new")


def test_members_are_added_at_every_depth():
    def nested(*members):
        return schema(
            StructField("s", ArrayType(schema(StructField("m", MapType(TEXT, schema(*members), False))), False))
        )

    after = alter(nested(StructField("a", INT)), nested(StructField("b", INT)))
    assert after == nested(StructField("a", INT), StructField("b", INT))


def test_a_wider_type_is_recorded_in_the_metadata_of_its_field():
    table = schema(StructField("a", ArrayType(INT, False)), StructField("s", schema(StructField("x", INT))))
    declared = schema(StructField("a", ArrayType(LONG)), StructField("s", schema(StructField("x", LONG))))
    after = alter(table, declared, widens=True)
    changes = {"fromType": "integer", "toType": "long"}
    array, struct = after
    assert array == StructField(
        "a", ArrayType(LONG, False), True, {"delta.typeChanges": [changes | {"fieldPath": "element"}]}
    )
    assert struct.type.find("x") == StructField("x", LONG, True, {"delta.typeChanges": [changes]})
    with pytest.raises(SchemaMismatchError, match=r"'a.element' is int in the table and bigint"):
        alter(table, declared)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (INT, TEXT),
        (LONG, INT),
        (INT, ArrayType(INT)),
        (schema(StructField("a", INT)), TEXT),
        (ArrayType(INT), schema(StructField("a", INT))),
    ],
)
def test_a_type_without_a_widening_is_refused(before, after):
    with pytest.raises(SchemaMismatchError, match="'c' is "):
        alter(schema(StructField("c", before)), schema(StructField("c", after)), widens=True)


def test_comments_and_defaults_are_replaced_and_other_metadata_stays():
    table = schema(StructField("a", INT, True, {"comment": "old", "CURRENT_DEFAULT": "1", "delta.x": 1}))
    assert alter(table, schema(StructField("a", INT))) == table
    after = alter(table, schema(StructField("a", INT, True, {"comment": "new", "CURRENT_DEFAULT": "2"})))
    assert after.fields[0].metadata == {"comment": "new", "CURRENT_DEFAULT": "2", "delta.x": 1}


def test_a_generated_column_keeps_its_expression_whether_it_is_declared_or_not():
    generated = {"delta.generationExpression": "b + 1"}
    table = schema(StructField("a", INT, True, generated))
    for metadata in ({}, generated):
        assert alter(table, schema(StructField("a", INT, True, metadata))) == table
    with pytest.raises(SchemaMismatchError, match=r"\(b \+ 1\) in the table and generated as \(b \+ 2\) in"):
        alter(table, schema(StructField("a", INT, True, {"delta.generationExpression": "b + 2"})))


@pytest.mark.parametrize(
    "field",
    [
        StructField("n", INT, nullable=False),
        StructField("n", INT, True, {"CURRENT_DEFAULT": "1"}),
        StructField("n", INT, True, {"delta.generationExpression": "1"}),
        StructField("n", LONG, True, {"delta.identity.start": 1, "delta.identity.step": 1}),
    ],
)
def test_a_new_column_with_a_rule_needs_a_table_without_rows(field):
    table = schema(StructField("a", INT))
    assert alter(table, schema(field), has_rows=False).fields[1] == field
    with pytest.raises(SchemaMismatchError, match="'n'"):
        alter(table, schema(field))


def test_the_newly_required_columns_include_those_with_a_required_member():
    def columns(*, nullable):
        member = StructField("x", INT, nullable=nullable)
        return schema(
            StructField("a", INT, nullable=nullable), StructField("s", ArrayType(schema(member))), StructField("t", INT)
        )

    loose, strict = columns(nullable=True), columns(nullable=False)
    assert newly_required_columns(loose, strict) == {"a", "s"} == set(changed_columns(loose, strict))
    assert newly_required_columns(strict, strict) == newly_required_columns(strict, loose) == frozenset()

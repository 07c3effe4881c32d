"""Rows fit a table if no value is lost. The error names the column, both types and a remedy."""

from __future__ import annotations

import pytest

from deltalite.errors import SchemaMismatchError
from deltalite.protocol.schema import ArrayType, MapType, StructField, StructType
from deltalite.protocol.schema_evolution import VOID, evolved_schema, fits, new_table_schema
from tests.unit.protocol.builders import TYPE_NAMES, simple_type, struct_of

# The types that each type accepts besides itself; all other pairs of TYPE_NAMES are rejected.
ACCEPTED_TYPES = {
    "byte": set(),
    "short": {"byte"},
    "integer": {"byte", "short"},
    "long": {"byte", "short", "integer"},
    "float": {"byte", "short"},
    "double": {"byte", "short", "integer", "float"},
    "decimal3.0": {"byte"},
    "decimal10.0": {"byte", "short", "integer", "decimal3.0"},
    "decimal19.0": {"byte", "short", "integer", "long", "decimal3.0", "decimal10.0"},
    "decimal12.2": {"byte", "short", "integer", "decimal3.0", "decimal10.0"},
    "decimal38.18": {"byte", "short", "integer", "long", "decimal3.0", "decimal10.0", "decimal19.0", "decimal12.2"},
    "string": set(),
    "binary": set(),
    "boolean": set(),
    "date": set(),
    "timestamp": set(),
    "timestamp_ntz": {"date"},
}


@pytest.mark.parametrize("table_type", TYPE_NAMES)
def test_a_type_is_accepted_only_if_every_value_stays_the_same(table_type):
    accepted_types = {data_type for data_type in TYPE_NAMES if fits(simple_type(data_type), simple_type(table_type))}
    assert accepted_types == ACCEPTED_TYPES[table_type] | {table_type}
    assert fits(VOID, simple_type(table_type))


@pytest.mark.parametrize(
    ("data_type", "table_type"),
    [
        (rejected, table_type)
        for table_type in TYPE_NAMES
        for rejected in TYPE_NAMES
        if rejected not in ACCEPTED_TYPES[table_type] | {table_type}
    ][::9],  # a sample
)
@pytest.mark.parametrize(
    ("wrap", "column"),
    [
        (lambda t: t, "c"),
        (lambda t: struct_of(t, "inner"), "c.inner"),
        (ArrayType, "c.element"),
        (lambda t: MapType(t, simple_type("long")), "c.key"),
        (lambda t: MapType(simple_type("long"), ArrayType(struct_of(t, "deep"))), "c.value.element.deep"),
    ],
)
@pytest.mark.parametrize("merge_schema", [True, False])
def test_a_type_that_would_lose_values_is_rejected_at_every_depth(data_type, table_type, wrap, column, merge_schema):
    with pytest.raises(SchemaMismatchError) as caught:
        evolved_schema(
            struct_of(wrap(simple_type(table_type))), struct_of(wrap(simple_type(data_type))), merge_schema=merge_schema
        )
    message = str(caught.value)
    for part in (
        f"'{column}'",
        f"{simple_type(table_type)} in the table",
        f"{simple_type(data_type)} in the data",
        "overwrite_schema=True",
    ):
        assert part in message


def test_a_type_of_another_structure_is_rejected():
    for data_type, table_type in [
        (simple_type("long"), struct_of(simple_type("long"))),
        (ArrayType(simple_type("long")), simple_type("string")),
    ]:
        with pytest.raises(SchemaMismatchError, match="'c' is"):
            evolved_schema(struct_of(table_type), struct_of(data_type), merge_schema=True)


@pytest.mark.parametrize(
    ("name", "cast"),
    [
        ("c", "CAST(c AS int)"),
        ("a.b", "CAST(`a.b` AS int)"),
        ("it`s", "CAST(`it``s` AS int)"),
        ("1", "CAST(`1` AS int)"),
    ],
)
def test_the_suggested_cast_is_valid_sql(name, cast):
    with pytest.raises(SchemaMismatchError) as caught:
        evolved_schema(
            struct_of(simple_type("integer"), name), struct_of(simple_type("string"), name), merge_schema=False
        )
    assert cast in caught.value.remedy


@pytest.mark.parametrize(
    ("table_type", "data_type", "advice"),
    [
        (
            struct_of(simple_type("integer"), "b"),
            struct_of(simple_type("string"), "b"),
            "Rebuild `a.b` in `query`, so that 'a.b.b' is int",
        ),
        (ArrayType(simple_type("integer")), ArrayType(simple_type("string")), "so that 'a.b.element' is int"),
        (struct_of(simple_type("integer")), simple_type("string"), "Convert it to struct<c:int> in `query`"),
        (simple_type("integer"), struct_of(simple_type("integer")), "Convert it to int in `query`"),
    ],
)
def test_no_cast_is_suggested_if_a_cast_does_not_help(table_type, data_type, advice):
    with pytest.raises(SchemaMismatchError) as caught:
        evolved_schema(struct_of(table_type, "a.b"), struct_of(data_type, "a.b"), merge_schema=False)
    assert advice in caught.value.remedy and "CAST" not in caught.value.remedy


TABLE = StructType(
    (
        StructField("Id", simple_type("long"), nullable=False, metadata={"comment": "key", "fromTheFuture": 1}),
        StructField("info", struct_of(simple_type("string"), "Name")),
        StructField("tags", ArrayType(struct_of(simple_type("long"), "n"), contains_null=False)),
    )
)


def test_the_table_keeps_its_order_spelling_nullability_and_metadata():
    data = StructType(
        (
            StructField("INFO", struct_of(simple_type("string"), "NAME")),
            StructField("id", simple_type("integer"), metadata={"comment": "theirs"}),
        )
    )
    assert evolved_schema(TABLE, data, merge_schema=False) == TABLE
    assert evolved_schema(TABLE, data, merge_schema=True) == TABLE


def test_merge_schema_appends_new_columns_at_every_depth():
    inner = StructType(
        (StructField("extra", simple_type("date"), nullable=False), StructField("name", simple_type("string")))
    )
    element = StructType((StructField("n", simple_type("long")), StructField("m", simple_type("short"))))
    data = StructType(
        (
            StructField(
                "new", simple_type("double"), nullable=False, metadata={"comment": "kept", "delta.invariants": "x"}
            ),
            StructField("id", simple_type("long")),
            StructField("info", inner),
            StructField("tags", ArrayType(element)),
        )
    )
    merged_schema = evolved_schema(TABLE, data, merge_schema=True)
    assert merged_schema.names == ("Id", "info", "tags", "new")
    assert merged_schema.find("new") == StructField(
        "new", simple_type("double"), nullable=True, metadata={"comment": "kept"}
    )
    assert str(merged_schema.find("info").type) == "struct<Name:string,extra:date>"
    assert merged_schema.find("info").type.find("extra").nullable
    assert str(merged_schema.find("tags").type) == "array<struct<n:bigint,m:smallint>>"
    assert merged_schema.find("tags").type.contains_null is False


@pytest.mark.parametrize(
    ("data", "column"),
    [
        (
            StructType((StructField("id", simple_type("long")), StructField("new", simple_type("date")))),
            r"new \(date\)",
        ),
        (
            StructType(
                (StructField("id", simple_type("long")), StructField("info", struct_of(simple_type("date"), "when")))
            ),
            r"info.when \(date\)",
        ),
    ],
)
def test_the_error_names_the_parameter_that_allows_an_unknown_column(data, column):
    with pytest.raises(SchemaMismatchError, match=rf"does not have: {column}.*merge_schema=True"):
        evolved_schema(TABLE, data, merge_schema=False)


def test_a_missing_column_is_accepted_unless_it_is_not_null():
    with pytest.raises(SchemaMismatchError, match=r"'Id' \(bigint\) is NOT NULL"):
        evolved_schema(TABLE, StructType(()), merge_schema=False)
    assert evolved_schema(TABLE, struct_of(simple_type("long"), "id"), merge_schema=False) == TABLE


def test_a_void_column_fits_every_column_and_is_not_added_to_the_table():
    assert evolved_schema(struct_of(simple_type("date")), struct_of(VOID), merge_schema=False) == struct_of(
        simple_type("date")
    )
    with pytest.raises(SchemaMismatchError, match=r"'x' has the type void"):
        new_table_schema(struct_of(VOID, "x"))
    with pytest.raises(SchemaMismatchError, match=r"'x.element.y' has the type void.*CAST"):
        new_table_schema(struct_of(ArrayType(struct_of(VOID, "y")), "x"))
    nested = StructType((StructField("id", simple_type("long")), StructField("info", struct_of(VOID, "x"))))
    with pytest.raises(SchemaMismatchError, match=r"'info.x' has the type void"):
        evolved_schema(TABLE, nested, merge_schema=True)


def test_a_new_table_has_nullable_columns_without_the_metadata_of_another_table():
    data_schema = struct_of(
        MapType(simple_type("string"), struct_of(simple_type("long"), "n", nullable=False), value_contains_null=False),
        nullable=False,
        **{"comment": "c", "mine": [1], "delta.columnMapping.id": 1, "CURRENT_DEFAULT": "1", "__CHAR": "x"},
    )
    table_schema = struct_of(MapType(simple_type("string"), struct_of(simple_type("long"), "n")), comment="c", mine=[1])
    assert new_table_schema(data_schema) == table_schema


def test_columns_that_the_writer_generates_may_be_missing_and_keep_their_positions():
    table = StructType(
        (
            StructField("a", simple_type("long"), False, {"CURRENT_DEFAULT": "1"}),
            StructField("b", simple_type("long")),
            StructField("c", simple_type("date"), False),
        )
    )
    data = struct_of(simple_type("long"), "B")
    with pytest.raises(SchemaMismatchError, match="'a'"):
        evolved_schema(table, data, merge_schema=False, computed={"c"})
    assert evolved_schema(table, data, merge_schema=False, computed={"a", "c"}) == table
    data_with_new_column = StructType((*data.fields, StructField("x", simple_type("string"))))
    evolved = evolved_schema(table, data_with_new_column, merge_schema=True, computed={"a", "c"})
    assert evolved == StructType((*table.fields, StructField("x", simple_type("string"))))
    with pytest.raises(SchemaMismatchError, match="does not have: x"):
        evolved_schema(table, data_with_new_column, merge_schema=False, computed={"a", "c"})

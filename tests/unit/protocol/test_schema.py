"""The JSON of a schema stays the same when it is parsed and written again, with any metadata of a field."""

from __future__ import annotations

import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltalite.errors import CorruptLogError, UnsupportedFeatureError
from deltalite.protocol.schema import (
    CHAR_VARCHAR,
    PRIMITIVES,
    ArrayType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    all_fields,
    contains_type,
    leaves,
    parse_schema,
    parse_type,
    schema_to_json,
    type_to_json,
)

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
DECIMALS = st.integers(1, 38).flatmap(lambda digits: st.builds(DecimalType, st.just(digits), st.integers(0, digits)))
SIMPLE_TYPES = st.sampled_from(sorted(PRIMITIVES)).map(PrimitiveType) | DECIMALS


def structs(inner):
    field = st.builds(
        StructField,
        st.text(max_size=8),
        inner,
        st.booleans(),
        st.dictionaries(st.text(max_size=8), JSON_VALUES, max_size=2),
    )
    fields = st.lists(field, max_size=4, unique_by=lambda f: f.name.lower())
    return fields.map(lambda members: StructType(tuple(members)))


TYPES = st.recursive(
    SIMPLE_TYPES,
    lambda inner: (
        structs(inner) | st.builds(ArrayType, inner, st.booleans()) | st.builds(MapType, inner, inner, st.booleans())
    ),
    max_leaves=8,
)


@given(schema=structs(TYPES))
def test_a_schema_survives_json_with_all_its_metadata(schema):
    text = schema_to_json(schema)
    assert parse_schema(text) == schema
    assert schema_to_json(parse_schema(text)) == text


def test_json_of_spark_survives_unchanged():
    text = json.dumps(
        {
            "type": "struct",
            "fields": [
                {"name": "A b.c", "type": "decimal(12,2)", "nullable": False, "metadata": {"comment": "ü"}},
                {
                    "name": "m",
                    "type": {"type": "map", "keyType": "string", "valueType": "byte", "valueContainsNull": True},
                    "nullable": True,
                    "metadata": {"delta.columnMapping.id": 3, "fromTheFuture": {"x": [1]}},
                },
            ],
        },
        separators=(",", ":"),
    )
    assert schema_to_json(parse_schema(text)) == text


@pytest.mark.parametrize(
    ("value", "kind"),
    [("decimal(5, 2)", DecimalType(5, 2)), ("decimal", DecimalType(10, 0)), ("integer", PrimitiveType("integer"))],
)
def test_other_spellings_of_a_type_parse_to_the_type(value, kind):
    assert parse_type(value) == kind
    assert parse_type(type_to_json(kind)) == kind


def test_a_missing_key_of_a_field_has_a_default():
    (field,) = parse_schema('{"type": "struct", "fields": [{"name": "a", "type": "long"}]}')
    assert field == StructField("a", PrimitiveType("long"), nullable=True, metadata={})


@pytest.mark.parametrize("name", ["interval day", "geometry(OGC:CRS84)", "timestamp_ns", "char(x)"])
def test_the_error_names_an_unknown_type(name):
    with pytest.raises(UnsupportedFeatureError) as caught:
        parse_schema(json.dumps({"type": "struct", "fields": [{"name": "a", "type": name}]}))
    assert f"'{name}'" in str(caught.value)


FIELD = {"name": "a", "type": "long", "nullable": True, "metadata": {}}


@pytest.mark.parametrize(
    "value",
    [
        "{", "[]", "5", '"long"', '{"type": "struct"}', '{"type": "array", "elementType": "long"}',
        {"type": "struct", "fields": ["a"]},
        {"type": "struct", "fields": 5},
        {"type": "struct", "fields": [{"type": "long"}]},
        {"type": "struct", "fields": [{"name": "a"}]},
        {"type": "struct", "fields": [{"name": 5, "type": "long"}]},
        {"type": "struct", "fields": [{"name": "\ud800", "type": "long"}]},
        {"type": "struct", "fields": [{"name": "a", "type": None}]},
        {"type": "struct", "fields": [{"name": "a", "type": {"type": "list"}}]},
        {"type": "struct", "fields": [{"name": "a", "type": {"type": "map", "keyType": "long"}}]},
        {"type": "struct", "fields": [{"name": "a", "type": "long", "metadata": "m"}]},
        {"type": "struct", "fields": [FIELD, FIELD | {"name": "A"}]},
        {"type": "struct", "fields": [FIELD | {"type": "decimal(39,2)"}]},
        {"type": "struct", "fields": [FIELD | {"type": "decimal(5,6)"}]},
        {"type": "struct", "fields": [FIELD | {"type": "decimal(5,-1)"}]},
        "[" * 100_000,
    ],
    ids=lambda value: (value if isinstance(value, str) else json.dumps(value))[:60],
)  # fmt: skip
def test_a_malformed_schema_raises_a_corrupt_log_error(value):
    with pytest.raises(CorruptLogError, match="schema"):
        parse_schema(value if isinstance(value, str) else json.dumps(value))


def test_a_user_defined_type_is_read_as_its_sql_type():
    vector = {
        "type": "udt",
        "class": "org.apache.spark.ml.linalg.VectorUDT",
        "sqlType": {"type": "struct", "fields": [FIELD]},
    }
    schema = parse_schema(json.dumps({"type": "struct", "fields": [FIELD | {"type": vector}]}))
    assert schema.fields[0].type == StructType((StructField("a", PrimitiveType("long")),))


NESTED = StructType(
    (
        StructField("A", StructType((StructField("x", PrimitiveType("long")),))),
        StructField("list", ArrayType(StructType((StructField("y", PrimitiveType("date")),)))),
        StructField("map", MapType(PrimitiveType("string"), PrimitiveType("timestamp_ntz"))),
        StructField("d", DecimalType(5, 2)),
    )
)


def test_leaves_descend_into_structs_and_stop_at_arrays_and_maps():
    assert [path for path, _ in leaves(NESTED)] == [("A", "x"), ("list",), ("map",), ("d",)]


@pytest.mark.parametrize(
    ("name", "is_contained"),
    [("long", True), ("date", True), ("timestamp_ntz", True), ("timestamp", False), ("byte", False)],
)
def test_a_type_is_found_at_every_depth(name, is_contained):
    assert contains_type(NESTED, name) is is_contained


def test_column_names_are_case_insensitive():
    assert NESTED.find("a") is NESTED.fields[0] and NESTED.find("LIST") is NESTED.fields[1]
    assert NESTED.find("b") is None
    assert NESTED.names == ("A", "list", "map", "d")
    assert (
        str(NESTED)
        == "struct<A:struct<x:bigint>,list:array<struct<y:date>>,map:map<string,timestamp_ntz>,d:decimal(5,2)>"
    )


class CountingName(str):
    """A name that counts the calls of `lower`."""

    __slots__ = ()
    lower_calls = 0

    def lower(self):
        CountingName.lower_calls += 1
        return super().lower()


def test_a_wide_schema_finds_each_column_in_a_few_steps():
    names = [CountingName(f"C{n}") for n in range(500)]
    CountingName.lower_calls = 0
    schema = StructType(tuple(StructField(name, PrimitiveType("long")) for name in names))
    assert [schema.find(name) for name in names] == list(schema.fields)
    assert len(names) <= CountingName.lower_calls < 5 * len(names)


def test_schemas_with_equal_fields_are_equal():
    copy = StructType(NESTED.fields)
    assert copy == NESTED and pickle.loads(pickle.dumps(NESTED)) == NESTED
    assert repr(copy) == f"StructType(fields={NESTED.fields!r})"
    hashable = StructType((StructField("a", PrimitiveType("long"), metadata=None),))
    assert hash(hashable) == hash(StructType(hashable.fields))
    assert (hashable.index_of("A"), hashable.index_of("b")) == (0, None)


@pytest.mark.parametrize(
    ("text", "name"),
    [("null", "void"), ("timestamp_ltz", "timestamp"), ("char(3)", "string"), ("varchar( 7 )", "string")],
)
def test_type_aliases_are_those_of_spark(text, name):
    assert parse_type(text) == PrimitiveType(name)


def test_the_length_of_a_char_or_varchar_is_stored_in_the_metadata_key_of_spark():
    list_type = {"type": "array", "containsNull": True, "elementType": "varchar(5)"}
    map_type = {"type": "map", "keyType": "char(2)", "valueType": "long", "valueContainsNull": True}
    inner = {"type": "struct", "fields": [{"name": "x", "type": "char(1)", "nullable": True, "metadata": {}}]}
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in {"a": "varchar(5)", "l": list_type, "m": map_type, "s": inner, "t": "string"}.items()
    ]
    schema = parse_schema(json.dumps({"type": "struct", "fields": fields}))
    metadata_by_field = {f.name: dict(f.metadata) for f in all_fields(schema)}
    assert metadata_by_field == {
        "a": {CHAR_VARCHAR: "varchar(5)"}, "l": {CHAR_VARCHAR: "array<varchar(5)>"},
        "m": {CHAR_VARCHAR: "map<char(2),bigint>"}, "s": {}, "x": {CHAR_VARCHAR: "char(1)"}, "t": {},
    }  # fmt: skip
    assert parse_schema(schema_to_json(schema)) == schema

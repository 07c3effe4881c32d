"""The rules in the metadata of a table's columns: active rules, and rules that are rejected."""

from __future__ import annotations

import json

import pytest

from deltalite.errors import CorruptLogError, UnsupportedFeatureError
from deltalite.protocol.column_rules import column_rules
from deltalite.protocol.schema import ArrayType, PrimitiveType, StructField, StructType
from tests.unit.builders import SCHEMA, metadata
from tests.unit.protocol.builders import legacy, protocol_with

LONG = PrimitiveType("long")
INVARIANT = json.dumps({"expression": {"expression": "a > 3"}})
CONSTRAINTS = {"delta.constraints.positive": "id > 0", "DELTA.Constraints.B": "b", "delta.appendOnly": "true"}


def field_with(**field_metadata):
    return StructField("a", LONG, metadata={key.replace("__", "."): value for key, value in field_metadata.items()})


def rules(protocol, *fields, configuration=None):
    return column_rules(protocol, metadata(configuration, schema=StructType((*SCHEMA.fields, *fields))))


def test_rules_apply_if_the_protocol_supports_them():
    ruled_field = field_with(delta__invariants=INVARIANT, delta__generationExpression="id + 1", CURRENT_DEFAULT="7")
    rules_under = lambda protocol: rules(protocol, ruled_field, configuration=CONSTRAINTS)
    all_rules = rules_under(protocol_with("invariants", "checkConstraints", "generatedColumns", "allowColumnDefaults"))
    assert [(r.name, r.expression, r.property_key) for r in all_rules.conditions] == [
        ("CHECK constraint 'B'", "b", "DELTA.Constraints.B"),
        ("CHECK constraint 'positive'", "id > 0", "delta.constraints.positive"),
        ("invariant of the column 'a'", "a > 3", None),
    ]
    assert (all_rules.generated, all_rules.defaults) == ({"a": "id + 1"}, {"a": "7"})
    no_rules = rules_under(protocol_with())
    assert (no_rules.conditions, no_rules.generated, no_rules.defaults) == ((), {}, {})
    for protocol, count in ((legacy(1, 2), 1), (legacy(1, 3), 3), (protocol_with("checkConstraints"), 2)):
        assert len(rules_under(protocol).conditions) == count


def test_an_invariant_of_a_nested_field_applies():
    inner = StructType((field_with(delta__invariants=INVARIANT),))
    active_rules = rules(legacy(1, 2), StructField("l", ArrayType(inner)))
    assert [r.expression for r in active_rules.conditions] == ["a > 3"]


@pytest.mark.parametrize("text", ["{}", "no json", "null", '{"expression": {"expression": ""}}', 5, "[" * 9999])
def test_the_error_names_the_column_of_a_malformed_invariant(text):
    with pytest.raises(CorruptLogError, match=r"'a' has an invalid delta\.invariants"):
        rules(legacy(1, 2), field_with(delta__invariants=text))


def test_the_error_names_the_column_of_an_expression_that_is_not_a_text():
    with pytest.raises(CorruptLogError, match=r"'a' has an invalid CURRENT_DEFAULT"):
        rules(protocol_with("allowColumnDefaults"), field_with(CURRENT_DEFAULT=7))
    with pytest.raises(CorruptLogError, match=r"'a' has an invalid delta\.generationExpression"):
        rules(legacy(1, 4), field_with(delta__generationExpression=" "))


def test_a_generated_nested_field_is_rejected():
    inner = StructField("s", StructType((field_with(delta__generationExpression="id"),)))
    with pytest.raises(UnsupportedFeatureError, match=r"'a' has a delta\.generationExpression inside"):
        rules(legacy(1, 4), inner)

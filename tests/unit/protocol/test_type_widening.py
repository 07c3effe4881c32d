"""Schema evolution widens the types of some columns, and the schema records each change."""

from __future__ import annotations

import pytest

from deltalite.errors import SchemaMismatchError
from deltalite.protocol.column_rules import ColumnRules, Rule
from deltalite.protocol.schema import ArrayType, MapType, PrimitiveType, StructField, StructType
from deltalite.protocol.schema_evolution import evolved_schema, with_new_columns
from deltalite.protocol.type_changes import TYPE_CHANGES, check_type_changes
from deltalite.protocol.type_widening import check_no_rule_uses_widened_column, is_enabled, widens_automatically
from tests.unit.builders import metadata
from tests.unit.protocol.builders import TYPE_NAMES, protocol_with, simple_type, struct_of

ENABLED = {"delta.enableTypeWidening": "true"}
# Each type widens automatically to these types. All other pairs of TYPE_NAMES keep the type of the table.
WIDENED = {
    "byte": {"short", "integer", "long"},
    "short": {"integer", "long"},
    "integer": {"long"},
    "float": {"double"},
    "decimal3.0": {"decimal10.0", "decimal19.0", "decimal12.2", "decimal38.18"},
    "decimal10.0": {"decimal19.0", "decimal12.2", "decimal38.18"},
    "decimal19.0": {"decimal38.18"},
    "decimal12.2": {"decimal38.18"},
    "date": {"timestamp_ntz"},
}


@pytest.mark.parametrize("old", TYPE_NAMES)
def test_a_column_widens_within_its_family_of_types(old):
    assert {new for new in TYPE_NAMES if widens_automatically(simple_type(old), simple_type(new))} == WIDENED.get(
        old, set()
    )


def evolve(table, data):
    """The schema after a write, which equals the schema after a merge."""
    schema = evolved_schema(table, data, merge_schema=True, widens=True)
    assert with_new_columns(table, data, widens=True) == schema
    check_type_changes(schema)
    return schema


def test_each_change_is_appended_to_the_record_of_the_column():
    table = struct_of(simple_type("short"), comment="kept", **{TYPE_CHANGES: [{"fromType": "byte", "toType": "short"}]})
    [field] = evolve(table, struct_of(simple_type("long")))
    assert field.type == PrimitiveType("long")
    assert field.metadata == {
        "comment": "kept",
        TYPE_CHANGES: [{"fromType": "byte", "toType": "short"}, {"fromType": "short", "toType": "long"}],
    }


def test_a_change_in_an_array_or_map_has_a_path_and_a_change_in_a_struct_is_recorded_at_its_member():
    def table_of(number, decimal):
        nested = MapType(simple_type(number), ArrayType(simple_type(decimal)))
        return StructType((
            *struct_of(nested, "m"),
            *struct_of(ArrayType(struct_of(ArrayType(simple_type(number)), "member")), "a"),
        ))  # fmt: skip

    map_field, array_field = evolve(table_of("integer", "decimal3.0"), table_of("long", "decimal12.2"))
    assert map_field.metadata[TYPE_CHANGES] == [
        {"fromType": "integer", "toType": "long", "fieldPath": "key"},
        {"fromType": "decimal(3,0)", "toType": "decimal(12,2)", "fieldPath": "value.element"},
    ]
    [member] = array_field.type.element
    assert array_field.metadata == {}
    assert member.metadata[TYPE_CHANGES] == [{"fromType": "integer", "toType": "long", "fieldPath": "element"}]


@pytest.mark.parametrize("options", [{"merge_schema": True}, {"merge_schema": False, "widens": True}])
def test_a_write_of_a_wider_type_is_rejected_without_type_widening_or_without_merge_schema(options):
    with pytest.raises(SchemaMismatchError) as caught:
        evolved_schema(struct_of(simple_type("integer")), struct_of(simple_type("long")), **options)
    assert "merge_schema=True to a table with delta.enableTypeWidening" in caught.value.remedy


def test_a_merge_of_a_wider_type_keeps_the_type_of_the_table_without_type_widening():
    table, data = struct_of(simple_type("integer")), struct_of(simple_type("long"))
    assert with_new_columns(table, data) == table


def test_the_remedy_does_not_name_type_widening_for_a_type_that_does_not_widen_automatically():
    table, data = struct_of(simple_type("integer")), struct_of(simple_type("double"))
    with pytest.raises(SchemaMismatchError) as caught:
        evolved_schema(table, data, merge_schema=True, widens=True)
    assert "enableTypeWidening" not in caught.value.remedy


def test_only_the_feature_and_its_property_together_enable_type_widening():
    assert is_enabled(protocol_with(readers=["typeWidening"]), metadata(ENABLED))
    assert not is_enabled(protocol_with(readers=["typeWidening"]), metadata())
    assert not is_enabled(protocol_with(), metadata(ENABLED))
    assert not is_enabled(protocol_with(readers=["typeWidening-preview"]), metadata(ENABLED))


HASH_CONDITION = Rule(name="CHECK 'x'", expression="hash(`C`) > 0")


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        (ColumnRules(generated={}, defaults={}, conditions=(HASH_CONDITION,)), "CHECK"),
        (ColumnRules(generated={"g": "cast(c.m as string)"}, defaults={}), "generated column 'g'"),
        (ColumnRules(generated={"c": "now()"}, defaults={}), "expression that generates it"),
    ],
)
def test_the_widening_of_a_column_that_a_rule_uses_is_rejected(rules, problem):
    for base, schema in (
        (struct_of(simple_type("integer")), struct_of(simple_type("long"))),
        (struct_of(struct_of(simple_type("date"), "m")), struct_of(struct_of(simple_type("timestamp_ntz"), "m"))),
    ):
        with pytest.raises(SchemaMismatchError, match=problem) as caught:
            check_no_rule_uses_widened_column(base, schema, rules)
        assert "'c'" in caught.value.problem and caught.value.remedy


def test_rules_of_other_columns_do_not_prevent_widening():
    condition = Rule(name="CHECK 'x'", expression="cc > 0 AND c_1 > 0")
    rules = ColumnRules(generated={"g": "d"}, defaults={}, conditions=(condition,))
    check_no_rule_uses_widened_column(struct_of(simple_type("integer")), struct_of(simple_type("long")), rules)


def test_a_default_does_not_prevent_widening():
    rules = ColumnRules(generated={}, defaults={"c": "1"})
    check_no_rule_uses_widened_column(struct_of(simple_type("integer")), struct_of(simple_type("long")), rules)


def test_a_new_column_widens_nothing():
    base = struct_of(simple_type("integer"))
    schema = StructType((*base, StructField("new", simple_type("long"))))
    condition = Rule(name="CHECK 'x'", expression="c > 0")
    check_no_rule_uses_widened_column(base, schema, ColumnRules(generated={}, defaults={}, conditions=(condition,)))

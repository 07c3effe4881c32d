"""Type widening: the recorded type changes that a reader supports, and the errors for other changes."""

from __future__ import annotations

from typing import Any

import pytest

from deltalite.errors import CorruptLogError, UnsupportedFeatureError
from deltalite.protocol.schema import parse_type
from deltalite.protocol.type_changes import check_type_changes, is_widening

# Protocol: Type Widening, Supported type changes.
WIDENINGS = [
    ("byte", "short"), ("byte", "integer"), ("byte", "long"), ("short", "integer"), ("short", "long"),
    ("integer", "long"), ("float", "double"), ("byte", "double"), ("short", "double"), ("integer", "double"),
    ("date", "timestamp_ntz"), ("byte", "decimal(10,0)"), ("short", "decimal(12,2)"), ("integer", "decimal(10,0)"),
    ("integer", "decimal(15,5)"), ("long", "decimal(20,0)"), ("long", "decimal(25,5)"),
    ("decimal(5,2)", "decimal(6,2)"), ("decimal(5,2)", "decimal(7,4)"), ("decimal(5,2)", "decimal(5,2)"),
]  # fmt: skip
OTHER_CHANGES = [
    ("long", "integer"), ("long", "double"), ("double", "float"), ("date", "timestamp"), ("timestamp_ntz", "date"),
    ("integer", "decimal(9,0)"), ("integer", "decimal(10,1)"), ("long", "decimal(18,0)"),
    ("decimal(5,2)", "decimal(6,4)"), ("decimal(5,2)", "decimal(5,1)"), ("float", "decimal(38,10)"),
    ("integer", "string"), ("string", "binary"), ("boolean", "integer"),
]  # fmt: skip


def column(change: Any) -> dict[str, Any]:
    """The JSON of a column with this record of type changes."""
    return {"name": "c", "type": "long", "nullable": True, "metadata": {"delta.typeChanges": change}}


def schema(field: Any) -> Any:
    return parse_type({"type": "struct", "fields": [field]})


@pytest.mark.parametrize(("old", "new"), WIDENINGS)
def test_a_change_that_keeps_every_value_is_accepted(old, new):
    assert is_widening(parse_type(old), parse_type(new))
    check_type_changes(schema(column([{"fromType": old, "toType": new, "tableVersion": 1}])))


@pytest.mark.parametrize(("old", "new"), OTHER_CHANGES)
def test_the_error_names_the_column_and_both_types_of_any_other_change(old, new):
    with pytest.raises(UnsupportedFeatureError, match="typeWidening") as caught:
        check_type_changes(schema(column([{"fromType": old, "toType": new}])))
    assert f"'c' was changed from {parse_type(old)} to {parse_type(new)}" in caught.value.problem


def test_the_error_names_an_unknown_new_type():
    with pytest.raises(UnsupportedFeatureError, match=r"typeWidening.*interval day"):
        check_type_changes(schema(column([{"fromType": "integer", "toType": "interval day"}])))


@pytest.mark.parametrize(
    ("nest", "path"),
    [
        (lambda f: {"type": "struct", "fields": [f]}, "top.c"),
        (
            lambda f: {"type": "array", "elementType": {"type": "struct", "fields": [f]}, "containsNull": True},
            "top.element.c",
        ),
        (
            lambda f: {
                "type": "map", "keyType": "string", "valueType": {"type": "struct", "fields": [f]},
                "valueContainsNull": True,
            },
            "top.value.c",
        ),
    ],
)  # fmt: skip
def test_a_change_is_found_at_any_depth(nest, path):
    inner_column = column([{"fromType": "string", "toType": "integer"}])
    with pytest.raises(UnsupportedFeatureError) as caught:
        check_type_changes(schema({"name": "top", "type": nest(inner_column), "nullable": True, "metadata": {}}))
    assert f"'{path}'" in caught.value.problem


@pytest.mark.parametrize(
    "change", ["integer", {"a": 1}, [1], [{"fromType": "integer"}], [{"fromType": 1, "toType": 2}]]
)
def test_a_malformed_type_history_raises_a_corrupt_log_error(change):
    with pytest.raises(CorruptLogError, match=r"'c'.*delta\.typeChanges"):
        check_type_changes(schema(column(change)))

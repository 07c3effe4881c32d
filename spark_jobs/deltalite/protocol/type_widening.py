"""Type widening: the columns of a table that may get a wider type, and the record of each change in the schema.

Files keep the types with which they were written, so the schema records each change for its readers
(`type_changes` checks the record). Protocol: Type Widening.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from deltalite.errors import SchemaMismatchError
from deltalite.protocol.actions import Metadata, Protocol
from deltalite.protocol.column_rules import ColumnRules
from deltalite.protocol.features import supported_features
from deltalite.protocol.properties import ENABLE_TYPE_WIDENING
from deltalite.protocol.schema import ArrayType, DataType, DecimalType, MapType, PrimitiveType, StructField, StructType
from deltalite.protocol.type_changes import INTEGERS, TYPE_CHANGES, is_widening

FEATURE = "typeWidening"
# The changes of `widens_automatically` among primitive types that are not both integers.
_NON_INTEGER_WIDENINGS = frozenset({("float", "double"), ("date", "timestamp_ntz")})


def is_enabled(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether writers may widen the table's columns.

    False if the table has only the preview of the feature. In the preview, each change names the version of its commit,
    and the writer does not know this version before the commit.
    """
    return FEATURE in supported_features(protocol) and ENABLE_TYPE_WIDENING.of(metadata.configuration)


def widens_automatically(old: DataType, new: DataType) -> bool:
    """Whether a write or merge with schema evolution changes the type of a column from `old` to `new`.

    The type changes only within a family: integers, floating-point numbers, decimals, and dates to timestamps without a
    time zone. An INT column does not become DOUBLE, even if the data has this type. delta-spark: TypeWideningMode.
    """
    match old, new:
        case PrimitiveType(old_name), PrimitiveType(new_name):
            is_in_family = {old_name, new_name} <= set(INTEGERS) or (old_name, new_name) in _NON_INTEGER_WIDENINGS
            return old_name != new_name and is_widening(old, new) and is_in_family
        case DecimalType(), DecimalType():
            return old != new and is_widening(old, new)
        case _:
            return False


def with_wider_type(field: StructField, new_type: DataType) -> StructField:
    """Return the field with the type `new_type`, and with each change of a type in its metadata.

    A member of a struct has a separate record. Protocol: Type Change Metadata.
    """
    changes = [_change_record(path, old, new) for path, old, new in _changes(field.type, new_type)]
    if not changes:
        return replace(field, type=new_type)
    all_changes = [*(field.metadata.get(TYPE_CHANGES) or ()), *changes]
    return replace(field, type=new_type, metadata={**field.metadata, TYPE_CHANGES: all_changes})


def without_type_changes(schema_string: str) -> str:
    """Return a schema (JSON) without its recorded type changes.

    The caller must ensure that no data file stores a column with a narrower type than the schema.
    """
    if TYPE_CHANGES not in schema_string:
        return schema_string

    def without_record(members: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in members.items() if key != TYPE_CHANGES}

    return json.dumps(json.loads(schema_string, object_hook=without_record), separators=(",", ":"))


def check_no_rule_uses_widened_column(base: StructType, schema: StructType, rules: ColumnRules) -> None:
    """Check that no rule of the table uses a column that the operation widens.

    The rules are the CHECK constraints, the invariants and the expressions of generated columns. The value of an
    expression such as `hash(a)` depends on the type of its column. delta-spark: checkDependentExpressions.

    Args:
        base: the table's schema before the operation.
        schema: the table's schema after the operation.
        rules: the rules of the table's columns.

    Raises:
        SchemaMismatchError: a widened column is a generated column, or the expression of a rule contains its name.
    """
    columns = [(old, new) for old in base if (new := schema.find(old.name)) is not None and _is_widened(old, new)]
    expressions = {rule.name: rule.expression for rule in rules.conditions}
    expressions |= {f"generated column '{name}'": text for name, text in rules.generated.items()}
    for old, new in columns:
        name_pattern = re.compile(rf"(?<!\w){re.escape(old.name)}(?!\w)", re.IGNORECASE)
        rule_name = next((name for name, text in expressions.items() if name_pattern.search(text)), None)
        if rule_name is not None or old.name in rules.generated:
            raise SchemaMismatchError(
                f"The column '{old.name}' cannot widen from {old.type} to {new.type}: the "
                f"{rule_name or 'expression that generates it'} depends on its type.",
                remedy=f"Keep the type {old.type}: a write can cast its values. Or drop the rule first.",
            )


def _is_widened(old: StructField, new: StructField) -> bool:
    """Whether the type of a field, or of a field in it, has changed."""
    if any(True for _ in _changes(old.type, new.type)):
        return True
    return any(_is_widened(old_member, new_member) for old_member, new_member in _common_members(old.type, new.type))


def _common_members(old: DataType, new: DataType) -> Iterator[tuple[StructField, StructField]]:
    """Yield the members that structs in the old and the new type have in common, each as an (old, new) pair."""
    match old, new:
        case StructType(), StructType():
            for member in old:
                new_member = new.find(member.name)
                if new_member is not None:
                    yield member, new_member
        case ArrayType(element), ArrayType(new_element):
            yield from _common_members(element, new_element)
        case MapType(key, value), MapType(new_key, new_value):
            yield from _common_members(key, new_key)
            yield from _common_members(value, new_value)


def _changes(
    old: DataType, new: DataType, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], DataType, DataType]]:
    """Yield each changed simple type outside of structs, with its path in arrays and maps."""
    match old, new:
        case ArrayType(element), ArrayType(new_element):
            yield from _changes(element, new_element, (*path, "element"))
        case MapType(key, value), MapType(new_key, new_value):
            yield from _changes(key, new_key, (*path, "key"))
            yield from _changes(value, new_value, (*path, "value"))
        case ((PrimitiveType() | DecimalType()), (PrimitiveType() | DecimalType())):
            if old != new:
                yield path, old, new


def _change_record(path: tuple[str, ...], old: DataType, new: DataType) -> dict[str, Any]:
    record = {"fromType": _type_name(old), "toType": _type_name(new)}
    return record | ({"fieldPath": ".".join(path)} if path else {})


def _type_name(data_type: DataType) -> str:
    """Return the name of a simple type in the schema JSON."""
    return data_type.name if isinstance(data_type, PrimitiveType) else str(data_type)

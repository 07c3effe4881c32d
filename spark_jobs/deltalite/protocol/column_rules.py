"""The rules of a table for its rows: invariants, CHECK constraints, generated, default and identity columns.

This module lists the rules with their columns. Conditions and expressions are SQL texts, which Spark evaluates. A rule
has no effect if the protocol does not support its feature. Protocol: Column Invariants, CHECK Constraints, Generated
Columns, Default Columns, Identity Columns.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from deltalite.errors import CorruptLogError, UnsupportedFeatureError
from deltalite.protocol.actions import Metadata, Protocol
from deltalite.protocol.features import supported_features
from deltalite.protocol.identity_columns import IdentityColumn, identity_columns
from deltalite.protocol.properties import CONSTRAINT_PREFIX, is_constraint
from deltalite.protocol.schema import StructField, StructType, all_fields, parse_schema

INVARIANTS = "delta.invariants"
GENERATION = "delta.generationExpression"
DEFAULT = "CURRENT_DEFAULT"
_REMEDY = "Repair the table's metadata with the engine that wrote it."


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A condition that must be TRUE for each row. `property_key` is the constraint's key, None for an invariant."""

    name: str
    expression: str
    property_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRules:
    """The rules of a table.

    - `conditions`: the CHECK constraints and the invariants.
    - `generated`, `defaults`: the expression of each such column, by its name.
    - `identities`: the IDENTITY columns.
    """

    conditions: tuple[Rule, ...] = ()
    generated: Mapping[str, str]
    defaults: Mapping[str, str]
    identities: tuple[IdentityColumn, ...] = ()

    @property
    def filled_columns(self) -> frozenset[str]:
        """The columns that the table fills if the rows lack them: generated, default and IDENTITY columns."""
        return frozenset((*self.generated, *self.defaults, *(column.name for column in self.identities)))


def column_rules(protocol: Protocol, metadata: Metadata) -> ColumnRules:
    """Return the rules of a table, without rules of features that the protocol does not support.

    Raises:
        CorruptLogError: a rule is malformed.
        UnsupportedFeatureError: a nested column is generated or has a default.
    """
    supported, schema = supported_features(protocol), parse_schema(metadata.schema_string)
    conditions: list[Rule] = []
    if "checkConstraints" in supported:
        conditions += _constraints(metadata.configuration)
    if "invariants" in supported:
        conditions += _invariants(schema)
    return ColumnRules(
        conditions=tuple(conditions),
        generated=_expressions(schema, GENERATION) if "generatedColumns" in supported else {},
        defaults=_expressions(schema, DEFAULT) if "allowColumnDefaults" in supported else {},
        identities=identity_columns(schema) if "identityColumns" in supported else (),
    )


def _constraints(configuration: Mapping[str, str]) -> Iterator[Rule]:
    for key, text in sorted(configuration.items()):
        if is_constraint(key):
            yield Rule(name=f"CHECK constraint '{key[len(CONSTRAINT_PREFIX) :]}'", expression=text, property_key=key)


def _invariants(schema: StructType) -> Iterator[Rule]:
    for field in all_fields(schema):
        if INVARIANTS not in field.metadata:
            continue
        try:
            expression = json.loads(field.metadata[INVARIANTS])["expression"]["expression"]
        except (ValueError, TypeError, KeyError, RecursionError):
            expression = None
        yield Rule(
            name=f"invariant of the column '{field.name}'",
            expression=_checked_expression(expression, INVARIANTS, field),
        )


def _expressions(schema: StructType, key: str) -> dict[str, str]:
    expressions = {
        field.name: _checked_expression(field.metadata[key], key, field) for field in schema if key in field.metadata
    }
    names = [field.name for field in all_fields(schema) if key in field.metadata]
    if len(names) > len(expressions):
        nested = next((name for name in names if name not in expressions), names[0])
        raise UnsupportedFeatureError(
            f"The column '{nested}' has a {key} inside another column, which this release does not write.",
            remedy="Write the table with an engine that supports it.",
        )
    return expressions


def _checked_expression(value: Any, key: str, field: StructField) -> str:
    if not isinstance(value, str) or not value.strip():
        raise CorruptLogError(
            f"The column '{field.name}' has an invalid {key}: it is not an expression.", remedy=_REMEDY
        )
    return value

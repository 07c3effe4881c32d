"""A random table: its columns with their rules, its properties, and its layout. `Table` is also the state that the
random statements know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Self

from tests.support.differential.kinds import KINDS, Kind

KEY = "k"
"""The column that identifies a row. No statement changes it, and no two rows ever have the same value."""
Rule = Literal["plain", "required", "default", "generated", "identity"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column. `rule_text` is the SQL of its default or of its generation expression."""

    name: str
    kind: Kind
    rule: Rule = "plain"
    rule_text: str = ""

    @property
    def is_writable(self) -> bool:
        """Whether a statement may give values of the column."""
        return self.rule not in ("generated", "identity")

    @property
    def is_optional(self) -> bool:
        """Whether an insert may leave the column out."""
        return self.rule in ("plain", "default")

    @property
    def ddl(self) -> str:
        """The column in CREATE TABLE."""
        rule = {
            "plain": "",
            "required": " NOT NULL",
            "default": f" DEFAULT {self.rule_text}",
            "generated": f" GENERATED ALWAYS AS ({self.rule_text})",
            "identity": " GENERATED ALWAYS AS IDENTITY (START WITH 10 INCREMENT BY 5)",
        }
        return f"{quoted(self.name)} {self.kind.sql}{rule[self.rule]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table's columns, layout, properties and constraints."""

    columns: tuple[Column, ...]
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    constraints: Mapping[str, str] = field(default_factory=dict)

    @property
    def writable(self) -> tuple[Column, ...]:
        """The columns whose values a statement may set, including the key."""
        return tuple(column for column in self.columns if column.is_writable)

    @property
    def assignable(self) -> tuple[Column, ...]:
        """The columns that an update may change."""
        return tuple(column for column in self.writable if column.name != KEY)

    @property
    def comparable(self) -> tuple[Column, ...]:
        """The columns that a condition may use. Engines assign different identity values, so these are left out."""
        return tuple(column for column in self.columns if column.rule != "identity")

    @property
    def identity(self) -> frozenset[str]:
        """The names of the identity columns."""
        return frozenset(column.name for column in self.columns if column.rule == "identity")

    @property
    def ddl(self) -> str:
        """All columns in CREATE TABLE."""
        return ", ".join(column.ddl for column in self.columns)

    def enables(self, name: str) -> bool:
        """Whether the property `delta.<name>` is true."""
        return self.properties.get(f"delta.{name}") == "true"

    @property
    def is_iceberg_compatible(self) -> bool:
        """Whether the table has Iceberg compatibility, which excludes some types, type changes and features."""
        return self.enables("enableIcebergCompatV1") or self.enables("enableIcebergCompatV2")

    def with_column(self, column: Column) -> Self:
        """Return the table with the column, added or in place of the one with the same name."""
        replaced = tuple(column if present.name == column.name else present for present in self.columns)
        columns = replaced if column in replaced else (*replaced, column)
        return replace(self, columns=columns)

    def with_properties(self, properties: Mapping[str, str]) -> Self:
        """The table with more properties."""
        return replace(self, properties={**self.properties, **properties})


def quoted(name: str) -> str:
    """A name in SQL."""
    return f"`{name}`"


def name_of(path: str) -> str:
    """The name of the table at a path, for delta-spark."""
    return f"delta.`{path}`"


def properties_text(properties: Mapping[str, str]) -> str:
    """Properties in TBLPROPERTIES."""
    return ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())


KEY_COLUMN = Column(name=KEY, kind=KINDS["long"], rule="required")

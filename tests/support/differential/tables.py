"""The description of a table from which random statements are made: columns with rules, properties and layout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Self

from tests.support.differential.kinds import KINDS, Kind

KEY = "k"
"""The name of the column that identifies a row. No statement changes its value, and each new row has a new value."""
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
        """Whether a statement may set values of the column."""
        return self.rule not in ("generated", "identity")

    @property
    def is_optional(self) -> bool:
        """Whether an insert may leave out this writable column."""
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
    """A table's columns, layout, properties and constraints.

    - `supports_clustering`: whether the table has the feature `clustering`, which stays after CLUSTER BY NONE.
    """

    columns: tuple[Column, ...]
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    supports_clustering: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    constraints: Mapping[str, str] = field(default_factory=dict)

    @property
    def writable(self) -> tuple[Column, ...]:
        """The columns that a statement may set, including the key."""
        return tuple(column for column in self.columns if column.is_writable)

    @property
    def assignable(self) -> tuple[Column, ...]:
        """The columns that an update may change."""
        return tuple(column for column in self.writable if column.name != KEY)

    @property
    def comparable(self) -> tuple[Column, ...]:
        """The columns that a condition may use: all but IDENTITY columns, whose values differ between the engines."""
        return tuple(column for column in self.columns if column.rule != "identity")

    @property
    def identity_names(self) -> frozenset[str]:
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
        """The table with a column that is new, or that replaces the column of the same name."""
        columns = tuple(column if current.name == column.name else current for current in self.columns)
        return replace(self, columns=columns if column in columns else (*columns, column))

    def with_properties(self, properties: Mapping[str, str]) -> Self:
        """The table with more properties."""
        return replace(self, properties={**self.properties, **properties})


def quoted(name: str) -> str:
    """A column name in SQL, in backticks."""
    return f"`{name}`"


def name_of(path: str) -> str:
    """The name of the table at a path, for delta-spark."""
    return f"delta.`{path}`"


def properties_text(properties: Mapping[str, str]) -> str:
    """The list of properties for TBLPROPERTIES."""
    return ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())


KEY_COLUMN = Column(name=KEY, kind=KINDS["long"], rule="required")

"""Columns whose values the writer gives: which there are, and which values come next.

Values are `start + k * step`, always beyond the highest that was given before, which the column's metadata keeps: it
moves in the commit of the rows that got them. Where a column allows it, rows may bring values of their own, which move
nothing. Pure arithmetic on Python's integers, so that an overflow is seen before a row is written. Protocol: Identity
Columns; delta-spark: IdentityColumn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from deltalite.errors import ConstraintViolationError, CorruptLogError
from deltalite.protocol.schema import PrimitiveType, StructField, StructType

START = "delta.identity.start"
STEP = "delta.identity.step"
HIGH_WATER_MARK = "delta.identity.highWaterMark"
ALLOW_EXPLICIT = "delta.identity.allowExplicitInsert"
_LEAST, _MOST = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityColumn:
    """One such column. `high_water_mark` is the last value that was given, None before the first."""

    name: str
    start: int
    step: int
    high_water_mark: int | None = None
    allows_explicit: bool = False

    @property
    def first(self) -> int:
        """The next value: the start, or the first of the series that lies beyond the mark."""
        if self.high_water_mark is None or (self.high_water_mark - self.start) * self.step < 0:
            return self.start
        return self.start + ((self.high_water_mark - self.start) // self.step + 1) * self.step

    def last(self, count: int) -> int:
        """The last of the next `count` values, of which there is at least one.

        Raises:
            ConstraintViolationError: a value would not be a 64-bit integer.
        """
        last = self.first + (count - 1) * self.step
        if not (_LEAST <= self.first <= _MOST and _LEAST <= last <= _MOST):
            raise ConstraintViolationError(
                f"Nothing was written: the identity column '{self.name}' has no values left for {count} rows after "
                f"{self.high_water_mark} in steps of {self.step}.",
                remedy="Write the rows to a new table whose column starts elsewhere.",
            )
        return last


def identity_columns(schema: StructType) -> tuple[IdentityColumn, ...]:
    """The identity columns of a table whose protocol supports them.

    Raises:
        CorruptLogError: what the table says about one is malformed.
    """
    return tuple(_column(field) for field in schema if {START, STEP} & field.metadata.keys())


def with_marks(schema: StructType, marks: Mapping[str, int]) -> StructType:
    """The schema with new high water marks for the columns of these names."""
    return StructType(
        tuple(
            replace(f, metadata={**f.metadata, HIGH_WATER_MARK: marks[f.name]}) if f.name in marks else f
            for f in schema
        )
    )


def _column(field: StructField) -> IdentityColumn:
    said = field.metadata
    start, step, mark, explicit = (said.get(key) for key in (START, STEP, HIGH_WATER_MARK, ALLOW_EXPLICIT))
    numbers = [start, step] if mark is None else [start, step, mark]
    sound = all(_is_long(number) for number in numbers) and step != 0 and isinstance(explicit, bool)
    if not sound or field.type != PrimitiveType("long"):
        raise CorruptLogError(
            f"The column '{field.name}' ({field.type}) is said to be an identity column, with start {start!r}, step "
            f"{step!r}, mark {mark!r} and explicit values {explicit!r}.",
            remedy="Repair the table's metadata with the engine that wrote it.",
        )
    return IdentityColumn(
        name=field.name, start=said[START], step=said[STEP], high_water_mark=mark, allows_explicit=said[ALLOW_EXPLICIT]
    )


def _is_long(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and _LEAST <= value <= _MOST

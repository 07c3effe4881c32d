"""Identity columns and their next values.

The writer assigns values `start + k * step`, always beyond the last assigned value. The column's metadata keeps the
last value as its high water mark, and the commit of the rows moves the mark. A column may allow explicit values in
rows, which do not move the mark. Python's integers do not overflow, so the writer detects an overflow of 64 bits before
it writes a row. Protocol: Identity Columns; delta-spark: IdentityColumn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from deltalite.errors import ConstraintViolationError, CorruptLogError
from deltalite.protocol.schema import PrimitiveType, StructField, StructType
from deltalite.sizes import counted

START = "delta.identity.start"
STEP = "delta.identity.step"
HIGH_WATER_MARK = "delta.identity.highWaterMark"
ALLOW_EXPLICIT = "delta.identity.allowExplicitInsert"
_MIN_LONG, _MAX_LONG = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityColumn:
    """One identity column. `high_water_mark` is the last assigned value, None before the first value."""

    name: str
    start: int
    step: int
    high_water_mark: int | None = None
    allows_explicit: bool = False

    @property
    def next_value(self) -> int:
        """The next value: the start, or the first value of the series beyond the high water mark."""
        if self.high_water_mark is None or (self.high_water_mark - self.start) * self.step < 0:
            return self.start
        return self.start + ((self.high_water_mark - self.start) // self.step + 1) * self.step

    def last_of_next(self, count: int) -> int:
        """Return the last of the next `count` values; `count` is at least 1.

        Raises:
            ConstraintViolationError: a value does not fit in 64 bits.
        """
        last = self.next_value + (count - 1) * self.step
        if not (_MIN_LONG <= self.next_value <= _MAX_LONG and _MIN_LONG <= last <= _MAX_LONG):
            raise ConstraintViolationError(
                f"Nothing was written: the identity column '{self.name}' has no values left for "
                f"{counted(count, 'row')}, because values from {self.next_value} on in steps of {self.step} "
                "need more than 64 bits.",
                remedy="Write the rows to a new table, with another start of the column.",
            )
        return last


def identity_columns(schema: StructType) -> tuple[IdentityColumn, ...]:
    """Return the identity columns of a table with a protocol that supports identity columns.

    Raises:
        CorruptLogError: the metadata of an identity column is malformed.
    """
    return tuple(_column(field) for field in schema if {START, STEP} & field.metadata.keys())


def with_high_water_marks(schema: StructType, marks: Mapping[str, int]) -> StructType:
    """Return the schema with new high water marks; `marks` has them by column name."""
    return StructType(
        tuple(
            replace(f, metadata={**f.metadata, HIGH_WATER_MARK: marks[f.name]}) if f.name in marks else f
            for f in schema
        )
    )


def _column(field: StructField) -> IdentityColumn:
    metadata = field.metadata
    start, step, mark, explicit = (metadata.get(key) for key in (START, STEP, HIGH_WATER_MARK, ALLOW_EXPLICIT))
    numbers = [start, step] if mark is None else [start, step, mark]
    is_valid = all(_is_long(number) for number in numbers) and step != 0 and isinstance(explicit, bool)
    if not is_valid or field.type != PrimitiveType("long"):
        raise CorruptLogError(
            f"The identity column '{field.name}' ({field.type}) has invalid metadata: start {start!r}, step {step!r}, "
            f"high water mark {mark!r}, explicit values {explicit!r}.",
            remedy="Repair the table's metadata with the engine that wrote it.",
        )
    return IdentityColumn(
        name=field.name,
        start=metadata[START],
        step=metadata[STEP],
        high_water_mark=mark,
        allows_explicit=metadata[ALLOW_EXPLICIT],
    )


def _is_long(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and _MIN_LONG <= value <= _MAX_LONG

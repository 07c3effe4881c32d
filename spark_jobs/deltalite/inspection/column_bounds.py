"""The smallest and the largest value of a column in many files, from the bounds of each file in the log.

A bound is exact if its file has no soft-deleted rows, and if no writer may have changed the bound. Writers truncate
long texts, and some round decimals of more than 15 digits. Apart from this rounding, no value is beyond a bound, even
if the bound is not exact.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from deltalite.columnar.skipping.file_facts import DIGITS_OF_DOUBLE, SATURATED, SHORTEST_CUT, known_beginning
from deltalite.columnar.skipping.stats_columns import values_where
from deltalite.columnar.statistics.string_bounds import utf16_units
from deltalite.inspection.cells import cell_text

_LONGEST_VALUE = 60
# A writer saturates a decimal to 64 bits only if the decimal has at least this many digits before the point.
_SATURATED_DIGITS = 19


class Side(StrEnum):
    """The smallest or the largest value, by its name in Arrow."""

    LOW = "min"
    HIGH = "max"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The smallest or largest value of a column as a text."""

    text: str
    is_exact: bool


@dataclass(slots=True)
class Extreme:
    """The smallest or the largest bound of many files.

    - `is_known`: False if a file with values has no bound.
    """

    side: Side
    is_known: bool = True
    _extremes: list[pa.Scalar] = field(default_factory=list)
    _tight_extremes: list[pa.Scalar] = field(default_factory=list)

    def add(self, bounds: pa.Array, is_wide: pa.BooleanArray, has_no_value: pa.BooleanArray) -> None:
        """Add the bounds of files.

        Args:
            bounds: the bound of each file; null without one.
            is_wide: whether the bound may be that of a soft-deleted row.
            has_no_value: whether all rows of the file are NULL or soft-deleted.
        """
        self.is_known = self.is_known and not pc.any(pc.and_(pc.is_null(bounds), pc.invert(has_no_value))).as_py()
        tight_bounds = values_where(pc.invert(is_wide), bounds)
        for extremes, values in ((self._extremes, bounds), (self._tight_extremes, tight_bounds)):
            extreme = pc.min_max(values)[self.side]
            if extreme.is_valid:
                extremes.append(extreme)

    def bound(self) -> Bound | None:
        """Return the bound of all files; None if it is unknown, or if no file has a value."""
        extreme, tight_extreme = extreme_of(self._extremes, self.side), extreme_of(self._tight_extremes, self.side)
        if not self.is_known or extreme is None:
            return None
        is_exact = tight_extreme is not None and extreme.equals(tight_extreme)
        if types.is_string(extreme.type):
            return _bound_of_text(extreme.as_py(), self.side, is_exact=is_exact)
        if types.is_decimal(extreme.type):
            is_exact = is_exact and len(extreme.as_py().normalize().as_tuple().digits) <= DIGITS_OF_DOUBLE
        return Bound(text=text_of(extreme), is_exact=is_exact)


def extreme_of(values: list[pa.Scalar], side: Side) -> pa.Scalar | None:
    """Return the smallest or the largest of values of one type, without NaN; None without a value."""
    if not values:
        return None
    array = pa.array(values, values[0].type)
    if types.is_floating(array.type):
        array = array.filter(pc.invert(pc.is_nan(array)))
    extreme = pc.min_max(array)[side]
    return extreme if extreme.is_valid else None


def without_saturated(bounds: pa.Array) -> pa.Array:
    """Return the bounds with null for a decimal that a writer saturated to 64 bits."""
    if not types.is_decimal(bounds.type) or bounds.type.precision - bounds.type.scale < _SATURATED_DIGITS:
        return bounds
    saturated_values = pa.array([Decimal(value) for value in sorted(SATURATED)], bounds.type)
    return values_where(pc.invert(pc.is_in(bounds, value_set=saturated_values)), bounds)


def text_of(value: pa.Scalar) -> str:
    """Return a short text of a value, without secrets."""
    if types.is_floating(value.type):  # a 32-bit float has fewer digits than the Python float
        value = value.cast(pa.string())
    return cell_text(value, max_length=_LONGEST_VALUE) or ""


def _bound_of_text(text: str, side: Side, *, is_exact: bool) -> Bound:
    """Return the bound of a text. If a writer may have truncated it, an ellipsis stands for the rest."""
    may_be_cut = utf16_units(text) >= SHORTEST_CUT
    if side is Side.HIGH:
        text, may_be_cut = known_beginning(text)
    short_text = text_of(pa.scalar(text))
    ellipsis = "…" if may_be_cut and not short_text.endswith("…") else ""
    return Bound(text=short_text + ellipsis, is_exact=is_exact and not may_be_cut)

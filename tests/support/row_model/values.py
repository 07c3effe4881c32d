"""SQL values in plain Python: None is NULL, a struct is a dictionary, text and numbers are themselves.

This module holds every difference between SQL and Python:

- truth has three values;
- NaN equals NaN and is greater than all other numbers;
- 0.0 equals -0.0 in a comparison, though a row with 0.0 is not the same row as one with -0.0;
- within a struct, null equals null and is the smallest value.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

Row = dict[str, Any]
"""A value for each column, by its name in lower case."""


def compare(left: Any, right: Any) -> int:
    """The order of two values of one type, both not null: -1, 0 or 1."""
    if isinstance(left, dict):
        return next((order for name in left if (order := _compare_members(left[name], right[name]))), 0)
    if isinstance(left, float) or isinstance(right, float):
        left, right = (math.isnan(left), left), (math.isnan(right), right)
        if left[0] or right[0]:
            return left[0] - right[0]
    return (left > right) - (left < right)


def _compare_members(left: Any, right: Any) -> int:
    if left is None or right is None:
        return (left is not None) - (right is not None)
    return compare(left, right)


def equal(left: Any, right: Any) -> bool:
    """Whether two values are equal by `<=>`."""
    if left is None or right is None:
        return left is right
    return compare(left, right) == 0


def both(left: bool | None, right: bool | None) -> bool | None:
    """AND."""
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def either(left: bool | None, right: bool | None) -> bool | None:
    """OR."""
    if left is True or right is True:
        return True
    return None if left is None or right is None else False


def opposite(truth: bool | None) -> bool | None:
    """NOT."""
    return None if truth is None else not truth


def frozen(value: Any) -> Any:
    """A hashable form of a value. Two forms are equal if a table stores the same bits for both; NaN is one value."""
    match value:
        case float():
            return f"double {value!r}"
        case Mapping():
            return tuple(sorted((name.lower(), frozen(member)) for name, member in value.items()))
        case _:
            return value


def counted(rows: Iterable[Mapping[str, Any]]) -> Counter[Any]:
    """Rows as a multiset, regardless of the order of rows and columns and of the case of names."""
    return Counter(frozen(row) for row in rows)

"""SQL values in plain Python: None is NULL, a dictionary is a struct, and strings and numbers stand for themselves.

The functions of this module follow SQL where SQL and Python differ:

- truth has three values;
- NaN equals NaN and is greater than all other numbers;
- 0.0 equals -0.0 in a comparison;
- within a struct, null equals null and is the smallest value.

`row_counts` is stricter than SQL: a row with 0.0 and a row with -0.0 are different rows.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

Row = dict[str, Any]
"""The value of each column, by the column's name in lower case."""


def compare(left: Any, right: Any) -> int:
    """Compare two values of one type that are not null; returns -1, 0 or 1."""
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


def sql_and(left: bool | None, right: bool | None) -> bool | None:
    """AND."""
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def sql_or(left: bool | None, right: bool | None) -> bool | None:
    """OR."""
    if left is True or right is True:
        return True
    return None if left is None or right is None else False


def sql_not(truth: bool | None) -> bool | None:
    """NOT."""
    return None if truth is None else not truth


def hashable_form(value: Any) -> Any:
    """A hashable form of a value. 0.0 and -0.0 have different forms; all NaN have one form."""
    match value:
        case float():
            return f"double {value!r}"
        case Mapping():
            return tuple(sorted((name.lower(), hashable_form(member)) for name, member in value.items()))
        case _:
            return value


def row_counts(rows: Iterable[Mapping[str, Any]]) -> Counter[Any]:
    """Rows as a multiset, regardless of the order of rows and columns and of the case of names."""
    return Counter(hashable_form(row) for row in rows)

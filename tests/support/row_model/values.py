"""SQL's values in plain Python: None is NULL, a struct is a dictionary, text and numbers are themselves.

What differs from Python stands here, and only here: truth has three values; NaN equals NaN and is greater than all
other numbers; 0.0 equals -0.0 in a comparison, though a row that holds one is not the row that holds the other; within
a struct a null equals a null and is the smallest.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

Row = dict[str, Any]
"""A value for each column, by its name in lower case."""


def compare(one: Any, other: Any) -> int:
    """-1, 0 or 1 for two values of one type, neither of them null."""
    if isinstance(one, dict):
        return next((found for name in one if (found := _compare_members(one[name], other[name]))), 0)
    if isinstance(one, float) or isinstance(other, float):
        one, other = (math.isnan(one), one), (math.isnan(other), other)
        if one[0] or other[0]:
            return one[0] - other[0]
    return (one > other) - (one < other)


def _compare_members(one: Any, other: Any) -> int:
    if one is None or other is None:
        return (one is not None) - (other is not None)
    return compare(one, other)


def equal(one: Any, other: Any) -> bool:
    """Whether two values are the same as `<=>` sees it."""
    if one is None or other is None:
        return one is other
    return compare(one, other) == 0


def both(one: bool | None, other: bool | None) -> bool | None:
    """AND."""
    if one is False or other is False:
        return False
    return None if one is None or other is None else True


def either(one: bool | None, other: bool | None) -> bool | None:
    """OR."""
    if one is True or other is True:
        return True
    return None if one is None or other is None else False


def opposite(one: bool | None) -> bool | None:
    """NOT."""
    return None if one is None else not one


def frozen(value: Any) -> Any:
    """A value that can be counted: equal to another where a table would hold the same bits (NaN is one value)."""
    match value:
        case float():
            return f"double {value!r}"
        case Mapping():
            return tuple(sorted((name.lower(), frozen(member)) for name, member in value.items()))
        case _:
            return value


def counted(rows: Iterable[Mapping[str, Any]]) -> Counter[Any]:
    """Rows as a multiset: the order of rows and of columns says nothing, nor the case of names."""
    return Counter(frozen(row) for row in rows)

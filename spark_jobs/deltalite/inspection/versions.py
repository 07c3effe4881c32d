"""Sets of versions as ranges, which stay small for a table with a million consecutive versions."""

from __future__ import annotations

from collections.abc import Iterable

Range = tuple[int, int]
"""The first and the last version, both inclusive."""


def ranges_of(versions: Iterable[int]) -> tuple[Range, ...]:
    """Return the versions as the fewest ranges, ascending."""
    found: list[list[int]] = []
    for version in sorted(versions):
        if found and version <= found[-1][1] + 1:
            found[-1][1] = version
        else:
            found.append([version, version])
    return tuple((first, last) for first, last in found)


def union(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Return the union of ranges as the fewest ranges, ascending."""
    found: list[Range] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return tuple(found)


def without(ranges: Iterable[Range], taken: Iterable[Range]) -> tuple[Range, ...]:
    """Return the versions of `ranges` that are not in `taken`, as ranges."""
    left: list[Range] = []
    gone = union(taken)
    for first, last in union(ranges):
        at = first
        for low, high in gone:
            if high < at or low > last:
                continue
            if low > at:
                left.append((at, low - 1))
            at = high + 1
        if at <= last:
            left.append((at, last))
    return tuple(left)


def holds(ranges: Iterable[Range], version: int) -> bool:
    """Whether a version is in one of the ranges."""
    return any(first <= version <= last for first, last in ranges)


def spelled(ranges: Iterable[Range]) -> str:
    """Format ranges as `0-3, 7`, or `none` without a version."""
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges) or "none"

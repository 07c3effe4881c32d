"""Sets of versions as ranges, which stay small for a table with a million consecutive versions."""

from __future__ import annotations

from collections.abc import Iterable

Range = tuple[int, int]
"""The first and the last version, both inclusive."""


def ranges_of(versions: Iterable[int]) -> tuple[Range, ...]:
    """Return the versions as the fewest ranges, ascending."""
    merged: list[list[int]] = []
    for version in sorted(versions):
        if merged and version <= merged[-1][1] + 1:
            merged[-1][1] = version
        else:
            merged.append([version, version])
    return tuple((first, last) for first, last in merged)


def union(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Return the union of ranges as the fewest ranges, ascending."""
    merged: list[Range] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return tuple(merged)


def without(ranges: Iterable[Range], excluded: Iterable[Range]) -> tuple[Range, ...]:
    """Return the versions of `ranges` that are not in `excluded`, as ranges."""
    remaining: list[Range] = []
    merged = union(excluded)
    for first, last in union(ranges):
        start = first
        for low, high in merged:
            if high < start or low > last:
                continue
            if low > start:
                remaining.append((start, low - 1))
            start = high + 1
        if start <= last:
            remaining.append((start, last))
    return tuple(remaining)


def contains(ranges: Iterable[Range], version: int) -> bool:
    """Whether a version is in one of the ranges."""
    return any(first <= version <= last for first, last in ranges)


def format_ranges(ranges: Iterable[Range]) -> str:
    """Format ranges as `0-3, 7`; without ranges, return `none`."""
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges) or "none"

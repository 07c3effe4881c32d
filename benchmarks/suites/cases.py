"""The cases of a suite, and the numbers that the page shows of them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

SIDES = ("deltalite", "delta-spark", "delta-spark, warm", "delta-rs")
"""All sides, in the order of tables and legends. The first is this package."""


@dataclass(slots=True, kw_only=True)
class Case:
    """One measured operation: the seconds of each round, by side.

    `group` names the cases that belong into one plot. `size` is the place of the case on the axis of a growth curve.
    """

    group: str
    name: str
    size: float | None = None
    seconds: dict[str, list[float]]


def median(seconds: Sequence[float]) -> float:
    """Return the median of the rounds."""
    return statistics.median(seconds)


def ratio(case: Case, peer: str) -> float:
    """Return the median time of this package, divided by that of a peer."""
    return median(case.seconds[SIDES[0]]) / median(case.seconds[peer])


def sides_of(cases: Sequence[Case]) -> list[str]:
    """Return the sides of the cases, with this package first."""
    return [side for side in SIDES if any(side in case.seconds for case in cases)]


def by_group(cases: Sequence[Case]) -> dict[str, list[Case]]:
    """Return the cases by group, both in their order."""
    groups: dict[str, list[Case]] = {}
    for case in cases:
        groups.setdefault(case.group, []).append(case)
    return groups

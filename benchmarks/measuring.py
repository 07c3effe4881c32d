"""Paired runs of two implementations, and a table of their times, for all benchmarks.

Both sides run in turns, so that the load of the machine affects both. The first round warms caches and is not counted.
Only ratios are comparable between machines, so each ratio has a target.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class Pair:
    """The seconds of each round of this library and of a peer that gives the same result."""

    name: str
    peer: str
    target: float
    ours_s: list[float] = field(default_factory=list)
    peer_s: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """The median time of this library, divided by that of the peer."""
        return statistics.median(self.ours_s) / statistics.median(self.peer_s)

    def run(
        self,
        ours: Callable[[], object],
        peers: Callable[[], object],
        *,
        rounds: int,
        prepare: Callable[[], object] = lambda: None,
    ) -> None:
        """Time both in turns, after one round that is not counted. `prepare` runs before each round.

        The order alternates. Otherwise a JVM that still warms up, or memory that the other side has just released,
        would favour one side.
        """
        sides = [(ours, self.ours_s), (peers, self.peer_s)]
        for number in range(rounds + 1):
            prepare()
            for call, seconds in sides if number % 2 else reversed(sides):
                started = time.perf_counter()
                call()
                if number:
                    seconds.append(time.perf_counter() - started)


def print_table(pairs: list[Pair]) -> None:
    """Print one line per pair: the medians, the ratio, its target, and OVER if the ratio exceeds it."""
    print(f"{'benchmark':<44} {'ours':>8} {'peer':>8} {'ratio':>6} {'target':>7}")
    for pair in pairs:
        ours, peer = statistics.median(pair.ours_s), statistics.median(pair.peer_s)
        verdict = "" if pair.ratio <= pair.target else "  OVER"
        figures = f"{ours:>7.2f}s {peer:>7.2f}s {pair.ratio:>6.2f} {pair.target:>7.2f}"
        print(f"{pair.name:<44} {figures}   (peer: {pair.peer}){verdict}")

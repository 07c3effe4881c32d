"""What the benchmarks share: paired runs of two ways to the same result, and a table of what they took.

Both sides run in turns in one process each, so that the machine's mood falls on both; the first round of each warms
caches and is not counted. Only ratios mean anything: they are printed with the target they are held against.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class Pair:
    """Ours and a peer's way to the same result, with the seconds each round took."""

    name: str
    peer: str
    target: float
    ours_s: list[float] = field(default_factory=list)
    peer_s: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """Ours over the peer's, by medians."""
        return statistics.median(self.ours_s) / statistics.median(self.peer_s)

    def run(
        self,
        ours: Callable[[], object],
        peers: Callable[[], object],
        *,
        rounds: int,
        prepare: Callable[[], object] = lambda: None,
    ) -> None:
        """Time both in turns; one more round is run first and thrown away. `prepare` goes before each round.

        They take turns in going first too: a JVM that still warms up, or memory that the other side has just given
        back, would favour one of them.
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
    """One line a pair: medians, the ratio, and whether it is within its target."""
    print(f"{'what':<44} {'ours':>8} {'peer':>8} {'ratio':>6} {'target':>7}")
    for pair in pairs:
        ours, peer = statistics.median(pair.ours_s), statistics.median(pair.peer_s)
        verdict = "" if pair.ratio <= pair.target else "  OVER"
        figures = f"{ours:>7.2f}s {peer:>7.2f}s {pair.ratio:>6.2f} {pair.target:>7.2f}"
        print(f"{pair.name:<44} {figures}   (peer: {pair.peer}){verdict}")

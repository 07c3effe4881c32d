"""Timed comparisons of this library with a peer, and a table of their times, for all benchmarks.

Times depend on the machine, so each target is a ratio of two sides.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from release_ratios import MeasuredRatio, median_ratio
from turns import time_in_turns

RATIOS_FILE = "DELTALITE_BENCH_RATIOS"
"""The environment variable with the file to which a script adds its ratios, a JSON text in each line."""


@dataclass(slots=True, kw_only=True)
class TimedPair:
    """The times of this library and of a peer that gives the same result, in seconds for each round.

    `target` is the maximum of `ratio`.
    """

    name: str
    peer: str
    target: float
    deltalite_s: list[float] = field(default_factory=list)
    peer_s: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """The median time of this library, divided by that of the peer."""
        return median_ratio(self.deltalite_s, self.peer_s)

    def run(
        self,
        run_deltalite: Callable[[], object],
        run_peer: Callable[[], object],
        *,
        rounds: int,
        prepare: Callable[[], object] = lambda: None,
    ) -> None:
        """Time both sides in each round, after one round that does not count. `prepare` runs before each round."""
        sides = {"deltalite": run_deltalite, "peer": run_peer}
        seconds = time_in_turns(sides, rounds=rounds, prepare=prepare)
        self.deltalite_s += seconds["deltalite"]
        self.peer_s += seconds["peer"]


def print_table(pairs: list[TimedPair]) -> None:
    """Print one line per pair: the medians, the ratio, its target, and OVER if the ratio exceeds the target.

    The pairs also go to the file that `RATIOS_FILE` names.
    """
    print(f"{'benchmark':<44} {'deltalite':>9} {'peer':>8} {'ratio':>6} {'target':>7}")
    for pair in pairs:
        deltalite_s, peer_s = statistics.median(pair.deltalite_s), statistics.median(pair.peer_s)
        verdict = "" if pair.ratio <= pair.target else "  OVER"
        figures = f"{deltalite_s:>8.2f}s {peer_s:>7.2f}s {pair.ratio:>6.2f} {pair.target:>7.2f}"
        print(f"{pair.name:<44} {figures}   (peer: {pair.peer}){verdict}")
    if file := os.environ.get(RATIOS_FILE):
        with Path(file).open("a") as ratios:
            ratios.writelines(json.dumps(_measured_ratio(pair).to_json()) + "\n" for pair in pairs)


def _measured_ratio(pair: TimedPair) -> MeasuredRatio:
    return MeasuredRatio(
        script=Path(sys.argv[0]).stem,
        name=pair.name,
        peer=pair.peer,
        date=datetime.now(UTC).date().isoformat(),
        deltalite_s=pair.deltalite_s,
        peer_s=pair.peer_s,
    )

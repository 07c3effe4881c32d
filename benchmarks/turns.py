"""Times of several sides that run in turns, so that the load of the machine affects all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping


def time_in_turns(
    sides: Mapping[str, Callable[[], object]],
    *,
    rounds: int,
    prepare: Callable[[], object] = lambda: None,
) -> dict[str, list[float]]:
    """Run each side once in each round, and return the seconds of each side by round.

    One more round runs first, to warm caches, and does not count. `prepare` runs before each round. Each round begins
    with another side. Otherwise a JVM that still warms up, or memory that the previous side has just released, would
    favour one side.
    """
    names = list(sides)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for round_number in range(rounds + 1):
        prepare()
        first = round_number % len(names)
        for name in names[first:] + names[:first]:
            started = time.perf_counter()
            sides[name]()
            if round_number:
                seconds[name].append(time.perf_counter() - started)
    return seconds

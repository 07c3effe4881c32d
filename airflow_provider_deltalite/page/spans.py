"""Lengths of time as texts, such as `3 hours`."""

from __future__ import annotations

_UNITS = ((86_400 * 2, 86_400, "days"), (3_600 * 2, 3_600, "hours"), (120, 60, "minutes"), (0, 1, "seconds"))


def span_text(seconds: float) -> str:
    """Return a length of time as text, such as `36 hours`.

    The unit is the largest unit of which the time has at least two. A time below two minutes is in seconds. The number
    is rounded down.
    """
    seconds = max(0.0, seconds)
    unit_seconds, unit = next((unit, name) for limit, unit, name in _UNITS if seconds >= limit)
    count = int(seconds // unit_seconds)
    return f"{count} {unit if count != 1 else unit[:-1]}"

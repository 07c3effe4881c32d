"""The effort of a commit: the time before it, and the versions that other writers committed meanwhile.

The values come from the provenance of the commit, which is hostile.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_DURATIONS = ("executionTimeMs", "execution_time_ms")  # delta-rs writes the names with underscores
_MAX_DIGITS = 19


def counts_of(metrics: Any) -> dict[str, int]:
    """Return the operation metrics that are whole numbers; Delta writes them as texts."""
    if not isinstance(metrics, Mapping):
        return {}
    texts = {str(name): str(value) for name, value in metrics.items() if isinstance(value, str | int)}
    return {
        name: int(text)
        for name, text in texts.items()
        if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS
    }


def first_count(counts: Mapping[str, int], names: tuple[str, ...]) -> int | None:
    """Return the count of the first name that has one; None if no name has a count."""
    return next((counts[name] for name in names if name in counts), None)


def duration_ms_of(info: Mapping[str, Any]) -> int | None:
    """Return the time that the operation took before its commit, in milliseconds; None if its writer recorded none."""
    return first_count(counts_of(info.get("operationMetrics")), _DURATIONS)


def versions_meanwhile(version: int, info: Mapping[str, Any]) -> int:
    """Return how many versions other writers committed after the version that the operation read.

    The result is 0 if the writer did not record that version.
    """
    read_version = info.get("readVersion")
    if not isinstance(read_version, int) or isinstance(read_version, bool) or not 0 <= read_version < version:
        return 0
    return version - read_version - 1

"""The effort of a commit: its duration, its replans, and the versions that other writers committed meanwhile.

The values come from the provenance of the commit. Its writer may have recorded anything, so invalid values are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_DURATIONS = ("executionTimeMs", "execution_time_ms")  # delta-rs writes the names with underscores
_MAX_DIGITS = 19


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitEffort:
    """The effort of a commit.

    - `duration_ms`: the time that the operation took before its commit, in milliseconds; None if the writer did not
      record the time.
    - `replans`: the number of replans after conflicts; 0 if the writer did not record the number.
    - `versions_meanwhile`: the number of versions that other writers committed after the version that the operation
      read; 0 if the writer did not record the read version.
    """

    duration_ms: int | None = None
    replans: int = 0
    versions_meanwhile: int = 0


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


def effort_of(version: int, info: Mapping[str, Any]) -> CommitEffort:
    """Return the effort of the commit of a version, from its provenance."""
    counts = counts_of(info.get("operationMetrics"))
    return CommitEffort(
        duration_ms=first_count(counts, _DURATIONS),
        replans=counts.get("numReplans", 0),
        versions_meanwhile=_versions_meanwhile(version, info.get("readVersion")),
    )


def _versions_meanwhile(version: int, read_version: Any) -> int:
    if not isinstance(read_version, int) or isinstance(read_version, bool) or not 0 <= read_version < version:
        return 0
    return version - read_version - 1

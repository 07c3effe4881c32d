"""The growth of a table as values for the plots. `static/plots.js` draws them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from deltalite.inspection.growth import Growth, GrowthPoint

_FEWEST_POINTS = 2
# The other plots appear if they have a number other than zero.
_ALWAYS_SHOWN = frozenset({"rows", "bytes", "files"})


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthPlots:
    """The values of the plots as JSON, and the range of versions that they show.

    The JSON has arrays of the same length: `versions`, `times` (seconds UTC), and one for each name in `names`. Unknown
    numbers are null. `checkpoints` has the versions with a checkpoint, and `optimizes` the versions that an optimize
    committed.
    """

    values: str
    names: tuple[str, ...]
    first_version: int
    last_version: int
    has_unknown_numbers: bool
    has_checkpoints: bool
    has_optimizes: bool


def growth_plots(growth: Growth | None) -> GrowthPlots | None:
    """Return the values of the plots; None if there are fewer than two versions to connect."""
    if growth is None or len(growth.points) < _FEWEST_POINTS:
        return None
    points = growth.points
    plots: dict[str, Sequence[float | None]] = {
        "rows": [point.rows for point in points],
        "bytes": [point.size_bytes for point in points],
        "files": [point.files for point in points],
        "deleted": [_deleted_percent(point) for point in points],
        "log": growth.log_bytes,
        "seconds": [_seconds(point.effort.duration_ms) for point in points],
        "meanwhile": [point.effort.versions_meanwhile for point in points],
        "replans": [point.effort.replans for point in points],
    }
    plots = {name: numbers for name, numbers in plots.items() if name in _ALWAYS_SHOWN or any(numbers)}
    values = {
        "versions": [point.version for point in points],
        "times": [point.timestamp_ms / 1000 for point in points],
        "checkpoints": growth.checkpoints,
        "optimizes": growth.optimizes,
        **plots,
    }
    return GrowthPlots(
        values=json.dumps(values, separators=(",", ":")),
        names=tuple(plots),
        first_version=points[0].version,
        last_version=points[-1].version,
        has_unknown_numbers=any(point.rows is None or point.size_bytes is None for point in points),
        has_checkpoints=bool(growth.checkpoints),
        has_optimizes=bool(growth.optimizes),
    )


def version_times(growth: Growth | None) -> dict[int, int]:
    """Return the commit times of versions, in milliseconds UTC."""
    return {} if growth is None else {point.version: point.timestamp_ms for point in growth.points}


def readable_versions_text(growth: Growth | None) -> str:
    """Return the sentences about the versions that the log can rebuild; an empty text without any."""
    if growth is None or not growth.readable:
        return ""
    ranges = ", ".join(f"{first} to {last}" if first < last else f"{first}" for first, last in growth.readable)
    return f"The log can rebuild these versions: {ranges}. A vacuum may have deleted files of the older ones."


def _seconds(duration_ms: int | None) -> float | None:
    return None if duration_ms is None else duration_ms / 1000


def _deleted_percent(point: GrowthPoint) -> float | None:
    if point.rows is None or point.deleted_rows is None:
        return None
    total = point.rows + point.deleted_rows
    return round(100 * point.deleted_rows / total, 3) if total else 0.0

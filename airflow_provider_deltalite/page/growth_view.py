"""The growth of a table as values for the plots. `static/plots.js` draws them."""

from __future__ import annotations

import json
from dataclasses import dataclass

from deltalite.inspection.growth import Growth, GrowthPoint

_FEWEST_POINTS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthPlots:
    """The values of the plots as JSON, and the range of versions that they show.

    The JSON has arrays of the same length: `versions`, `times` (seconds UTC), `rows`, `bytes`, `files` and `deleted`
    (percent of the rows that are soft-deleted); unknown numbers are null. `checkpoints` has the versions with a
    checkpoint, and `optimizes` those of an optimize. `has_deleted_rows` is whether a version has soft-deleted rows.
    """

    values: str
    first_version: int
    last_version: int
    has_unknown_numbers: bool
    has_deleted_rows: bool
    has_checkpoints: bool
    has_optimizes: bool


def growth_plots(growth: Growth | None) -> GrowthPlots | None:
    """Return the values of the plots; None if there are fewer than two versions to connect."""
    if growth is None or len(growth.points) < _FEWEST_POINTS:
        return None
    points = growth.points
    values = {
        "versions": [point.version for point in points],
        "times": [point.timestamp_ms / 1000 for point in points],
        "rows": [point.rows for point in points],
        "bytes": [point.size_bytes for point in points],
        "files": [point.files for point in points],
        "deleted": [_deleted_percent(point) for point in points],
        "checkpoints": growth.checkpoints,
        "optimizes": growth.optimizes,
    }
    return GrowthPlots(
        values=json.dumps(values, separators=(",", ":")),
        first_version=points[0].version,
        last_version=points[-1].version,
        has_unknown_numbers=any(point.rows is None or point.size_bytes is None for point in points),
        has_deleted_rows=any(point.deleted_rows for point in points),
        has_checkpoints=bool(growth.checkpoints),
        has_optimizes=bool(growth.optimizes),
    )


def readable_versions(growth: Growth | None) -> str:
    """Return the sentence about the versions that the log can rebuild; an empty text without any."""
    if growth is None or not growth.readable:
        return ""
    ranges = ", ".join(f"{first} to {last}" if first < last else f"{first}" for first, last in growth.readable)
    return f"The log can rebuild these versions: {ranges}. A vacuum may have deleted files of the older ones."


def _deleted_percent(point: GrowthPoint) -> float | None:
    if point.rows is None or point.deleted_rows is None:
        return None
    total = point.rows + point.deleted_rows
    return round(100 * point.deleted_rows / total, 3) if total else 0.0

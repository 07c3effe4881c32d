"""The growth of a table as values for the plots. `static/plots.js` draws them."""

from __future__ import annotations

import json
from dataclasses import dataclass

from deltalite.inspection.growth import Growth

_FEWEST_POINTS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthPlots:
    """The values of the plots as JSON, and the range of versions that they show.

    The JSON has arrays of the same length: `versions`, `times` (seconds UTC), `rows`, `bytes` and `files`; unknown
    numbers are null. `checkpoints` has the versions with a checkpoint.
    """

    values: str
    first_version: int
    last_version: int
    has_unknown_numbers: bool


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
        "checkpoints": growth.checkpoints,
    }
    return GrowthPlots(
        values=json.dumps(values, separators=(",", ":")),
        first_version=points[0].version,
        last_version=points[-1].version,
        has_unknown_numbers=any(point.rows is None or point.size_bytes is None for point in points),
    )

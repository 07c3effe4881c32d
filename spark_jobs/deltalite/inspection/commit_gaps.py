"""The usual time between the loads of a table, from the times of its newest commits.

A load may make several commits, such as a write and an optimize after it. A gap shorter than one fiftieth of the
longest gap counts as a gap inside a load. The usual gap is the median of all longer gaps. The times are the
modification times of the commit files, because the times inside the files would need a request for each commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median_low

from deltalite.log.listing import list_log
from deltalite.snapshot import Snapshot

_COMMITS = 21
_FEWEST_GAPS = 3
_LONGEST_TO_SHORTEST_GAP = 50


def usual_gap_ms(snapshot: Snapshot) -> int | None:
    """Return the usual milliseconds between loads; None if the newest 21 commits have too few gaps between loads.

    The snapshot knows the commit files after its checkpoint. If there are too few, the function lists the log again.
    """
    files = [*snapshot.segment.commits, *([snapshot.segment.commit_file] if snapshot.segment.commit_file else [])]
    times = {file.name: file.modified_ms for file in files}
    if len(times) <= _FEWEST_GAPS and snapshot.version >= _FEWEST_GAPS:
        listing = list_log(snapshot.store, max(0, snapshot.version + 1 - _COMMITS))
        times = {
            file.name: file.modified_ms for version, file in listing.commits.items() if version <= snapshot.version
        }
    return usual_gap_of([times[name] for name in sorted(times)][-_COMMITS:])


def usual_gap_of(times_ms: Sequence[int]) -> int | None:
    """Return the usual gap between times in ascending order; None if there are too few gaps."""
    gaps = [max(0, later - earlier) for earlier, later in pairwise(times_ms)]
    longest = max(gaps, default=0)
    between_loads = [gap for gap in gaps if gap * _LONGEST_TO_SHORTEST_GAP >= longest]
    return median_low(between_loads) if longest and len(between_loads) >= _FEWEST_GAPS else None

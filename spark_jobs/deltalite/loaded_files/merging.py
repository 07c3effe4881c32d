"""The choice of segments to merge, so that their number stays logarithmic in the number of loaded files.

Segments belong to size classes. If at least seven segments are in the class of a new segment or in smaller classes,
they are merged with the new segment. The same rule then applies to the merged segment. A segment never grows above
`MAX_FILES`, which bounds memory. A segment with more than half of `MAX_FILES` is never merged again.
"""

from __future__ import annotations

from collections.abc import Sequence

MAX_FILES = 1_000_000
"""The largest number of files in a segment."""
_PER_CLASS = 8


def segments_to_merge(file_counts: Sequence[int], new_files: int, *, max_files: int = MAX_FILES) -> list[int]:
    """Return the positions of the segments that are merged with `new_files` new files, in ascending order.

    `file_counts` are the numbers of files of the existing segments.
    """
    positions: list[int] = []
    total = new_files
    while total <= max_files // 2:
        limit = _PER_CLASS ** (_size_class(total) + 1)
        peers = [n for n, count in enumerate(file_counts) if n not in positions and count < limit]
        peers = [n for n in peers if file_counts[n] <= max_files // 2]
        if len(peers) < _PER_CLASS - 1:
            break
        chosen = _within(peers, file_counts, max_files - total)
        if not chosen:
            break
        positions += chosen
        total += sum(file_counts[n] for n in chosen)
    return sorted(positions)


def _within(positions: Sequence[int], file_counts: Sequence[int], limit: int) -> list[int]:
    """Return the positions with the smallest counts whose sum is at most `limit`."""
    chosen: list[int] = []
    for position in sorted(positions, key=lambda n: file_counts[n]):
        limit -= file_counts[position]
        if limit < 0:
            break
        chosen.append(position)
    return chosen


def _size_class(file_count: int) -> int:
    """Return the class of a segment: class n has less than 8 ** (n + 1) files."""
    size_class = 0
    while file_count >= _PER_CLASS ** (size_class + 1):
        size_class += 1
    return size_class

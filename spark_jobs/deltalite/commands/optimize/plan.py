"""The plan of an optimize: which files are rewritten, and which of them together. The same files give the same plan.

There are three rules:

- A file whose rows are all deleted is removed.
- Packing (`packed`) fills the bins of a partition with small files and with files that have too many deleted rows.
  Older files come first, so that rows of the same age stay together.
- Clustering (`clustered`) takes the files of a partition that are in no cube of the same columns.

Tags identify the files of an earlier run: delta-spark's tags, and one for the room that was left. Two kinds of bins are
not rewritten until other files join them: files that were packed to the same size, and a partition whose files all lie
in such cubes.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import add, gt

TARGET_SIZE_TAG = "OPTIMIZE_TARGET_SIZE"
ROOM_TAG = "DELTALITE_ROOM"
"""The tag for the bytes that were left in the bin of a packed file when no other file fitted; without it, 0."""
CUBE_ID_TAG, CUBE_COLUMNS_TAG, CUBE_CURVE_TAG = "ZCUBE_ID", "ZCUBE_ZORDER_BY", "ZCUBE_ZORDER_CURVE"
Z_ORDER = "zorder"
# The most open bins that are tried for a file. It bounds the work in a partition with very many files.
_OPEN_BINS = 16
# The most bins, old files and deleted rows of one commit. The driver holds the footers of all new files, and a conflict
# can cost the whole commit. Every executor gets the positions of the deleted rows.
_MOST_BINS, _MOST_FILES, _MOST_DELETED = 5_000, 100_000, 20_000_000
# The most files that one bin becomes.
_MOST_OUTPUTS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A file that may be rewritten.

    `number` is its row in a table of files. Files of one partition have an equal `partition`. `records` includes
    deleted rows and is None without statistics. `deleted` is None without a deletion vector.
    """

    number: int
    partition: Hashable
    path: str
    size_bytes: int
    modified_ms: int
    records: int | None
    deleted: int | None = None
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether all of its rows are deleted."""
        return self.records is not None and self.records == (self.deleted or 0)

    @property
    def live_bytes(self) -> int:
        """The approximate bytes of its live rows."""
        if not self.records:
            return self.size_bytes
        return max(1, self.size_bytes * (self.records - (self.deleted or 0)) // self.records)

    def has_too_many_deleted(self, ratio: float) -> bool:
        """Whether more than `ratio` of its rows is deleted. True for a file with a vector but without a row count."""
        if self.deleted is None:
            return False
        return not self.records or self.deleted / self.records > ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """Files of one partition whose rows go into `outputs` new files.

    `room` is in bytes: the plan has considered every larger file and left it out. It is 0 for a closed bin.
    """

    files: tuple[Candidate, ...]
    outputs: int = 1
    room: int = 0

    @property
    def live_bytes(self) -> int:
        """The approximate bytes of the live rows."""
        return sum(file.live_bytes for file in self.files)

    @property
    def size_bytes(self) -> int:
        """The bytes of the files."""
        return sum(file.size_bytes for file in self.files)

    @property
    def deleted(self) -> int:
        """The rows that are marked as deleted."""
        return sum(file.deleted or 0 for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The work of one commit: bins to rewrite, and files without rows to remove."""

    bins: tuple[Bin, ...]
    empty: tuple[Candidate, ...] = ()


def packed(files: Iterable[Candidate], *, target: int, smallest: int, ratio: float) -> list[Bin]:
    """Return bins of about `target` bytes of files below `smallest` bytes or with over `ratio` of rows deleted."""
    found: list[Bin] = []
    for own in _by_partition(f for f in files if f.size_bytes < smallest or f.has_too_many_deleted(ratio)):
        looked_at_ms = max((f.modified_ms for f in own if _is_packed(f, target)), default=None)
        written, staying = list[Bin](), list[Bin]()
        for some in _filled(own, target):
            goes = any(f.has_too_many_deleted(ratio) for f in some.files) or _joins(some.files, target, looked_at_ms)
            (written if goes else staying).append(some)
        stay = (f.live_bytes for some in staying for f in some.files if not _is_packed(f, target))
        most = max(0, min(stay, default=target) - 1)  # files that stay have been considered for every bin
        found += [replace(some, room=min(some.room, most)) for some in written]
    return found


def _joins(files: Sequence[Candidate], target: int, looked_at_ms: int | None) -> bool:
    """Whether the bin combines files that no earlier run has combined or considered.

    A file that is older than the last packing of its partition was considered then and did not fit. Packed files may
    take less space now, but this is no reason to rewrite them. A file that was added while that packing ran was not
    considered; it joins if it fits into the recorded room.
    """
    others = [f for f in files if not _is_packed(f, target)]
    room = max((_room(f) for f in files if _is_packed(f, target)), default=0)
    is_new = any(looked_at_ms is None or f.modified_ms > looked_at_ms or f.live_bytes <= room for f in others)
    return len(others) > 1 or (len(files) > 1 and is_new)


def _is_packed(file: Candidate, target: int) -> bool:
    return file.tags.get(TARGET_SIZE_TAG) == str(target)


def _room(file: Candidate) -> int:
    text = file.tags.get(ROOM_TAG, "")
    return int(text) if text.isdecimal() else 0  # other writers may store any text in the tag


def clustered(
    files: Iterable[Candidate], *, columns: Sequence[str], target: int, ratio: float, cube_bytes: int
) -> list[Bin]:
    """Return cubes of up to about `cube_bytes` of the files that are not clustered by `columns`.

    Each cube becomes files of about `target` bytes. Existing cubes that are at least half full stay unchanged. Smaller
    ones are rewritten with the files that join them.
    """
    found: list[Bin] = []
    tags = cube_tags(columns)
    for own in _by_partition(files):
        is_old = {f.number: _is_in_cube(f, tags) and not f.has_too_many_deleted(ratio) for f in own}
        cubes: dict[str, int] = {}
        for file in own:
            if is_old[file.number]:
                cubes[file.tags[CUBE_ID_TAG]] = cubes.get(file.tags[CUBE_ID_TAG], 0) + file.size_bytes
        full = {cube for cube, size in cubes.items() if 2 * size >= cube_bytes}
        rest = [f for f in own if not (is_old[f.number] and f.tags[CUBE_ID_TAG] in full)]
        if all(is_old[f.number] for f in rest):
            continue
        found += [
            replace(cube, outputs=min(max(1, round(cube.live_bytes / target)), _MOST_OUTPUTS))
            for cube in _filled(rest, cube_bytes)
        ]
    return found


def cube_tags(columns: Sequence[str]) -> dict[str, str]:
    """Return the tags of files that are clustered by these columns, without the id of their cube."""
    return {CUBE_COLUMNS_TAG: json.dumps(list(columns)), CUBE_CURVE_TAG: Z_ORDER}


def batches(bins: Sequence[Bin], empty: Sequence[Candidate], *, most_bytes: int) -> list[Batch]:
    """Return the batches in order, each with up to `most_bytes` of old files, or with one larger bin."""
    most = (most_bytes, _MOST_BINS, _MOST_FILES, _MOST_DELETED)
    found: list[Batch] = []
    some: list[Bin] = []
    sums = (0, 0, 0, 0)
    for own in bins:
        wanted = tuple(map(add, sums, (own.size_bytes, 1, len(own.files), own.deleted)))
        if some and any(map(gt, wanted, most)):
            found.append(Batch(bins=tuple(some)))
            some, sums = [], (0, 0, 0, 0)
        some.append(own)
        sums = tuple(map(add, sums, (own.size_bytes, 1, len(own.files), own.deleted)))
    if some or empty:
        found.append(Batch(bins=tuple(some), empty=tuple(empty)))
    return found


def _is_in_cube(file: Candidate, tags: Mapping[str, str]) -> bool:
    return CUBE_ID_TAG in file.tags and all(file.tags.get(key) == value for key, value in tags.items())


def _by_partition(files: Iterable[Candidate]) -> list[list[Candidate]]:
    """Return the files with live rows, by partition; within a partition ordered by age (oldest first), then path."""
    found: dict[Hashable, list[Candidate]] = {}
    for file in sorted(files, key=lambda f: (f.modified_ms, f.path, f.number)):
        if not file.is_empty:
            found.setdefault(file.partition, []).append(file)
    return list(found.values())


def _filled(files: Iterable[Candidate], most_bytes: int) -> list[Bin]:
    """Put each file into the first bin that has room for it."""
    bins: list[list[Candidate]] = []
    room: dict[int, int] = {}  # bytes, by number of an open bin
    for file in files:
        size = file.live_bytes
        number = next((n for n, left in room.items() if size <= left), None)
        if number is None:
            number = len(bins)
            bins.append([])
            room[number] = most_bytes
        bins[number].append(file)
        room[number] -= size
        if len(room) > _OPEN_BINS:
            del room[min(room, key=room.__getitem__)]
    return [Bin(files=tuple(own), room=max(0, room.get(n, 0))) for n, own in enumerate(bins)]

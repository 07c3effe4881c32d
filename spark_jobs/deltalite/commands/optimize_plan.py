"""Which files an optimize writes again, and together: decided on values, the same for the same files.

Three rules. A file whose rows are all deleted leaves. Packing (`packed`) fills bins of a partition with small files,
and with files of which too many rows are deleted, in the order of their age, so that what came together stays together.
Clustering (`clustered`) takes the files of a partition that are in no cube of the same columns. What an earlier run
has written is known by its tags (delta-spark's, and one for room that was left), and is left alone until other files
join it: a bin whose files were packed to the same size, and a partition all of whose files lie in such cubes, are not
written again.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import add, gt

TARGET_SIZE_TAG = "OPTIMIZE_TARGET_SIZE"
ROOM_TAG = "DELTALITE_ROOM"
"""Bytes that a file packed to its target had room for when nothing more was found; 0 without it."""
CUBE_ID_TAG, CUBE_COLUMNS_TAG, CUBE_CURVE_TAG = "ZCUBE_ID", "ZCUBE_ZORDER_BY", "ZCUBE_ZORDER_CURVE"
Z_ORDER = "zorder"
# A file has to look through so many bins that still have room, and no more, where a partition has very many files.
_OPEN_BINS = 16
# A commit names so many bins and old files at most: the driver holds the footers of all new files, and a conflict costs
# the whole of it. Nor has it files of more deleted rows, whose places every executor is sent.
_MOST_BINS, _MOST_FILES, _MOST_DELETED = 5_000, 100_000, 20_000_000
# A bin becomes so many files at most.
_MOST_OUTPUTS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A file that may be written again. `number` is its row in a table of files; `partition` is equal for its like.

    `records` counts deleted rows too, and is None where nobody says it; `deleted` is None without a deletion vector.
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
        """Whether no row is left in it."""
        return self.records is not None and self.records == (self.deleted or 0)

    @property
    def live_bytes(self) -> int:
        """About what its rows take that are not deleted."""
        if not self.records:
            return self.size_bytes
        return max(1, self.size_bytes * (self.records - (self.deleted or 0)) // self.records)

    def has_too_many_deleted(self, ratio: float) -> bool:
        """Whether more than this share of its rows is deleted; so is taken what does not say how many it has."""
        if self.deleted is None:
            return False
        return not self.records or self.deleted / self.records > ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """Files of one partition whose rows go into `outputs` new files.

    `room` is bytes: what is larger has been looked at and was not put in. A bin that was closed has none.
    """

    files: tuple[Candidate, ...]
    outputs: int = 1
    room: int = 0

    @property
    def live_bytes(self) -> int:
        """About what the rows take."""
        return sum(file.live_bytes for file in self.files)

    @property
    def size_bytes(self) -> int:
        """What the files take."""
        return sum(file.size_bytes for file in self.files)

    @property
    def deleted(self) -> int:
        """The rows that are marked as deleted."""
        return sum(file.deleted or 0 for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What one commit does: bins that are written again, and files without rows that only leave."""

    bins: tuple[Bin, ...]
    empty: tuple[Candidate, ...] = ()


def packed(files: Iterable[Candidate], *, target: int, smallest: int, ratio: float) -> list[Bin]:
    """Bins of about `target` bytes of the files below `smallest` bytes, or with more than `ratio` of rows deleted."""
    found: list[Bin] = []
    for own in _by_partition(f for f in files if f.size_bytes < smallest or f.has_too_many_deleted(ratio)):
        looked_at_ms = max((f.modified_ms for f in own if _is_packed(f, target)), default=None)
        written, staying = list[Bin](), list[Bin]()
        for some in _filled(own, target):
            goes = any(f.has_too_many_deleted(ratio) for f in some.files) or _joins(some.files, target, looked_at_ms)
            (written if goes else staying).append(some)
        stay = (f.live_bytes for some in staying for f in some.files if not _is_packed(f, target))
        most = max(0, min(stay, default=target) - 1)  # what stays has been looked at, wherever it was put
        found += [replace(some, room=min(some.room, most)) for some in written]
    return found


def _joins(files: Sequence[Candidate], target: int, looked_at_ms: int | None) -> bool:
    """Whether files are put together that no run has put together yet.

    One that is older than the last packing of its partition was looked at then, and had no room beside the others: that
    these take less now, packed as they are, is no reason to write them again. Or it came while that packing ran, which
    the room says that the others had.
    """
    others = [f for f in files if not _is_packed(f, target)]
    room = max((_room(f) for f in files if _is_packed(f, target)), default=0)
    is_new = any(looked_at_ms is None or f.modified_ms > looked_at_ms or f.live_bytes <= room for f in others)
    return len(others) > 1 or (len(files) > 1 and is_new)


def _is_packed(file: Candidate, target: int) -> bool:
    return file.tags.get(TARGET_SIZE_TAG) == str(target)


def _room(file: Candidate) -> int:
    text = file.tags.get(ROOM_TAG, "")
    return int(text) if text.isdecimal() else 0  # whoever else writes tags may write any


def clustered(
    files: Iterable[Candidate], *, columns: Sequence[str], target: int, ratio: float, cube_bytes: int
) -> list[Bin]:
    """Cubes of up to about `cube_bytes`, each for files of about `target` bytes, of what is not clustered by `columns`.

    Cubes that are at least half full stay as they are; smaller ones are written again with the files that join them.
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
    """The tags of files that are ordered by these columns, but for the id of their cube."""
    return {CUBE_COLUMNS_TAG: json.dumps(list(columns)), CUBE_CURVE_TAG: Z_ORDER}


def batches(bins: Sequence[Bin], empty: Sequence[Candidate], *, most_bytes: int) -> list[Batch]:
    """The commits, in order: each of up to `most_bytes` of files that leave, or of one bin that has more."""
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
    """The files that have rows, partition by partition, oldest first; where the age is the same, by path."""
    found: dict[Hashable, list[Candidate]] = {}
    for file in sorted(files, key=lambda f: (f.modified_ms, f.path, f.number)):
        if not file.is_empty:
            found.setdefault(file.partition, []).append(file)
    return list(found.values())


def _filled(files: Iterable[Candidate], most_bytes: int) -> list[Bin]:
    """Each file in the first bin that has room for it."""
    bins: list[list[Candidate]] = []
    room: dict[int, int] = {}  # of the bins, by number, that are open
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

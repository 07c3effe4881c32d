"""The plan of an optimize: which files are rewritten, and which of them together. The same files give the same plan.

There are four rules:

- A file whose rows are all deleted is removed.
- Packing (`plan_bins`) fills the bins of a partition with small files and with files that have too many deleted rows.
  Older files come first, so that rows of the same age stay together.
- A Z order (`plan_cubes`) takes the files of a partition that are in no cube of the same columns.
- Clustering (`plan_clustering`) takes the files of a clustered table that are in no cube, and cubes that are not much
  larger.

Tags identify the files of an earlier run: delta-spark's tags, and one for the unused bytes of a bin. Two kinds of bins
are not rewritten until other files join them: files that were packed to the same size, and a partition whose files all
lie in such cubes.
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
Z_ORDER, HILBERT = "zorder", "hilbert"
# The most open bins that are tried for a file. It bounds the work in a partition with very many files.
_OPEN_BINS = 16
# The most bins, old files and deleted rows of one commit. The driver holds the footers of all new files, and a conflict
# can cost the whole commit. Every executor gets the positions of the deleted rows.
_MAX_BINS, _MAX_FILES, _MAX_DELETED = 5_000, 100_000, 20_000_000
# The most files that one bin becomes.
_MAX_OUTPUTS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A file that may be rewritten.

    `number` is its row in a table of files. Files of one partition have an equal `partition`. `records` includes
    deleted rows and is None without statistics. `deleted` is None without a deletion vector. `clustering_provider`
    names the algorithm that clustered the file.
    """

    number: int
    partition: Hashable
    path: str
    size_bytes: int
    modified_ms: int
    records: int | None
    deleted: int | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    clustering_provider: str | None = None

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
        """The soft-deleted rows."""
        return sum(file.deleted or 0 for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The work of one commit: bins to rewrite, and files without rows to remove."""

    bins: tuple[Bin, ...]
    empty: tuple[Candidate, ...] = ()


def plan_bins(files: Iterable[Candidate], *, target: int, smallest: int, ratio: float) -> list[Bin]:
    """Return bins of about `target` bytes of files below `smallest` bytes or with over `ratio` of rows deleted."""
    bins: list[Bin] = []
    for partition_files in _by_partition(f for f in files if f.size_bytes < smallest or f.has_too_many_deleted(ratio)):
        packed_at_ms = max((f.modified_ms for f in partition_files if _is_packed(f, target)), default=None)
        rewritten, unchanged = list[Bin](), list[Bin]()
        for file_bin in _filled(partition_files, target):
            has_too_many_deleted = any(f.has_too_many_deleted(ratio) for f in file_bin.files)
            is_rewritten = has_too_many_deleted or _joins(file_bin.files, target, packed_at_ms)
            (rewritten if is_rewritten else unchanged).append(file_bin)
        unpacked_bytes = (f.live_bytes for file_bin in unchanged for f in file_bin.files if not _is_packed(f, target))
        # A file of an unchanged bin was considered for every bin, so none of them has room for it.
        most_room = max(0, min(unpacked_bytes, default=target) - 1)
        bins += [replace(file_bin, room=min(file_bin.room, most_room)) for file_bin in rewritten]
    return bins


def _joins(files: Sequence[Candidate], target: int, packed_at_ms: int | None) -> bool:
    """Whether the bin combines files that no earlier run has combined or considered.

    The last packing of a partition (`packed_at_ms`) considered every older file, and the file did not fit. Packed files
    may take less space now, but this is no reason to rewrite them. A file that was added while that packing ran was not
    considered; it joins if it fits into the recorded room.
    """
    unpacked = [f for f in files if not _is_packed(f, target)]
    room = max((_room(f) for f in files if _is_packed(f, target)), default=0)
    has_new = any(packed_at_ms is None or f.modified_ms > packed_at_ms or f.live_bytes <= room for f in unpacked)
    return len(unpacked) > 1 or (len(files) > 1 and has_new)


def _is_packed(file: Candidate, target: int) -> bool:
    return file.tags.get(TARGET_SIZE_TAG) == str(target)


def _room(file: Candidate) -> int:
    text = file.tags.get(ROOM_TAG, "")
    return int(text) if text.isdecimal() else 0  # other writers may store any text in the tag


def plan_cubes(
    files: Iterable[Candidate], *, tags: Mapping[str, str], target: int, ratio: float, cube_bytes: int
) -> list[Bin]:
    """Return cubes of up to about `cube_bytes` of the files that do not have the `tags` of a cube.

    Each cube becomes files of about `target` bytes. Existing cubes that are at least half full stay unchanged. Smaller
    ones are rewritten with the files that join them.
    """
    bins: list[Bin] = []
    for partition_files in _by_partition(files):
        is_clustered = {f.number: _is_in_cube(f, tags) and not f.has_too_many_deleted(ratio) for f in partition_files}
        bytes_of_cubes: dict[str, int] = {}
        for file in partition_files:
            if is_clustered[file.number]:
                cube_id = file.tags[CUBE_ID_TAG]
                bytes_of_cubes[cube_id] = bytes_of_cubes.get(cube_id, 0) + file.size_bytes
        full_cubes = {cube_id for cube_id, size in bytes_of_cubes.items() if 2 * size >= cube_bytes}
        to_rewrite = [f for f in partition_files if not (is_clustered[f.number] and f.tags[CUBE_ID_TAG] in full_cubes)]
        if all(is_clustered[f.number] for f in to_rewrite):
            continue
        bins += _cubes(to_rewrite, target=target, cube_bytes=cube_bytes)
    return bins


def plan_clustering(
    files: Iterable[Candidate],
    *,
    columns: Sequence[str],
    provider: str,
    target: int,
    ratio: float,
    cube_bytes: int,
    full: bool,
) -> list[Bin]:
    """Return cubes of up to about `cube_bytes` of a clustered table, which has no partitions.

    New cubes take the files that are in no cube, and existing cubes from the smallest on, as long as a cube is not
    larger than the files before it. So each row is rewritten a few times while the table grows, and not with each
    batch of new rows. Files of another provider, and files that are clustered by other columns, stay as they are.
    With `full`, new cubes take all files but those of full cubes of these columns. A cube of at least half of
    `cube_bytes` is full. So a run that was killed continues, and a second run does nothing.
    delta-spark: ClusteringStrategy, which takes all cubes below 100 GB.
    """
    live_files = [file for partition_files in _by_partition(files) for file in partition_files]
    cubes: dict[str, list[Candidate]] = {}
    unclustered: list[Candidate] = []
    others: list[Candidate] = []
    for file in live_files:
        cube_id, cube_columns = file.tags.get(CUBE_ID_TAG), _columns_of_cube(file)
        if file.clustering_provider not in (None, provider):
            others.append(file)
        # The tags of a Z order, without a provider, do not make it clustered.
        elif file.clustering_provider is None or cube_id is None or cube_columns is None:
            unclustered.append(file)
        elif cube_columns != list(columns):
            others.append(file)
        elif file.has_too_many_deleted(ratio):
            unclustered.append(file)
        else:
            cubes.setdefault(cube_id, []).append(file)
    partial_cubes = [cube for cube in cubes.values() if 2 * sum(f.size_bytes for f in cube) < cube_bytes]
    if full:
        in_partial_cubes = [file for cube in partial_cubes for file in cube]
        is_in_order = not unclustered and not others and len(partial_cubes) <= 1
        to_rewrite = [] if is_in_order else unclustered + others + in_partial_cubes
    else:
        to_rewrite = unclustered + _joining(partial_cubes, sum(f.size_bytes for f in unclustered))
    numbers = {file.number for file in to_rewrite}
    return _cubes([file for file in live_files if file.number in numbers], target=target, cube_bytes=cube_bytes)


def _joining(cubes: Sequence[Sequence[Candidate]], new_bytes: int) -> list[Candidate]:
    """Return the files of the cubes that join `new_bytes` of other files."""
    joining: list[Candidate] = []
    for size, cube in sorted(((sum(f.size_bytes for f in cube), cube) for cube in cubes), key=lambda pair: pair[0]):
        if size > new_bytes:
            break
        joining += cube
        new_bytes += size
    return joining


def _columns_of_cube(file: Candidate) -> list[str] | None:
    """Return the columns by which the file is clustered, None if another writer stored another value in the tag."""
    try:
        columns = json.loads(file.tags.get(CUBE_COLUMNS_TAG) or "")
    except (ValueError, RecursionError):
        return None
    return columns if isinstance(columns, list) else None


def _cubes(files: Sequence[Candidate], *, target: int, cube_bytes: int) -> list[Bin]:
    return [
        replace(cube, outputs=min(max(1, round(cube.live_bytes / target)), _MAX_OUTPUTS))
        for cube in _filled(files, cube_bytes)
    ]


def cube_tags(columns: Sequence[str], curve: str) -> dict[str, str]:
    """Return the tags of files that are ordered by these columns on a curve, without the id of their cube."""
    return {CUBE_COLUMNS_TAG: json.dumps(list(columns)), CUBE_CURVE_TAG: curve}


def batches(bins: Sequence[Bin], empty: Sequence[Candidate], *, most_bytes: int) -> list[Batch]:
    """Return the batches in order, each with up to `most_bytes` of old files, or with one larger bin."""
    limits = (most_bytes, _MAX_BINS, _MAX_FILES, _MAX_DELETED)
    full_batches: list[Batch] = []
    batch_bins: list[Bin] = []
    sums: tuple[int, ...] = (0, 0, 0, 0)
    for file_bin in bins:
        costs = (file_bin.size_bytes, 1, len(file_bin.files), file_bin.deleted)
        if batch_bins and any(map(gt, map(add, sums, costs), limits)):
            full_batches.append(Batch(bins=tuple(batch_bins)))
            batch_bins, sums = [], (0, 0, 0, 0)
        batch_bins.append(file_bin)
        sums = tuple(map(add, sums, costs))
    if batch_bins or empty:
        return [*full_batches, Batch(bins=tuple(batch_bins), empty=tuple(empty))]
    return full_batches


def _is_in_cube(file: Candidate, tags: Mapping[str, str]) -> bool:
    return CUBE_ID_TAG in file.tags and all(file.tags.get(key) == value for key, value in tags.items())


def _by_partition(files: Iterable[Candidate]) -> list[list[Candidate]]:
    """Return the files with live rows, by partition; within a partition ordered by age (oldest first), then path."""
    partitions: dict[Hashable, list[Candidate]] = {}
    for file in sorted(files, key=lambda f: (f.modified_ms, f.path, f.number)):
        if not file.is_empty:
            partitions.setdefault(file.partition, []).append(file)
    return list(partitions.values())


def _filled(files: Iterable[Candidate], most_bytes: int) -> list[Bin]:
    """Return bins, with each file in the first bin that has room for it."""
    bins: list[list[Candidate]] = []
    room: dict[int, int] = {}  # bytes, by number of an open bin
    for file in files:
        size = file.live_bytes
        number = next((n for n, free_bytes in room.items() if size <= free_bytes), None)
        if number is None:
            number = len(bins)
            bins.append([])
            room[number] = most_bytes
        bins[number].append(file)
        room[number] -= size
        if len(room) > _OPEN_BINS:
            del room[min(room, key=room.__getitem__)]
    return [Bin(files=tuple(bin_files), room=max(0, room.get(n, 0))) for n, bin_files in enumerate(bins)]

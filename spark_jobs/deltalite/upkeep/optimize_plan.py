"""The plan of an optimize: which files are rewritten, and which of them together. The same files give the same plan.

There are four rules:

- A file is removed if all of its rows are deleted.
- Packing (`plan_bins`) fills the bins of a partition with small files and with files that have too many deleted rows.
  Older files come first, so that rows of the same age stay together.
- A Z order (`plan_cubes`) takes the files of a partition that are in no cube of the same columns, and then also small
  cubes. A cube is a group of files that were ordered together.
- Clustering (`plan_clustering`) takes the files of a clustered table that are in no cube. It also takes small cubes, so
  that cubes grow with the table.

Tags identify the files of an earlier run: delta-spark's tags, and `ROOM_TAG`. Without new files, a run does not rewrite
files that an earlier run packed to the same size or ordered by the same columns.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import add, gt

TARGET_SIZE_TAG = "OPTIMIZE_TARGET_SIZE"
ROOM_TAG = "DELTALITE_ROOM"
"""The tag of a packed file with the bytes that stayed free in its bin. A missing tag counts as 0."""
CUBE_ID_TAG, CUBE_COLUMNS_TAG, CUBE_CURVE_TAG = "ZCUBE_ID", "ZCUBE_ZORDER_BY", "ZCUBE_ZORDER_CURVE"
Z_ORDER, HILBERT = "zorder", "hilbert"
# The limit on the bins that are tried for one file. It bounds the work in a partition with very many files.
_MAX_OPEN_BINS = 16
# The limits of one commit. The driver holds the footers of all new files, and a conflict can cost the whole commit.
# Every executor gets the positions of the deleted rows.
_MAX_BINS, _MAX_OLD_FILES, _MAX_DELETED_ROWS = 5_000, 100_000, 20_000_000
_MAX_OUTPUTS_PER_BIN = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A file that may be rewritten.

    - `number`: the position of the file in a table of files.
    - `partition`: a key that is equal for all files of one partition.
    - `records`: the number of rows, including deleted rows, or None if the statistics lack it.
    - `deleted`: the number of deleted rows, or None without a deletion vector.
    - `clustering_provider`: the name of the algorithm that clustered the file.
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
        """Whether the file has no live row. False if the number of rows is unknown."""
        return self.records is not None and self.records == (self.deleted or 0)

    @property
    def live_bytes(self) -> int:
        """The approximate bytes of the live rows."""
        if not self.records:
            return self.size_bytes
        return max(1, self.size_bytes * (self.records - (self.deleted or 0)) // self.records)

    def has_too_many_deleted(self, max_ratio: float) -> bool:
        """Whether more than this ratio of rows is deleted. True for a file with a vector but without a row count."""
        if self.deleted is None:
            return False
        return not self.records or self.deleted / self.records > max_ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """Files of one partition that are rewritten into `outputs` new files.

    `room` is the number of unused bytes. It is 0 if the bin was closed because too many bins were open. In the result
    of `plan_bins`, it is less than the size of each unpacked file of the partition that stays.
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
        """The number of soft-deleted rows."""
        return sum(file.deleted or 0 for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The work of one commit: bins to rewrite, and files without live rows to remove."""

    bins: tuple[Bin, ...]
    empty_files: tuple[Candidate, ...] = ()


def plan_bins(files: Iterable[Candidate], *, target_bytes: int, min_bytes: int, max_deleted_ratio: float) -> list[Bin]:
    """Return bins of about `target_bytes`, from files that are too small or have too many deleted rows.

    A file is too small if it has less than `min_bytes`. The limit on the ratio of deleted rows is `max_deleted_ratio`.
    """
    bins: list[Bin] = []
    candidates = (f for f in files if f.size_bytes < min_bytes or f.has_too_many_deleted(max_deleted_ratio))
    for partition_files in _by_partition(candidates):
        packed_at_ms = max((f.modified_ms for f in partition_files if _is_packed(f, target_bytes)), default=None)
        rewritten, unchanged = list[Bin](), list[Bin]()
        for file_bin in _fill_bins(partition_files, target_bytes):
            has_too_many_deleted = any(f.has_too_many_deleted(max_deleted_ratio) for f in file_bin.files)
            is_rewritten = has_too_many_deleted or _is_new_combination(file_bin.files, target_bytes, packed_at_ms)
            (rewritten if is_rewritten else unchanged).append(file_bin)
        unchanged_files = [file for file_bin in unchanged for file in file_bin.files]
        unpacked_bytes = (file.live_bytes for file in unchanged_files if not _is_packed(file, target_bytes))
        # The recorded room is less than the smallest unpacked file that stays. Otherwise the next run would take this
        # file for a new one that fits.
        max_room = max(0, min(unpacked_bytes, default=target_bytes) - 1)
        bins += [replace(file_bin, room=min(file_bin.room, max_room)) for file_bin in rewritten]
    return bins


def _is_new_combination(files: Sequence[Candidate], target_bytes: int, packed_at_ms: int | None) -> bool:
    """Whether the bin combines files that no earlier run has combined or considered.

    The last packing of a partition (at `packed_at_ms`) considered every older file, except files that were added while
    it ran. It left out the files that did not fit. Packed files may take less space now, but this is no reason to
    rewrite them. A file that was added while the packing ran joins the bin if it fits into the recorded room.
    """
    unpacked = [f for f in files if not _is_packed(f, target_bytes)]
    room = max((_recorded_room(f) for f in files if _is_packed(f, target_bytes)), default=0)
    has_new_file = any(packed_at_ms is None or f.modified_ms > packed_at_ms or f.live_bytes <= room for f in unpacked)
    return len(unpacked) > 1 or (len(files) > 1 and has_new_file)


def _is_packed(file: Candidate, target_bytes: int) -> bool:
    return file.tags.get(TARGET_SIZE_TAG) == str(target_bytes)


def _recorded_room(file: Candidate) -> int:
    text = file.tags.get(ROOM_TAG, "")
    return int(text) if text.isdecimal() else 0  # other writers may store any text in the tag


def plan_cubes(
    files: Iterable[Candidate],
    *,
    tags: Mapping[str, str],
    target_bytes: int,
    max_deleted_ratio: float,
    cube_bytes: int,
) -> list[Bin]:
    """Return cubes of up to about `cube_bytes`, from files that do not have the `tags` of a cube.

    Each cube becomes files of about `target_bytes`. Files with too many deleted rows, and cubes of less than half of
    `cube_bytes`, are rewritten with them.
    """
    bins: list[Bin] = []
    for partition_files in _by_partition(files):
        stays_in_cube = {
            f.number: _is_in_cube(f, tags) and not f.has_too_many_deleted(max_deleted_ratio) for f in partition_files
        }
        bytes_of_cubes: dict[str, int] = {}
        for file in partition_files:
            if stays_in_cube[file.number]:
                cube_id = file.tags[CUBE_ID_TAG]
                bytes_of_cubes[cube_id] = bytes_of_cubes.get(cube_id, 0) + file.size_bytes
        large_cubes = {cube_id for cube_id, size in bytes_of_cubes.items() if 2 * size >= cube_bytes}
        to_rewrite = [
            f for f in partition_files if not (stays_in_cube[f.number] and f.tags[CUBE_ID_TAG] in large_cubes)
        ]
        if all(stays_in_cube[f.number] for f in to_rewrite):
            continue
        bins += _cube_bins(to_rewrite, target_bytes=target_bytes, cube_bytes=cube_bytes)
    return bins


def plan_clustering(
    files: Iterable[Candidate],
    *,
    columns: Sequence[str],
    provider: str,
    target_bytes: int,
    max_deleted_ratio: float,
    cube_bytes: int,
    full: bool,
) -> list[Bin]:
    """Return cubes of up to about `cube_bytes` of a clustered table, which has no partitions.

    New cubes take the files that are in no cube, and files with too many deleted rows. A cube of less than half of
    `cube_bytes` is small. Small cubes join them, the smallest cube first. A cube joins only if it is not larger than
    the new files and the joined cubes together. So each row is rewritten a few times while the table grows, and not
    with each batch of new rows. Files of another provider, and files that are clustered by other columns, stay as they
    are.

    With `full`, new cubes take all files, except the files of larger cubes of these columns. So the next run continues
    after a killed run, and does nothing after a complete run. delta-spark's ClusteringStrategy differs: it takes all
    cubes below 100 GB.
    """
    live_files = [file for partition_files in _by_partition(files) for file in partition_files]
    cubes: dict[str, list[Candidate]] = {}
    unclustered: list[Candidate] = []
    otherwise_clustered: list[Candidate] = []
    for file in live_files:
        cube_id, cube_columns = file.tags.get(CUBE_ID_TAG), _columns_of_cube(file)
        if file.clustering_provider not in (None, provider):
            otherwise_clustered.append(file)
        # A file with the tags of a Z order, but without a provider, is not clustered.
        elif file.clustering_provider is None or cube_id is None or cube_columns is None:
            unclustered.append(file)
        elif cube_columns != list(columns):
            otherwise_clustered.append(file)
        elif file.has_too_many_deleted(max_deleted_ratio):
            unclustered.append(file)
        else:
            cubes.setdefault(cube_id, []).append(file)
    small_cubes = [cube for cube in cubes.values() if 2 * sum(f.size_bytes for f in cube) < cube_bytes]
    if full:
        files_of_small_cubes = [file for cube in small_cubes for file in cube]
        is_in_order = not unclustered and not otherwise_clustered and len(small_cubes) <= 1
        to_rewrite = [] if is_in_order else unclustered + otherwise_clustered + files_of_small_cubes
    else:
        to_rewrite = unclustered + _files_of_joining_cubes(small_cubes, sum(f.size_bytes for f in unclustered))
    numbers = {file.number for file in to_rewrite}
    files_to_rewrite = [file for file in live_files if file.number in numbers]
    return _cube_bins(files_to_rewrite, target_bytes=target_bytes, cube_bytes=cube_bytes)


def _files_of_joining_cubes(cubes: Sequence[Sequence[Candidate]], new_bytes: int) -> list[Candidate]:
    """Return the files of the cubes that are rewritten together with `new_bytes` of unclustered files."""
    joining_files: list[Candidate] = []
    sized_cubes = ((sum(file.size_bytes for file in cube), cube) for cube in cubes)
    for size, cube in sorted(sized_cubes, key=lambda sized_cube: sized_cube[0]):
        if size > new_bytes:
            break
        joining_files += cube
        new_bytes += size
    return joining_files


def _columns_of_cube(file: Candidate) -> list[str] | None:
    """Return the columns by which the file is clustered, or None if the tag is missing or invalid."""
    try:
        columns = json.loads(file.tags.get(CUBE_COLUMNS_TAG) or "")
    except (ValueError, RecursionError):
        return None
    return columns if isinstance(columns, list) else None


def _cube_bins(files: Sequence[Candidate], *, target_bytes: int, cube_bytes: int) -> list[Bin]:
    """Return the files in bins of up to `cube_bytes`, with the number of new files for each bin."""
    return [
        replace(cube, outputs=min(max(1, round(cube.live_bytes / target_bytes)), _MAX_OUTPUTS_PER_BIN))
        for cube in _fill_bins(files, cube_bytes)
    ]


def cube_tags(columns: Sequence[str], curve: str) -> dict[str, str]:
    """Return the tags of files that are ordered by these columns on a curve, without the id of their cube."""
    return {CUBE_COLUMNS_TAG: json.dumps(list(columns)), CUBE_CURVE_TAG: curve}


def batches(bins: Sequence[Bin], empty_files: Sequence[Candidate], *, max_bytes: int) -> list[Batch]:
    """Return the batches in order, each with up to `max_bytes` of old files, or with one larger bin."""
    limits = (max_bytes, _MAX_BINS, _MAX_OLD_FILES, _MAX_DELETED_ROWS)
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
    if batch_bins or empty_files:
        return [*full_batches, Batch(bins=tuple(batch_bins), empty_files=tuple(empty_files))]
    return full_batches


def _is_in_cube(file: Candidate, tags: Mapping[str, str]) -> bool:
    return CUBE_ID_TAG in file.tags and all(file.tags.get(key) == value for key, value in tags.items())


def _by_partition(files: Iterable[Candidate]) -> list[list[Candidate]]:
    """Return the files with live rows of each partition, ordered by age (oldest first), then by path."""
    partitions: dict[Hashable, list[Candidate]] = {}
    for file in sorted(files, key=lambda f: (f.modified_ms, f.path, f.number)):
        if not file.is_empty:
            partitions.setdefault(file.partition, []).append(file)
    return list(partitions.values())


def _fill_bins(files: Iterable[Candidate], max_bytes: int) -> list[Bin]:
    """Put each file into the first open bin that has room for it, and return the bins.

    Each bin has up to `max_bytes`, or one larger file.
    """
    bins: list[list[Candidate]] = []
    free_bytes: dict[int, int] = {}  # by the number of an open bin
    for file in files:
        size = file.live_bytes
        number = next((n for n, free in free_bytes.items() if size <= free), None)
        if number is None:
            number = len(bins)
            bins.append([])
            free_bytes[number] = max_bytes
        bins[number].append(file)
        free_bytes[number] -= size
        if len(free_bytes) > _MAX_OPEN_BINS:
            del free_bytes[min(free_bytes, key=free_bytes.__getitem__)]
    return [Bin(files=tuple(bin_files), room=max(0, free_bytes.get(n, 0))) for n, bin_files in enumerate(bins)]

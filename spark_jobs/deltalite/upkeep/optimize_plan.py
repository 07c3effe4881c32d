"""The plan of an optimize: which files are rewritten, and which of them together. The same files give the same plan.

There are four rules (`bin_packing.py` has the details of packing and clustering):

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

from deltalite.upkeep.bin_packing import FilesToCluster, FilesToPack, IndexBin, fill_bins, indexes_to_cluster, pack

TARGET_SIZE_TAG = "OPTIMIZE_TARGET_SIZE"
ROOM_TAG = "DELTALITE_ROOM"
"""The tag of a packed file with the bytes that stayed free in its bin. A missing tag counts as 0."""
CUBE_ID_TAG, CUBE_COLUMNS_TAG, CUBE_CURVE_TAG = "ZCUBE_ID", "ZCUBE_ZORDER_BY", "ZCUBE_ZORDER_CURVE"
Z_ORDER, HILBERT = "zorder", "hilbert"
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

    `room` is the number of unused bytes, as in `IndexBin` and `pack`.
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
    candidates = (f for f in files if f.size_bytes < min_bytes or f.has_too_many_deleted(max_deleted_ratio))
    ordered = _with_live_rows(candidates)
    columns = FilesToPack(
        partitions=[file.partition for file in ordered],
        live_bytes=[file.live_bytes for file in ordered],
        modified_ms=[file.modified_ms for file in ordered],
        has_too_many_deleted=[file.has_too_many_deleted(max_deleted_ratio) for file in ordered],
        is_packed=[file.tags.get(TARGET_SIZE_TAG) == str(target_bytes) for file in ordered],
        rooms=[recorded_room(file.tags.get(ROOM_TAG)) for file in ordered],
    )
    return [_bin_of(index_bin, ordered) for index_bin in pack(columns, target_bytes=target_bytes)]


def recorded_room(text: str | None) -> int:
    """Return the value of `ROOM_TAG`; other writers may store any text in the tag."""
    return int(text) if text is not None and text.isdecimal() else 0


def plan_cubes(
    files: Iterable[Candidate],
    *,
    tags: Mapping[str, str],
    target_bytes: int,
    max_deleted_ratio: float,
    cube_bytes: int,
) -> list[Bin]:
    """Return cubes of up to about `cube_bytes`, each of which becomes files of about `target_bytes`.

    New cubes take the files of a partition that are in no cube with these `tags`, and the files with too many deleted
    rows. If there are such files, new cubes also take all cubes of less than half of `cube_bytes`.
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
    `cube_bytes` is small. Small cubes join these files, the smallest cube first. A cube joins if it is at most as large
    as these files and the joined cubes together. So each row is rewritten a few times while the table grows, and not
    with each batch of new rows. Files of another provider, and files that are clustered by other columns, stay as they
    are.

    With `full`, new cubes take all files, except the files of larger cubes of these columns. So the next run continues
    after a killed run, and does nothing after a complete run. delta-spark's ClusteringStrategy differs: it takes all
    cubes below 100 GB.
    """
    live_files = [file for partition_files in _by_partition(files) for file in partition_files]
    file_columns = FilesToCluster(
        size_bytes=[file.size_bytes for file in live_files],
        has_too_many_deleted=[file.has_too_many_deleted(max_deleted_ratio) for file in live_files],
        cube_ids=[file.tags.get(CUBE_ID_TAG) for file in live_files],
        cube_columns=[parsed_cube_columns(file.tags.get(CUBE_COLUMNS_TAG)) for file in live_files],
        providers=[file.clustering_provider for file in live_files],
    )
    indexes = indexes_to_cluster(file_columns, columns=columns, provider=provider, cube_bytes=cube_bytes, full=full)
    return _cube_bins([live_files[index] for index in indexes], target_bytes=target_bytes, cube_bytes=cube_bytes)


def parsed_cube_columns(text: str | None) -> list[object] | None:
    """Return the columns by which a file is clustered, or None if the tag is missing or invalid."""
    try:
        columns = json.loads(text or "")
    except (ValueError, RecursionError):
        return None
    return columns if isinstance(columns, list) else None


def _cube_bins(files: Sequence[Candidate], *, target_bytes: int, cube_bytes: int) -> list[Bin]:
    """Return the files in bins of up to `cube_bytes`, with the number of new files for each bin."""
    index_bins = fill_bins(range(len(files)), [file.live_bytes for file in files], cube_bytes)
    cubes = (_bin_of(index_bin, files) for index_bin in index_bins)
    return [replace(cube, outputs=cube_outputs(cube.live_bytes, target_bytes)) for cube in cubes]


def cube_outputs(live_bytes: int, target_bytes: int) -> int:
    """Return the number of new files of a cube."""
    return min(max(1, round(live_bytes / target_bytes)), _MAX_OUTPUTS_PER_BIN)


def cube_tags(columns: Sequence[str], curve: str) -> dict[str, str]:
    """Return the tags of files that are ordered by these columns on a curve, without the id of their cube."""
    return {CUBE_COLUMNS_TAG: json.dumps(list(columns)), CUBE_CURVE_TAG: curve}


def batches(bins: Sequence[Bin], empty_files: Sequence[Candidate], *, max_bytes: int) -> list[Batch]:
    """Return the batches in order, each with up to `max_bytes` of old files, or with one larger bin.

    The numbers of bins, old files and deleted rows of a batch are limited too. The last batch removes `empty_files`.
    """
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
    for file in _with_live_rows(files):
        partitions.setdefault(file.partition, []).append(file)
    return list(partitions.values())


def _with_live_rows(files: Iterable[Candidate]) -> list[Candidate]:
    """Return the files with live rows in the order of planning."""
    return sorted((file for file in files if not file.is_empty), key=lambda f: (f.modified_ms, f.path, f.number))


def _bin_of(index_bin: IndexBin, files: Sequence[Candidate]) -> Bin:
    return Bin(files=tuple(files[index] for index in index_bin.indexes), room=index_bin.room)

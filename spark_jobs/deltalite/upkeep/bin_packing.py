"""The rules by which an optimize packs and clusters files.

The optimize command plans with these rules (`optimize_plan.py`), and so does the prediction of the health report
(`optimize_prediction.py`). The rules take columns of values, so the prediction needs no object for each file. Each
column is a list, in the order of planning: oldest file first, then by path. The index of a file is its position in
these lists. Files without live rows are left out.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

# The limit on the bins that are tried for one file. It bounds the work in a partition with very many files.
_MAX_OPEN_BINS = 16


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FilesToPack:
    """The files that packing considers.

    - `partitions`: a key that is equal for all files of one partition.
    - `live_bytes`: the approximate bytes of the live rows.
    - `modified_ms`: the modification time, milliseconds UTC.
    - `has_too_many_deleted`: whether the file must be rewritten for its soft-deleted rows.
    - `is_packed`: whether an earlier optimize packed the file to the target size.
    - `rooms`: the bytes that stayed free in the bin of a packed file.
    """

    partitions: Sequence[Hashable]
    live_bytes: Sequence[int]
    modified_ms: Sequence[int]
    has_too_many_deleted: Sequence[bool]
    is_packed: Sequence[bool]
    rooms: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FilesToCluster:
    """The files of a clustered table.

    - `cube_ids`, `cube_columns`: the cube of a file and the columns of its order; None without a valid tag.
    - `providers`: the names of the algorithms that clustered the files; None if none did.
    """

    size_bytes: Sequence[int]
    has_too_many_deleted: Sequence[bool]
    cube_ids: Sequence[str | None]
    cube_columns: Sequence[Sequence[object] | None]
    providers: Sequence[str | None]


@dataclass(slots=True, kw_only=True, eq=False)
class IndexBin:
    """The files of a bin, and its unused bytes. `room` is 0 if the bin was closed because too many bins were open."""

    indexes: list[int]
    room: int = 0


def pack(files: FilesToPack, *, target_bytes: int) -> Iterator[IndexBin]:
    """Yield the bins of about `target_bytes` that an optimize rewrites.

    The `room` of a bin is less than the live bytes of each unpacked file that stays in the same partition.
    """
    indexes_of_partition: dict[Hashable, list[int]] = {}
    for index, partition in enumerate(files.partitions):
        indexes_of_partition.setdefault(partition, []).append(index)
    for indexes in indexes_of_partition.values():
        if len(indexes) > 1 or files.has_too_many_deleted[indexes[0]]:
            yield from _pack_partition(files, indexes, target_bytes)


def _pack_partition(files: FilesToPack, indexes: Sequence[int], target_bytes: int) -> list[IndexBin]:
    packed_at_ms = max((files.modified_ms[index] for index in indexes if files.is_packed[index]), default=None)
    rewritten, unchanged = list[IndexBin](), list[IndexBin]()
    for index_bin in fill_bins(indexes, files.live_bytes, target_bytes):
        is_rewritten = _is_new_combination(files, index_bin.indexes, packed_at_ms) or any(
            files.has_too_many_deleted[index] for index in index_bin.indexes
        )
        (rewritten if is_rewritten else unchanged).append(index_bin)
    unpacked_bytes = (
        files.live_bytes[index] for index_bin in unchanged for index in index_bin.indexes if not files.is_packed[index]
    )
    # The recorded room is less than the smallest unpacked file that stays. Otherwise the next run would take this
    # file for a new one that fits.
    max_room = max(0, min(unpacked_bytes, default=target_bytes) - 1)
    for index_bin in rewritten:
        index_bin.room = min(index_bin.room, max_room)
    return rewritten


def _is_new_combination(files: FilesToPack, indexes: Sequence[int], packed_at_ms: int | None) -> bool:
    """Whether the bin combines files that no earlier run has combined or considered.

    The last packing of a partition (at `packed_at_ms`) considered every older file, except files that were added while
    it ran. It left out the files that did not fit. Packed files may take less space now, but this is no reason to
    rewrite them. A file that was added while the packing ran joins the bin if it fits into the recorded room.
    """
    if packed_at_ms is None:
        return len(indexes) > 1
    unpacked = [index for index in indexes if not files.is_packed[index]]
    room = max((files.rooms[index] for index in indexes if files.is_packed[index]), default=0)
    has_new_file = any(files.modified_ms[index] > packed_at_ms or files.live_bytes[index] <= room for index in unpacked)
    return len(unpacked) > 1 or (len(indexes) > 1 and has_new_file)


def indexes_to_cluster(
    files: FilesToCluster, *, columns: Sequence[str], provider: str, cube_bytes: int, full: bool
) -> list[int]:
    """Return the indexes of the files that new cubes take, as `plan_clustering` describes it."""
    cubes: dict[str, list[int]] = {}
    unclustered: list[int] = []
    otherwise_clustered: list[int] = []
    wanted_columns = list(columns)
    facts = zip(files.cube_ids, files.cube_columns, files.providers, files.has_too_many_deleted, strict=True)
    for index, (cube_id, cube_columns, file_provider, has_too_many_deleted) in enumerate(facts):
        if file_provider is not None and file_provider != provider:
            otherwise_clustered.append(index)
        # A file with the tags of a Z order, but without a provider, is not clustered.
        elif file_provider is None or cube_id is None or cube_columns is None:
            unclustered.append(index)
        elif cube_columns != wanted_columns:
            otherwise_clustered.append(index)
        elif has_too_many_deleted:
            unclustered.append(index)
        else:
            cubes.setdefault(cube_id, []).append(index)
    sized_cubes = ((sum(files.size_bytes[index] for index in indexes), indexes) for indexes in cubes.values())
    small_cubes = [(size, indexes) for size, indexes in sized_cubes if 2 * size < cube_bytes]
    if full:
        is_in_order = not unclustered and not otherwise_clustered and len(small_cubes) <= 1
        if is_in_order:
            return []
        return sorted(unclustered + otherwise_clustered + [index for _, indexes in small_cubes for index in indexes])
    new_bytes = sum(files.size_bytes[index] for index in unclustered)
    joining_indexes: list[int] = []
    for size, indexes in sorted(small_cubes, key=lambda sized_cube: sized_cube[0]):
        if size > new_bytes:
            break
        joining_indexes += indexes
        new_bytes += size
    return sorted(unclustered + joining_indexes)


def fill_bins(indexes: Sequence[int], live_bytes: Sequence[int], max_bytes: int) -> list[IndexBin]:
    """Put each file into the first open bin that has room for it, and return the bins.

    Each bin has up to `max_bytes`, or one larger file. Most files fit into the newest bin only. `largest_earlier`, the
    largest room of the other open bins, makes this case fast.
    """
    bins: list[list[int]] = []
    rooms: dict[int, int] = {}  # by the number of an open bin; the newest bin comes last
    newest, largest_earlier = -1, -1
    for index in indexes:
        size = live_bytes[index]
        if size > largest_earlier and size <= rooms.get(newest, -1):
            bins[newest].append(index)
            rooms[newest] -= size
            continue
        number = next((n for n, room in rooms.items() if size <= room), None) if size <= largest_earlier else None
        if number is not None:
            bins[number].append(index)
            rooms[number] -= size
        else:
            newest = len(bins)
            bins.append([index])
            rooms[newest] = max_bytes - size
            if len(rooms) > _MAX_OPEN_BINS:
                del rooms[min(rooms, key=rooms.__getitem__)]
        largest_earlier = max((room for n, room in rooms.items() if n != newest), default=-1)
    return [IndexBin(indexes=bin_indexes, room=max(0, rooms.get(n, 0))) for n, bin_indexes in enumerate(bins)]

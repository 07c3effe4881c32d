"""The plan of a vacuum, from a listing of the folder, the names in the log, and the retention; it does no I/O.

1. A name that the log keeps stays.
2. A file that the log removed before the retention is deleted, with any modification time. Exception: a file
   written after that removal and within the last day is a different file, and stays.
3. Any other file is deleted by its modification time.
4. A staging folder is deleted as a whole, once everything in it is old.
5. A folder is deleted if nothing in it stays. A folder that was already empty stays while it is recent.

A lite vacuum, which reads only the log, applies only rules 1 and 2, and sees no folders.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.log.file_table import bytes_of
from deltalite.protocol.file_names import STAGING_DIR
from deltalite.storage.trees import Folder
from deltalite.upkeep.vacuum_names import NamesInLog
from deltalite.upkeep.vacuum_rules import HiddenNames, Retention, checksum_of, holds_a_log, is_staged

LISTED = pa.schema([("name", pa.string()), ("size", pa.int64()), ("modified_ms", pa.int64())])
PLANNED = pa.schema([("name", pa.string()), ("size", pa.int64())])


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderSize:
    """The number and size of the files to delete directly in one folder; the root's name is empty."""

    name: str
    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumPlan:
    """The files and folders to delete.

    - `files`: the files, with the columns of `PLANNED`.
    - `folders`: the folders to remove if they are empty, in this order.
    - `seen_folders`: the number of listed folders, including the root.
    - `swept_version`: the version up to which all removed files will be deleted, None if unknown.
    """

    files: pa.Table
    folders: Sequence[str] = ()
    seen_folders: int = 1
    swept_version: int | None = None

    @property
    def size_bytes(self) -> int:
        """The total size of the files to delete."""
        return bytes_of(self.files)

    def largest_folders(self, count: int) -> list[FolderSize]:
        """Return the folders with the most bytes to delete, the largest first."""
        parents = pc.replace_substring_regex(self.files["name"], r"/?[^/]*$", "")
        sizes = pa.table({"name": parents, "size": self.files["size"]})
        sums = sizes.group_by("name").aggregate([("size", "sum"), ("size", "count")])
        largest = sums.sort_by([("size_sum", "descending"), ("name", "ascending")]).slice(0, count).to_pylist()
        return [FolderSize(name=row["name"], files=row["size_count"], size_bytes=row["size_sum"]) for row in largest]

    def without(self, names: NamesInLog) -> VacuumPlan:
        """Return the plan without the files that later commits name."""
        return replace(self, files=self.files.filter(pc.invert(names.keeps(self.files["name"]))))


@dataclass(frozen=True, slots=True, kw_only=True)
class _SeenFolder:
    """The time of a folder, and whether it was empty or holds entries that a vacuum never deletes."""

    modified_ms: int
    was_empty: bool
    has_more: bool


@dataclass(frozen=True, slots=True)
class TreeListing:
    """The content of a table's folder: `files` with the columns of `LISTED`, and the folders below the root."""

    files: pa.Table
    folders: Mapping[str, _SeenFolder]


@dataclass(slots=True)
class ListingBuilder:
    """A builder of a listing from the folders of a walk, parents first, without entries that a vacuum never deletes."""

    hidden: HiddenNames
    _tables: list[pa.Table] = field(default_factory=list)
    _times: dict[str, int] = field(default_factory=dict)
    _folders: dict[str, _SeenFolder] = field(default_factory=dict)

    def add(self, folder: Folder) -> list[str]:
        """Add the content of a folder, and return the subfolders to list.

        Hidden subfolders are left out, and so are all subfolders of another table.
        """
        is_another_table = bool(folder.name) and any(holds_a_log(name) for name, _ in folder.folders)
        hidden = {base for base in folder.bases if self._hides(folder.name, base)}
        kept = [] if is_another_table else [at for at, base in enumerate(folder.bases) if base not in hidden]
        subfolders = [] if is_another_table else [item for item in folder.folders if not self._hides(*_split(item[0]))]
        self._times.update(subfolders)
        if folder.name:
            companions = {checksum_of(folder.bases[at]) for at in kept} if hidden else set()
            more_files = hidden - companions or len(subfolders) < len(folder.folders)
            self._folders[folder.name] = _SeenFolder(
                modified_ms=self._times.get(folder.name, 0),
                was_empty=not (kept or subfolders),
                has_more=folder.has_more or is_another_table or bool(more_files),
            )
        if kept:
            columns: tuple[Sequence[object], ...] = (folder.bases, folder.sizes, folder.times_ms)
            if len(kept) < len(folder.bases):
                columns = tuple([column[at] for at in kept] for column in columns)
            arrays = [pa.array(column, kind) for column, kind in zip(columns, LISTED.types, strict=True)]
            if folder.name:
                arrays[0] = pc.binary_join_element_wise(folder.name, arrays[0], "/")
            self._tables.append(pa.Table.from_arrays(arrays, schema=LISTED))
        return [name for name, _ in subfolders]

    def _hides(self, folder: str, base: str) -> bool:
        may_be_hidden = base[0] in "._" or base == "metadata"
        return may_be_hidden and not is_staged(f"{folder}/{base}" if folder else base) and self.hidden.hides(base)

    def listing(self) -> TreeListing:
        """Return the whole listing."""
        return TreeListing(pa.concat_tables([LISTED.empty_table(), *self._tables]), self._folders)


def plan_full_vacuum(
    listing: TreeListing, names: NamesInLog, retention: Retention, swept_version: int | None
) -> VacuumPlan:
    """Return the plan of a full vacuum."""
    is_staging = pc.starts_with(listing.files["name"], f"{STAGING_DIR}/")
    data, staging = listing.files.filter(pc.invert(is_staging)), listing.files.filter(is_staging)
    is_deleted = _deletion_mask(data, names, retention)
    recent = _recent_stagings(staging, listing.folders, retention.unnamed_before_ms)
    is_recent = pa.array([_staging_of(name) in recent for name in staging["name"].to_pylist()], pa.bool_())
    deleted = pa.concat_tables([data.filter(is_deleted), staging.filter(pc.invert(is_recent))])
    remaining = pa.concat_tables([data.filter(pc.invert(is_deleted)), staging.filter(is_recent)])["name"]
    return VacuumPlan(
        files=deleted.select(PLANNED.names),
        folders=_empty_folders(listing.folders, remaining, recent, retention.unnamed_before_ms),
        seen_folders=len(listing.folders) + 1,
        swept_version=swept_version,
    )


def _deletion_mask(files: pa.Table, names: NamesInLog, retention: Retention) -> pa.ChunkedArray:
    """Return for each file whether to delete it, by rules 1 to 3."""
    position = pc.index_in(files["name"], value_set=names.removed["name"])
    has_tombstone = pc.is_valid(position)
    deleted_ms = names.removed["deleted_ms"].take(position)
    modified_ms = files["modified_ms"]
    is_new = pc.and_(
        pc.greater(modified_ms, pc.fill_null(deleted_ms, 0)),
        pc.greater_equal(modified_ms, retention.in_flight_since_ms),
    )
    is_removed = pc.and_(has_tombstone, pc.invert(is_new))
    is_old = pc.less(modified_ms, retention.unnamed_before_ms)
    return pc.and_(pc.invert(names.keeps(files["name"])), pc.or_(is_removed, is_old))


def _recent_stagings(files: pa.Table, folders: Mapping[str, _SeenFolder], before_ms: int) -> set[str]:
    """Return the staging folders that hold an entry modified at or after a time."""
    times = zip(files["name"].to_pylist(), files["modified_ms"].to_pylist(), strict=True)
    entries = [*times, *((name, folder.modified_ms) for name, folder in folders.items() if is_staged(name))]
    return {_staging_of(name) for name, modified_ms in entries if modified_ms >= before_ms} - {STAGING_DIR}


def _staging_of(name: str) -> str:
    """Return the folder of one write, directly in the staging folder."""
    return "/".join(name.split("/", 2)[:2])


def _empty_folders(
    folders: Mapping[str, _SeenFolder], remaining: pa.ChunkedArray, recent: Collection[str], before_ms: int
) -> tuple[str, ...]:
    """Return the folders in which nothing stays, the deepest first."""
    inside = remaining.filter(pc.match_substring(remaining, "/"))
    occupied = set(pc.unique(pc.replace_substring_regex(inside, r"/[^/]*$", "")).to_pylist())
    for name, folder in folders.items():
        is_recent = folder.was_empty and folder.modified_ms >= before_ms
        if folder.has_more or is_recent or (is_staged(name) and _staging_of(name) in recent):
            occupied.add(name)
    parents = {parent for name in occupied for parent in _parents(name)}
    return tuple(sorted(folders.keys() - occupied - parents, key=lambda name: (-name.count("/"), name)))


def _split(name: str) -> tuple[str, str]:
    folder, _, base = name.rpartition("/")
    return folder, base


def _parents(name: str) -> Iterator[str]:
    while name := name.rpartition("/")[0]:
        yield name

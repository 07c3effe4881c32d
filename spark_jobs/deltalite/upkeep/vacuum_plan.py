"""The plan of a vacuum, from a listing of the folder, the names in the log, and the retention; it does no I/O.

1. A file stays if the log keeps its name (`NamesInLog`).
2. A file that the log removed before the retention is deleted, with any modification time. Exception: a file that was
   written after the removal and within the last day is another file with the same name, and stays.
3. Any other file is deleted if it is older than the retention and older than a day.
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
from deltalite.storage.trees import FolderContent
from deltalite.upkeep.vacuum_names import NamesInLog
from deltalite.upkeep.vacuum_rules import (
    HiddenNames,
    Retention,
    hadoop_checksum_name,
    is_log_of_another_table,
    is_staged,
)

LISTED_SCHEMA = pa.schema([("name", pa.string()), ("size", pa.int64()), ("modified_ms", pa.int64())])
PLANNED_SCHEMA = pa.schema([("name", pa.string()), ("size", pa.int64())])


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderSize:
    """The number and size of the files to delete in one folder without its subfolders; the root's name is empty."""

    name: str
    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumPlan:
    """The files and folders to delete.

    - `files`: the files, with the columns of `PLANNED_SCHEMA`.
    - `folders`: the folders to remove if they are empty, in this order.
    - `listed_folders`: the number of listed folders, including the root; 1 for a lite vacuum.
    - `swept_version`: the vacuum deletes all files that commits up to this version removed; None if unknown.
    """

    files: pa.Table
    folders: Sequence[str] = ()
    listed_folders: int = 1
    swept_version: int | None = None

    @property
    def size_bytes(self) -> int:
        """The total size of the files to delete."""
        return bytes_of(self.files)

    def largest_folders(self, count: int) -> list[FolderSize]:
        """Return the folders with the most bytes to delete, the largest first."""
        parents = pc.replace_substring_regex(self.files["name"], r"/?[^/]*$", "")
        sizes = pa.table({"name": parents, "size": self.files["size"]})
        totals = sizes.group_by("name").aggregate([("size", "sum"), ("size", "count")])
        largest = totals.sort_by([("size_sum", "descending"), ("name", "ascending")]).slice(0, count).to_pylist()
        return [FolderSize(name=row["name"], files=row["size_count"], size_bytes=row["size_sum"]) for row in largest]

    def without_files_to_keep(self, names: NamesInLog) -> VacuumPlan:
        """Return the plan without the files that `names` keeps."""
        return replace(self, files=self.files.filter(pc.invert(names.keeps(self.files["name"]))))


@dataclass(frozen=True, slots=True, kw_only=True)
class _ListedFolder:
    """The modification time of a folder, and facts about its content.

    `was_empty` is True if the listing of the folder contains nothing to delete or to list. `has_kept_entries` is True
    if the folder contains entries that a vacuum never deletes.
    """

    modified_ms: int
    was_empty: bool
    has_kept_entries: bool


@dataclass(frozen=True, slots=True)
class TreeListing:
    """The content of a table's folder: `files` with the columns of `LISTED_SCHEMA`, and the folders below the root."""

    files: pa.Table
    folders: Mapping[str, _ListedFolder]


@dataclass(slots=True)
class ListingBuilder:
    """A builder of a listing of the entries that a vacuum may delete.

    The caller adds each folder before its subfolders.
    """

    hidden_names: HiddenNames
    _tables: list[pa.Table] = field(default_factory=list)
    _times: dict[str, int] = field(default_factory=dict)
    _folders: dict[str, _ListedFolder] = field(default_factory=dict)

    def add(self, folder: FolderContent) -> list[str]:
        """Add the content of a folder, and return the subfolders to list.

        The result contains no hidden subfolder, and no subfolder of another table.
        """
        is_another_table = bool(folder.name) and any(is_log_of_another_table(name) for name, _ in folder.folders)
        hidden_bases = {base for base in folder.bases if self._hides(folder.name, base)}
        indexes: list[int] = []
        subfolders: list[tuple[str, int]] = []
        if not is_another_table:
            indexes = [index for index, base in enumerate(folder.bases) if base not in hidden_bases]
            subfolders = [item for item in folder.folders if not self._hides(*_folder_and_base(item[0]))]
        self._times.update(subfolders)
        if folder.name:
            # A vacuum deletes the checksum file of a file together with the file.
            checksum_bases = {hadoop_checksum_name(folder.bases[index]) for index in indexes} if hidden_bases else set()
            has_hidden_entries = bool(hidden_bases - checksum_bases) or len(subfolders) < len(folder.folders)
            self._folders[folder.name] = _ListedFolder(
                modified_ms=self._times.get(folder.name, 0),
                was_empty=not (indexes or subfolders),
                has_kept_entries=folder.has_more or is_another_table or has_hidden_entries,
            )
        if indexes:
            columns: tuple[Sequence[object], ...] = (folder.bases, folder.sizes, folder.times_ms)
            if len(indexes) < len(folder.bases):
                columns = tuple([column[index] for index in indexes] for column in columns)
            arrays = [
                pa.array(column, data_type) for column, data_type in zip(columns, LISTED_SCHEMA.types, strict=True)
            ]
            if folder.name:
                arrays[0] = pc.binary_join_element_wise(folder.name, arrays[0], "/")
            self._tables.append(pa.Table.from_arrays(arrays, schema=LISTED_SCHEMA))
        return [name for name, _ in subfolders]

    def _hides(self, folder: str, base: str) -> bool:
        may_be_hidden = base[0] in "._" or base == "metadata"
        return may_be_hidden and not is_staged(f"{folder}/{base}" if folder else base) and self.hidden_names.hides(base)

    def listing(self) -> TreeListing:
        """Return the whole listing."""
        return TreeListing(pa.concat_tables([LISTED_SCHEMA.empty_table(), *self._tables]), self._folders)


def plan_full_vacuum(
    listing: TreeListing, names: NamesInLog, retention: Retention, swept_version: int | None
) -> VacuumPlan:
    """Return the plan of a full vacuum."""
    is_staging = pc.starts_with(listing.files["name"], f"{STAGING_DIR}/")
    data_files, staged_files = listing.files.filter(pc.invert(is_staging)), listing.files.filter(is_staging)
    is_deleted = _deletion_mask(data_files, names, retention)
    recent_folders = _recent_staging_folders(staged_files, listing.folders, retention.unnamed_before_ms)
    staged_names = staged_files["name"].to_pylist()
    is_recent = pa.array([_staging_folder_of(name) in recent_folders for name in staged_names], pa.bool_())
    files_to_delete = pa.concat_tables([data_files.filter(is_deleted), staged_files.filter(pc.invert(is_recent))])
    files_to_keep = pa.concat_tables([data_files.filter(pc.invert(is_deleted)), staged_files.filter(is_recent)])
    return VacuumPlan(
        files=files_to_delete.select(PLANNED_SCHEMA.names),
        folders=_empty_folders(listing.folders, files_to_keep["name"], recent_folders, retention.unnamed_before_ms),
        listed_folders=len(listing.folders) + 1,
        swept_version=swept_version,
    )


def _deletion_mask(files: pa.Table, names: NamesInLog, retention: Retention) -> pa.ChunkedArray:
    """Return for each file whether to delete it, by rules 1 to 3."""
    tombstone_index = pc.index_in(files["name"], value_set=names.removed["name"])
    has_tombstone = pc.is_valid(tombstone_index)
    deleted_ms = names.removed["deleted_ms"].take(tombstone_index)
    modified_ms = files["modified_ms"]
    is_another_file = pc.and_(
        pc.greater(modified_ms, pc.fill_null(deleted_ms, 0)),
        pc.greater_equal(modified_ms, retention.in_flight_since_ms),
    )
    is_removed = pc.and_(has_tombstone, pc.invert(is_another_file))
    is_old = pc.less(modified_ms, retention.unnamed_before_ms)
    return pc.and_(pc.invert(names.keeps(files["name"])), pc.or_(is_removed, is_old))


def _recent_staging_folders(files: pa.Table, folders: Mapping[str, _ListedFolder], before_ms: int) -> set[str]:
    """Return the recent staging folders: the folder or an entry in it was modified at or after `before_ms`."""
    times = zip(files["name"].to_pylist(), files["modified_ms"].to_pylist(), strict=True)
    entries = [*times, *((name, folder.modified_ms) for name, folder in folders.items() if is_staged(name))]
    return {_staging_folder_of(name) for name, modified_ms in entries if modified_ms >= before_ms} - {STAGING_DIR}


def _staging_folder_of(name: str) -> str:
    """Return the staging folder that contains a name. Each write uses a separate staging folder."""
    return "/".join(name.split("/", 2)[:2])


def _empty_folders(
    folders: Mapping[str, _ListedFolder],
    names_to_keep: pa.ChunkedArray,
    recent_staging_folders: Collection[str],
    before_ms: int,
) -> tuple[str, ...]:
    """Return the folders in which nothing stays, the deepest first."""
    names_in_folders = names_to_keep.filter(pc.match_substring(names_to_keep, "/"))
    occupied = set(pc.unique(pc.replace_substring_regex(names_in_folders, r"/[^/]*$", "")).to_pylist())
    for name, folder in folders.items():
        is_recent = folder.was_empty and folder.modified_ms >= before_ms
        is_recent_staging = is_staged(name) and _staging_folder_of(name) in recent_staging_folders
        if folder.has_kept_entries or is_recent or is_recent_staging:
            occupied.add(name)
    parents = {parent for name in occupied for parent in _parents(name)}
    return tuple(sorted(folders.keys() - occupied - parents, key=lambda name: (-name.count("/"), name)))


def _folder_and_base(name: str) -> tuple[str, str]:
    folder, _, base = name.rpartition("/")
    return folder, base


def _parents(name: str) -> Iterator[str]:
    while name := name.rpartition("/")[0]:
        yield name

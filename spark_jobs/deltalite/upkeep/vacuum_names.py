"""The file names in the log, for a vacuum: names to keep, and names of files removed before the retention.

A vacuum keeps the files of the newest version, files removed within the retention, and all files that a commit within
the retention names, including change files and deletion vectors. Every version that was current within the retention
therefore stays complete. The commits are read in addition to the state, because checkpoints drop tombstones by the
table's retention, hold no change files, and have times by the clocks of writers. Names are kept in Arrow, about a
hundred bytes each. Any unreadable part of the log ends the vacuum. Protocol: Add File and Remove File, Deletion
Vectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.columnar.deletion_vectors.reading import file_name
from deltalite.errors import CorruptLogError
from deltalite.log.action_files import read_actions
from deltalite.log.commit_times import Timeline, in_commit_times
from deltalite.log.listing import list_log
from deltalite.protocol.actions import AddCDCFile, AddFile, RemoveFile
from deltalite.snapshot import Snapshot
from deltalite.storage.log_store import LogStore, StoredFile
from deltalite.upkeep.vacuum_rules import deletable_name, is_inside, protected_names

FILE_KINDS = (AddFile.action, RemoveFile.action, AddCDCFile.action)
REMOVED = pa.schema([("name", pa.string()), ("deleted_ms", pa.int64())])
# A path that may differ from the name in the file system: encoded, absolute, or with superfluous parts.
_UNUSUAL_PATH = r"%|//|^/|^file:|(^|/)\.{1,2}(/|$)|/$"
_READERS = 8
_COMMITS_AT_ONCE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class NamesInLog:
    """The names in the log, relative to the table.

    - `kept`: names to keep.
    - `kept_bases`: base names to keep in any folder.
    - `removed`: names removed before the retention, and the times of removal, with the columns of `REMOVED`. Some of
      them may also be in `kept`.
    """

    kept: pa.ChunkedArray
    kept_bases: pa.Array
    removed: pa.Table

    def keeps(self, names: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return for each name whether to keep it."""
        bases = pc.replace_substring_regex(names, r"^.*/", "")
        return pc.or_(pc.is_in(names, value_set=self.kept), pc.is_in(bases, value_set=self.kept_bases))


class KeptNames:
    """A collection of names to keep."""

    def __init__(self) -> None:
        self._chunks: list[pa.Array] = []
        self._bases: set[str] = set()

    def add_files(self, files: pa.Table) -> None:
        """Add the files of a table with `path` and `deletionVector`, and the files of their vectors."""
        paths = files["path"]
        is_unusual = pc.match_substring_regex(paths, _UNUSUAL_PATH)
        self._chunks += paths.filter(pc.invert(is_unusual)).chunks
        self.add_names(pc.unique(paths.filter(is_unusual)).to_pylist(), vector_files(files))

    def add_names(self, paths: Iterable[str], vectors: Iterable[str]) -> None:
        """Add paths as in the log, and the real names of vector files."""
        names: list[str] = []
        for path in paths:
            protected, base = protected_names(path)
            names += protected
            if base is not None:
                self._bases.add(base)
        for vector in vectors:
            if is_inside(vector):
                names.append(vector)
            else:
                self._bases.add(vector.rpartition("/")[2])
        self._chunks.append(pa.array(names, pa.string()))

    def with_removed(self, removed: pa.Table) -> NamesInLog:
        """Return all names to keep, together with the `removed` names."""
        kept = pa.chunked_array(self._chunks, pa.string())
        return NamesInLog(kept=kept, kept_bases=pa.array(sorted(self._bases), pa.string()), removed=removed)


def names_in_log(snapshot: Snapshot, commits: Sequence[StoredFile], cutoff_ms: int) -> NamesInLog:
    """Return the names that a snapshot and the `commits` within the retention keep, and the snapshot's removed names.

    Raises:
        CorruptLogError, CorruptCheckpointError, CorruptDataFileError: a part of the log is unreadable.
    """
    kept_names = KeptNames()
    kept_names.add_files(snapshot.files_with(["path", "deletionVector"]))
    tombstones = snapshot.tombstones(["path", "deletionTimestamp", "deletionVector"])
    deleted_ms = pc.fill_null(tombstones["deletionTimestamp"], 0)
    expired = pc.less(deleted_ms, cutoff_ms)
    kept_names.add_files(tombstones.filter(pc.invert(expired)))
    protect_commits(snapshot.store, commits, kept_names)
    return kept_names.with_removed(_removed_names(tombstones.filter(expired), snapshot.store.root))


def protect_commits(store: LogStore, commits: Sequence[StoredFile], kept_names: KeptNames) -> None:
    """Keep the names in commits, which are read several at a time. Raises: as `named_in`."""
    with ThreadPoolExecutor(max_workers=_READERS, thread_name_prefix="commits") as pool:
        for at in range(0, len(commits), _COMMITS_AT_ONCE):
            for paths, vectors in pool.map(lambda commit: named_in(store, commit), commits[at : at + _COMMITS_AT_ONCE]):
                kept_names.add_names(paths, vectors)


def named_in(store: LogStore, commit: StoredFile) -> tuple[set[str], set[str]]:
    """Return the paths of a commit's file actions, and the names of the files with their deletion vectors.

    Raises:
        CorruptLogError: the commit is malformed, or a file action has no path.
        CorruptDataFileError: a deletion vector has an invalid file name.
    """
    paths: set[str] = set()
    vectors: set[str] = set()
    for kind, body in read_actions(store, commit.name, commit.size_bytes):
        if kind in FILE_KINDS:
            path, vector = path_and_vector(body, commit.name)
            paths.add(path)
            if vector is not None:
                vectors.add(vector)
    return paths, vectors


def path_and_vector(body: Mapping[str, Any], source: str) -> tuple[str, str | None]:
    """Return the path of a file action, and the real name of the file with its deletion vector, if any."""
    path, vector = body.get("path"), body.get("deletionVector")
    if not isinstance(path, str) or not (vector is None or isinstance(vector, dict)):
        raise CorruptLogError(
            f"{source} has an action of a file without a path, or with a malformed deletion vector.",
            remedy="Repair the log with the engine that wrote it; until then nothing is deleted.",
        )
    return path, None if vector is None else file_name(vector)


def vector_files(files: pa.Table) -> set[str]:
    """Return the real names of the files with the deletion vectors of a table of files; vectors may share a file."""
    vectors = files["deletionVector"].drop_null()
    if not len(vectors):
        return set()
    locations = pa.table({key: pc.struct_field(vectors, key) for key in ("storageType", "pathOrInlineDv")})
    on_disk = (
        locations.filter(pc.not_equal(locations["storageType"], "i")).group_by(locations.column_names).aggregate([])
    )
    names = (file_name(location) for location in on_disk.to_pylist())
    return {name for name in names if name is not None}


def _removed_names(tombstones: pa.Table, root: str) -> pa.Table:
    """Return the names of removed files and of their vectors' files, with the time of the last removal."""
    times = pc.fill_null(tombstones["deletionTimestamp"], 0)
    is_unusual = pc.match_substring_regex(tombstones["path"], _UNUSUAL_PATH)
    is_plain = pc.invert(is_unusual)
    tables = [pa.Table.from_arrays([tombstones["path"].filter(is_plain), times.filter(is_plain)], schema=REMOVED)]
    other_times = {name: time for name, time in _other_names(tombstones, times, is_unusual, root) if name is not None}
    tables.append(pa.table({"name": list(other_times), "deleted_ms": list(other_times.values())}, schema=REMOVED))
    newest = pa.concat_tables(tables).group_by("name").aggregate([("deleted_ms", "max")])
    return newest.rename_columns({"deleted_ms_max": "deleted_ms"}).select(REMOVED.names)


def _other_names(
    tombstones: pa.Table, times: pa.ChunkedArray, is_unusual: pa.ChunkedArray, root: str
) -> Iterator[tuple[str | None, int]]:
    """Yield the names that need individual handling, with times in ascending order."""
    paths = zip(tombstones["path"].filter(is_unusual).to_pylist(), times.filter(is_unusual).to_pylist(), strict=True)
    names_and_times = [(deletable_name(path, root), time) for path, time in paths]
    has_vector = pc.is_valid(tombstones["deletionVector"])
    vectors = zip(
        tombstones["deletionVector"].filter(has_vector).to_pylist(), times.filter(has_vector).to_pylist(), strict=True
    )
    for vector, time in vectors:
        name = file_name(vector)
        names_and_times.append((name if name is not None and is_inside(name) else None, time))
    yield from sorted(names_and_times, key=lambda item: item[1])


def commits_within_retention(snapshot: Snapshot, cutoff_ms: int) -> list[StoredFile]:
    """Return the commits after a time that the log still holds, including those newer than the snapshot.

    The version that was current at that time is not included: each of its files is still active, or one of these
    commits removed it.

    Raises:
        CorruptLogError: one of these commits is missing, or lacks its required in-commit timestamp.
    """
    last = newest_at(snapshot, cutoff_ms)
    commits = list_log(snapshot.store, 0).commits
    later_versions = [version for version in sorted(commits) if last is None or version > last]
    newest = max(snapshot.version, *later_versions) if later_versions else snapshot.version
    first_later = later_versions[0] if later_versions else newest + 1
    check_complete(snapshot, commits, first_later if last is None else last + 1, newest)
    return [commits[version] for version in later_versions]


def newest_at(snapshot: Snapshot, moment_ms: int) -> int | None:
    """Return the newest version committed at or before a time, among the commits in the log."""
    in_commit = in_commit_times(snapshot.protocol, snapshot.metadata)
    commit = Timeline(snapshot.store, in_commit, rebuildable_only=False).newest_at(moment_ms)
    return None if commit is None else commit.version


def check_complete(snapshot: Snapshot, commits: Mapping[int, StoredFile], first: int, last: int) -> None:
    """Check that the log holds every commit from `first` to `last`. Raises `CorruptLogError`."""
    missing = next((version for version in range(first, last + 1) if version not in commits), None)
    if missing is not None:
        raise CorruptLogError(
            f"The log of {snapshot.store.root} lacks commit {missing}, though it has older and newer ones. The vacuum "
            "deletes nothing, because it does not know the files of that commit.",
            remedy="Restore the commit from a backup, or wait until log cleanup has deleted the commits before it.",
        )

"""The file names in the log, for a vacuum: names to keep, and names of files removed before the retention.

A vacuum keeps these files, so every version that was current within the retention stays complete:

- the files of the newest version
- the files that were removed within the retention
- all files in the commits within the retention, including change files and deletion vectors

The state of the newest version is not enough: its checkpoint drops tombstones by the table's retention, and holds no
change files. Its deletion times come from the clocks of writers. So the vacuum also reads the commits. Memory holds
about a hundred bytes per name. Any unreadable part of the log ends the vacuum. Protocol: Add File and Remove File,
Deletion Vectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.columnar.deletion_vectors.descriptors import file_name
from deltalite.errors import CorruptLogError
from deltalite.log.action_files import read_actions
from deltalite.log.commit_times import Timeline, in_commit_settings
from deltalite.log.listing import list_log
from deltalite.protocol.actions import AddCDCFile, AddFile, RemoveFile
from deltalite.protocol.paths import is_inside, name_in_table
from deltalite.snapshot import Snapshot
from deltalite.storage.log_store import LogStore, StoredFile
from deltalite.upkeep.vacuum_rules import protected_names

FILE_KINDS = (AddFile.action, RemoveFile.action, AddCDCFile.action)
REMOVED_SCHEMA = pa.schema([("name", pa.string()), ("deleted_ms", pa.int64())])
# Paths that may differ from the name in the file system: encoded or absolute paths, and paths with superfluous parts.
_UNUSUAL_PATH_PATTERN = r"%|//|^/|^file:|(^|/)\.{1,2}(/|$)|/$"
_MAX_THREADS = 8
_COMMITS_AT_ONCE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class NamesInLog:
    """The names in the log, relative to the table.

    - `names_to_keep`: the files that a vacuum keeps.
    - `bases_to_keep`: the base names that a vacuum keeps in any folder.
    - `removed`: names removed before the retention, and the times of removal, with the columns of `REMOVED_SCHEMA`.
      Some of these names may also be in `names_to_keep`.
    """

    names_to_keep: pa.ChunkedArray
    bases_to_keep: pa.Array
    removed: pa.Table

    def keeps(self, names: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return for each name whether to keep it."""
        bases = pc.replace_substring_regex(names, r"^.*/", "")
        return pc.or_(pc.is_in(names, value_set=self.names_to_keep), pc.is_in(bases, value_set=self.bases_to_keep))


class NamesToKeep:
    """A collection of names to keep."""

    def __init__(self) -> None:
        self._chunks: list[pa.Array] = []
        self._bases: set[str] = set()

    def add_files(self, files: pa.Table) -> None:
        """Add data files and their vector files. `files` has the columns `path` and `deletionVector`."""
        paths = files["path"]
        is_unusual = pc.match_substring_regex(paths, _UNUSUAL_PATH_PATTERN)
        self._chunks += paths.filter(pc.invert(is_unusual)).chunks
        self.add_names(pc.unique(paths.filter(is_unusual)).to_pylist(), vector_file_names(files))

    def add_names(self, paths: Iterable[str], vectors: Iterable[str]) -> None:
        """Add paths as in the log, and the real names of vector files."""
        names: list[str] = []
        for path in paths:
            names_in_table, base = protected_names(path)
            names += names_in_table
            if base is not None:
                self._bases.add(base)
        for vector in vectors:
            if is_inside(vector):
                names.append(vector)
            else:
                self._bases.add(vector.rpartition("/")[2])
        self._chunks.append(pa.array(names, pa.string()))

    def with_removed_names(self, removed: pa.Table) -> NamesInLog:
        """Return all names to keep, together with the `removed` names."""
        return NamesInLog(
            names_to_keep=pa.chunked_array(self._chunks, pa.string()),
            bases_to_keep=pa.array(sorted(self._bases), pa.string()),
            removed=removed,
        )


def names_in_log(snapshot: Snapshot, commits: Sequence[StoredFile], cutoff_ms: int) -> NamesInLog:
    """Return the names that a snapshot and the `commits` within the retention keep, and the snapshot's removed names.

    Raises:
        CorruptLogError, CorruptCheckpointError, CorruptDataFileError: a part of the log is unreadable.
    """
    names_to_keep = NamesToKeep()
    names_to_keep.add_files(snapshot.files_with(["path", "deletionVector"]))
    tombstones = snapshot.tombstones(["path", "deletionTimestamp", "deletionVector"])
    deleted_ms = pc.fill_null(tombstones["deletionTimestamp"], 0)
    is_expired = pc.less(deleted_ms, cutoff_ms)
    names_to_keep.add_files(tombstones.filter(pc.invert(is_expired)))
    add_names_of_commits(snapshot.store, commits, names_to_keep)
    return names_to_keep.with_removed_names(_removed_names(tombstones.filter(is_expired), snapshot.store.root))


def add_names_of_commits(store: LogStore, commits: Sequence[StoredFile], names_to_keep: NamesToKeep) -> None:
    """Add the names in commits to `names_to_keep`; read several commits at a time.

    Raises:
        CorruptLogError, CorruptDataFileError: as `paths_and_vectors`.
    """
    with ThreadPoolExecutor(max_workers=_MAX_THREADS, thread_name_prefix="commits") as pool:
        for start in range(0, len(commits), _COMMITS_AT_ONCE):
            batch = commits[start : start + _COMMITS_AT_ONCE]
            for paths, vectors in pool.map(lambda commit: paths_and_vectors(store, commit), batch):
                names_to_keep.add_names(paths, vectors)


def paths_and_vectors(store: LogStore, commit: StoredFile) -> tuple[set[str], set[str]]:
    """Return the paths of a commit's file actions, and the names of the files with their deletion vectors.

    Raises:
        CorruptLogError: the commit is malformed, or a file action contains no path.
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
    """Return the path of a file action, and the real name of the file with its deletion vector, if any.

    `source` is the name of the commit.

    Raises:
        CorruptLogError: the action contains no path or a malformed vector.
        CorruptDataFileError: the vector has an invalid file name.
    """
    path, vector = body.get("path"), body.get("deletionVector")
    if not isinstance(path, str) or not (vector is None or isinstance(vector, dict)):
        raise CorruptLogError(
            f"{source} contains a file action without a path, or with a malformed deletion vector.",
            remedy="Repair the log with the engine that wrote it. The vacuum deleted nothing.",
        )
    return path, None if vector is None else file_name(vector)


def vector_file_names(files: pa.Table) -> set[str]:
    """Return the real names of the vector files of a table of data files. Several vectors may share a vector file."""
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
    is_unusual = pc.match_substring_regex(tombstones["path"], _UNUSUAL_PATH_PATTERN)
    is_plain = pc.invert(is_unusual)
    plain_columns = [tombstones["path"].filter(is_plain), times.filter(is_plain)]
    tables = [pa.Table.from_arrays(plain_columns, schema=REMOVED_SCHEMA)]
    unusual_names = _unusual_names(tombstones, times, is_unusual, root)
    times_by_name = {name: time for name, time in unusual_names if name is not None}
    columns = {"name": list(times_by_name), "deleted_ms": list(times_by_name.values())}
    tables.append(pa.table(columns, schema=REMOVED_SCHEMA))
    last_removals = pa.concat_tables(tables).group_by("name").aggregate([("deleted_ms", "max")])
    return last_removals.rename_columns({"deleted_ms_max": "deleted_ms"}).select(REMOVED_SCHEMA.names)


def _unusual_names(
    tombstones: pa.Table, times: pa.ChunkedArray, is_unusual: pa.ChunkedArray, root: str
) -> Iterator[tuple[str | None, int]]:
    """Yield the names of unusual paths and of deletion vectors' files, with times in ascending order.

    A name is None if the file is not in the table.
    """
    paths = zip(tombstones["path"].filter(is_unusual).to_pylist(), times.filter(is_unusual).to_pylist(), strict=True)
    names_and_times = [(name_in_table(path, root), time) for path, time in paths]
    has_vector = pc.is_valid(tombstones["deletionVector"])
    vectors = zip(
        tombstones["deletionVector"].filter(has_vector).to_pylist(), times.filter(has_vector).to_pylist(), strict=True
    )
    for vector, time in vectors:
        name = file_name(vector)
        names_and_times.append((name if name is not None and is_inside(name) else None, time))
    yield from sorted(names_and_times, key=lambda item: item[1])


def commits_within_retention(snapshot: Snapshot, cutoff_ms: int) -> list[StoredFile]:
    """Return the commits in the log that are later than `cutoff_ms`, including commits newer than the snapshot.

    The commit of the version that was current at `cutoff_ms` is not included. Each file of that version is still
    active, or a later commit removed it.

    Raises:
        CorruptLogError: one of these commits is missing, or lacks its required in-commit timestamp.
    """
    version_at_cutoff = newest_version_at(snapshot, cutoff_ms)
    commits = list_log(snapshot.store, 0).commits
    later_versions = [v for v in sorted(commits) if version_at_cutoff is None or v > version_at_cutoff]
    newest_version = max([snapshot.version, *later_versions])
    if version_at_cutoff is not None:
        first_version = version_at_cutoff + 1
    else:
        first_version = later_versions[0] if later_versions else newest_version + 1
    _check_no_commit_is_missing(snapshot, commits, first_version, newest_version)
    return [commits[version] for version in later_versions]


def newest_version_at(snapshot: Snapshot, moment_ms: int) -> int | None:
    """Return the newest version committed at or before a time, among the commits in the log."""
    in_commit = in_commit_settings(snapshot.protocol, snapshot.metadata)
    commit = Timeline(snapshot.store, in_commit, rebuildable_only=False).newest_at(moment_ms)
    return None if commit is None else commit.version


def _check_no_commit_is_missing(
    snapshot: Snapshot, commits: Mapping[int, StoredFile], first_version: int, last_version: int
) -> None:
    """Check that the log holds every commit of a range of versions. Raises `CorruptLogError`."""
    missing = next((version for version in range(first_version, last_version + 1) if version not in commits), None)
    if missing is not None:
        raise CorruptLogError(
            f"The log of {snapshot.store.root} lacks commit {missing}, but contains older and newer commits. The "
            "vacuum deletes nothing, because it does not know the files of that commit.",
            remedy="Restore the commit from a backup, or wait until log cleanup has deleted the commits before it.",
        )

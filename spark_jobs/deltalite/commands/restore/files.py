"""The files that a restore adds back and removes, and a check that the files to add back exist.

The identity of a file is its path and its deletion vector (`log.file_table.key_column`), so a file with another vector
is removed and added. Files stay in columnar form, and the check converts them to Python values in batches.

The check looks for data files and vector files, because a vacuum may have deleted either kind. If the files to add back
are a small part of the table's files, the check asks storage for each file by name. Otherwise it lists the folders. A
folder that cannot be listed does not block the restore.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.columnar.deletion_vectors.descriptors import FRAME_FIELD_BYTES, file_name
from deltalite.errors import CorruptDataFileError
from deltalite.inspection.presence import Absent, Presence
from deltalite.log.action_files import read_actions
from deltalite.log.file_table import ADD_TYPES, bytes_of, file_key, key_column, total, without_rows
from deltalite.log.listing import list_log
from deltalite.protocol.actions import AddFile, RemoveFile
from deltalite.protocol.paths import canonical_path, decode_path
from deltalite.protocol.row_tracking import ROW_ID_FIELDS
from deltalite.sizes import counted
from deltalite.snapshot import Snapshot
from deltalite.storage.log_store import LogStore

_REMOVED_COLUMNS = ("path", "partitionValues", "size", "deletionVector", *ROW_ID_FIELDS)
_FILES_PER_BATCH = 65_536
_MAX_LISTED_PROBLEMS = 10
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The files to add back and to remove.

    `restored` has all columns of `ADD_TYPES`, and `removed` has `_REMOVED_COLUMNS`. `files_after` and `bytes_after` are
    the number and the size of the table's files after the restore.
    """

    restored: pa.Table
    removed: pa.Table
    files_after: int
    bytes_after: int

    def without(self, absent: AbsentFiles) -> Difference:
        """Return the difference without the absent files."""
        present_files = without_rows(self.restored, absent.mask)
        lost_bytes = bytes_of(self.restored) - bytes_of(present_files)
        return Difference(
            restored=present_files,
            removed=self.removed,
            files_after=self.files_after - absent.count,
            bytes_after=self.bytes_after - lost_bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AbsentFiles:
    """Files that cannot be added back.

    - `mask`: whether a file is absent, for each file to add back.
    - `lost_files`: the names of the missing or wrong files in storage, both data files and vector files.
    - `problems`: a text for each of the first absent files.
    """

    mask: pa.ChunkedArray
    lost_files: frozenset[str]
    problems: tuple[str, ...]

    @property
    def count(self) -> int:
        """The number of absent files."""
        return total(self.mask)


def difference(base: Snapshot, target: Snapshot) -> Difference:
    """Return the files that only `target` has, and the files that only `base` has."""
    target_files, base_files = target.files_with(tuple(ADD_TYPES)), base.files_with(_REMOVED_COLUMNS)
    target_keys, base_keys = key_column(target_files), key_column(base_files)
    return Difference(
        restored=without_rows(target_files, pc.is_in(target_keys, value_set=base_keys)),
        removed=without_rows(base_files, pc.is_in(base_keys, value_set=target_keys)),
        files_after=target_files.num_rows,
        bytes_after=bytes_of(target_files),
    )


def absent_files(store: LogStore, files: pa.Table, *, total_file_count: int) -> AbsentFiles:
    """Return the files that are missing, have another size than the log says, or lack their deletion vector.

    `total_file_count` is the approximate number of files of the whole table. It decides how the files are looked up.

    Raises:
        StorageError: storage does not answer.
    """
    presence, masks, lost_files, problems = Presence(store), list[pa.Array](), set[str](), list[str]()
    for batch in files.select(["path", "size", "deletionVector"]).to_batches(max_chunksize=_FILES_PER_BATCH):
        problems_of_rows = _problems_by_lost_file(presence, batch.to_pylist(), total_file_count)
        masks.append(pa.array([bool(problem_by_file) for problem_by_file in problems_of_rows], pa.bool_()))
        for problem_by_file in filter(None, problems_of_rows):
            lost_files.update(problem_by_file)
            if len(problems) < _MAX_LISTED_PROBLEMS:
                problems.append("; ".join(problem_by_file.values()))
    if presence.inaccessible_folders:
        _log.warning(
            "Could not list %s, such as %s, so the restore does not know whether the files there exist.",
            counted(len(presence.inaccessible_folders), "folder"),
            presence.inaccessible_folders[0],
        )
    return AbsentFiles(
        mask=pa.chunked_array(masks, pa.bool_()), lost_files=frozenset(lost_files), problems=tuple(problems)
    )


def refuse_absent(absent: AbsentFiles, base: Snapshot, target: Snapshot) -> None:
    """Refuse a restore with absent files.

    Raises:
        CorruptDataFileError: files are absent. The message lists the first of them, and names a later version that
            needs none of them.
    """
    if not absent.count:
        return
    more = f"; and {absent.count - len(absent.problems)} more" if absent.count > len(absent.problems) else ""
    complete_version = _oldest_version_without(absent.lost_files, base, target)
    hint = (
        ""
        if complete_version is None
        else f" Version {complete_version} is the oldest later version without these files."
    )
    raise CorruptDataFileError(
        f"Cannot restore version {target.version} of {base.store.root}, because of "
        f"{counted(absent.count, 'missing or changed file')}, perhaps after a vacuum: "
        f"{'; '.join(absent.problems)}{more}.{hint} Nothing was changed.",
        remedy="Restore a later version (`deltalite verify` lists the complete ones), or copy the files back from a "
        "backup, or set ignore_missing_files=True to restore the version without their rows.",
    )


def _problems_by_lost_file(
    presence: Presence, file_rows: Sequence[Mapping[str, Any]], total_file_count: int
) -> list[dict[str, str]]:
    """For each file of the table, return the problems of its lost files in storage, by name."""
    names = [decode_path(file_row["path"]) for file_row in file_rows]
    vector_names = [_vector_file_name(file_row["deletionVector"]) for file_row in file_rows]
    required_files = sorted({*names, *(name for name in vector_names if name is not None)})
    sizes = dict(zip(required_files, presence.sizes_by_cheaper_way(required_files, total_file_count), strict=True))
    problems_of_rows: list[dict[str, str]] = []
    for file_row, name, vector_name in zip(file_rows, names, vector_names, strict=True):
        problems = {canonical_path(file_row["path"]): _size_problem(name, sizes[name], exact=file_row["size"])}
        if vector_name is not None:
            least_size = _least_vector_file_size(file_row["deletionVector"])
            problems[vector_name] = _size_problem(vector_name, sizes[vector_name], least=least_size)
        problems_of_rows.append({file: problem for file, problem in problems.items() if problem is not None})
    return problems_of_rows


def _size_problem(name: str, size: int | Absent, *, exact: int | None = None, least: int = 0) -> str | None:
    """Return a text if a file is missing or has a wrong size in bytes. Return None if the size is right or unknown.

    The right size is `exact`, or any size from `least` bytes.
    """
    match size:
        case Absent.MISSING:
            return f"{name} is missing"
        case Absent.UNKNOWN:
            return None
        case int() if (exact and size != exact) or size < least:
            return f"{name} has {counted(size, 'byte')} instead of {exact or f'at least {least}'}"
        case _:
            return None


def _vector_file_name(descriptor: Mapping[str, Any] | None) -> str | None:
    return None if descriptor is None else file_name(descriptor)


def _least_vector_file_size(descriptor: Mapping[str, Any]) -> int:
    """Return the least size in bytes of a file that holds the vector: the end of the vector in the file."""
    return int(descriptor["offset"] or 1) + int(descriptor["sizeInBytes"] or 0) + 2 * FRAME_FIELD_BYTES


def _oldest_version_without(lost_files: frozenset[str], base: Snapshot, target: Snapshot) -> int | None:
    """Return the first version above `target` that needs none of the lost files, or None.

    A file with a new deletion vector is another file of the table, but needs the same data file.
    """
    store, files = base.store, target.files_with(("path", "deletionVector"))
    incomplete_keys = set[str]()  # the keys of the version's files that need a lost file
    for batch in files.to_batches(max_chunksize=_FILES_PER_BATCH):
        incomplete_keys |= _keys_of_incomplete(batch.to_pylist(), lost_files)
    commits = list_log(store, target.version + 1).commits
    for version in range(target.version + 1, base.version + 1):
        commit = commits.get(version)
        if commit is None:
            return None
        removed_keys, added_keys = set[str](), set[str]()
        for kind, body in read_actions(store, commit.name, commit.size_bytes):
            if kind == RemoveFile.action:
                removed_keys.add(file_key(body["path"], body.get("deletionVector")))
            elif kind == AddFile.action:
                added_keys |= _keys_of_incomplete([body], lost_files)
        incomplete_keys = (incomplete_keys - removed_keys) | added_keys
        if not incomplete_keys:
            return version
    return None


def _keys_of_incomplete(adds: Iterable[Mapping[str, Any]], lost_files: frozenset[str]) -> set[str]:
    """Return the keys of those files of the table that need a lost file."""
    identities = ((add["path"], add.get("deletionVector")) for add in adds)
    return {
        file_key(path, vector)
        for path, vector in identities
        if not lost_files.isdisjoint(_required_files(path, vector))
    }


def _required_files(path: str, descriptor: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the files in storage that a file of the table needs. Several files may share one vector file."""
    vector_name = _vector_file_name(descriptor)
    return (canonical_path(path),) if vector_name is None else (canonical_path(path), vector_name)

"""The number of files, bytes and deletion vectors of each version, and the versions that contain a file.

Each result needs one pass over the commits after a checkpoint. Memory holds the names of the files that these
commits add or remove. The checkpoint's sums cover all other files. Protocol: Action Reconciliation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.inspection.chains import Chain, Span
from deltalite.inspection.versions import Range, union
from deltalite.log.action_files import read_actions
from deltalite.log.file_table import file_key, key_column
from deltalite.log.listing import CheckpointFiles
from deltalite.log.replay import replay_checkpoint
from deltalite.protocol.actions import AddFile, RemoveFile
from deltalite.storage.log_store import LogStore, StoredFile
from deltalite.upkeep.file_counts import FileCounts, count_files

_COLUMNS = ("path", "size", "deletionVector")


class _File(NamedTuple):
    """The size of a file, and the number of rows that its deletion vector removes (None without a vector)."""

    size_bytes: int
    removed_rows: int | None


@dataclass(slots=True)
class _Sums:
    """The counts of the active files, updated for each file that a commit adds or removes."""

    files: int = 0
    size_bytes: int = 0
    vectors: int = 0
    deleted_records: int = 0

    def add(self, file: _File, *, sign: int) -> None:
        """Add a file to the sums with `sign` 1; subtract it with `sign` -1."""
        self.files += sign
        self.size_bytes += sign * file.size_bytes
        if file.removed_rows is not None:
            self.vectors += sign
            self.deleted_records += sign * file.removed_rows

    def counts(self) -> FileCounts:
        return FileCounts(
            files=self.files,
            size_bytes=self.size_bytes,
            vectors=self.vectors,
            deleted_records=self.deleted_records,
        )


def counts_by_version(store: LogStore, span: Span, versions: Collection[int]) -> Iterator[tuple[int, FileCounts]]:
    """Yield the counts of `versions` of a span, ascending. They may include the version of the span's checkpoint.

    Raises:
        UnusableLogFile: the span's checkpoint cannot be read.
        CorruptLogError: a commit cannot be read.
    """
    last = max(versions, default=-1)
    commits = {version: commit for version, commit in span.commits.items() if version <= last}
    changes = [(version, *_changed_files(store, commit)) for version, commit in commits.items()]
    sums, active_files = _state_at_start(
        store, span, {key for _, added, removed in changes for key in (*added, *removed)}
    )
    if span.start is not None and span.start.version in versions:
        yield span.start.version, sums.counts()
    for version, added, removed in changes:
        for key in removed:
            if (removed_file := active_files.pop(key, None)) is not None:
                sums.add(removed_file, sign=-1)
        for key, file in added.items():
            if (replaced_file := active_files.get(key)) is not None:
                sums.add(replaced_file, sign=-1)
            active_files[key] = file
            sums.add(file, sign=1)
        if version in versions:
            yield version, sums.counts()


def lifetimes(store: LogStore, chain: Chain, keys: Collection[str]) -> dict[str, tuple[Range, ...]]:
    """Return, for each file key in `keys`, the versions of a chain that contain the file, as ranges.

    The result omits files that are in no version.

    Raises the errors of `counts_by_version`.
    """
    first, last = chain.versions
    first_versions: dict[str, int] = {}
    ranges_by_key: dict[str, list[Range]] = {}
    if chain.start is not None:
        first_versions = dict.fromkeys(_present_keys(key_column(_files_of_checkpoint(store, chain.start)), keys), first)
    for version, commit in chain.commits.items():
        added, removed = _changed_files(store, commit)
        for key in removed:
            if key in first_versions:
                ranges_by_key.setdefault(key, []).append((first_versions.pop(key), version - 1))
        for key in added:
            if key in keys:
                first_versions.setdefault(key, version)
    for key, first_version in first_versions.items():
        ranges_by_key.setdefault(key, []).append((first_version, last))
    return {key: union(file_ranges) for key, file_ranges in ranges_by_key.items()}


def _files_of_checkpoint(store: LogStore, checkpoint: CheckpointFiles) -> pa.Table:
    """Return the active files in a checkpoint, with `_COLUMNS`."""
    return replay_checkpoint(store, checkpoint).files(_COLUMNS)


def _state_at_start(store: LogStore, span: Span, touched_keys: Collection[str]) -> tuple[_Sums, dict[str, _File]]:
    """Return the sums of a span's checkpoint, and the checkpoint's files with a key in `touched_keys`."""
    if span.start is None:
        return _Sums(), {}
    files = _files_of_checkpoint(store, span.start)
    counts = count_files(files)
    sums = _Sums(counts.files, counts.size_bytes, counts.vectors, counts.deleted_records)
    keys = key_column(files)
    is_touched = pc.is_in(keys, value_set=pa.array(list(touched_keys), pa.string()))
    rows = files.select(["size", "deletionVector"]).filter(is_touched).to_pylist()
    touched_files = {
        key: _file(row["size"], row["deletionVector"])
        for key, row in zip(keys.filter(is_touched).to_pylist(), rows, strict=True)
    }
    return sums, touched_files


def _changed_files(store: LogStore, commit: StoredFile) -> tuple[dict[str, _File], set[str]]:
    """Return the files that a commit adds and removes. A file in both stays active, because removes apply first."""
    added: dict[str, _File] = {}
    removed: set[str] = set()
    for kind, body in read_actions(store, commit.name, commit.size_bytes):
        if kind == AddFile.action:
            vector = body.get("deletionVector")
            added[file_key(body["path"], vector)] = _file(body.get("size"), vector)
        elif kind == RemoveFile.action:
            removed.add(file_key(body["path"], body.get("deletionVector")))
    return added, removed


def _file(size_bytes: int | None, vector: Mapping[str, Any] | None) -> _File:
    return _File(size_bytes or 0, None if vector is None else vector.get("cardinality") or 0)


def _present_keys(keys: pa.ChunkedArray, requested_keys: Iterable[str]) -> list[str]:
    present_keys: list[str] = keys.filter(
        pc.is_in(keys, value_set=pa.array(list(requested_keys), pa.string()))
    ).to_pylist()
    return present_keys

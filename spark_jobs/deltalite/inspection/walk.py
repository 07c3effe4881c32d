"""The number of files, bytes and deletion vectors of each version, and the versions that contain a file.

Both are computed in one pass over the commits after a checkpoint. Only the files that these commits add or remove are
kept by name; for the others the sums of the checkpoint are enough. Protocol: Action Reconciliation.
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
from deltalite.log.file_table import bytes_of, deleted_rows_of, file_key, key_column
from deltalite.log.replay import replay
from deltalite.log.segment import LogSegment
from deltalite.protocol.actions import AddFile, RemoveFile
from deltalite.storage.log_store import LogStore, StoredFile
from deltalite.upkeep.checksum import FileCounts

_COLUMNS = ("path", "size", "deletionVector")


class _File(NamedTuple):
    """The size of a file, and the soft-deleted rows of its deletion vector (None without one)."""

    size_bytes: int
    removed_rows: int | None


@dataclass(slots=True)
class _Sums:
    files: int = 0
    size_bytes: int = 0
    vectors: int = 0
    deleted_records: int = 0

    def count(self, file: _File, sign: int) -> None:
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
    """Yield the counts of these versions of a span, ascending; they may include its checkpoint's version.

    Raises:
        PassOver: the span's checkpoint cannot be read.
        CorruptLogError: a commit cannot be read.
    """
    last = max(versions, default=-1)
    commits = {version: commit for version, commit in span.commits.items() if version <= last}
    changes = [(version, *_changed_files(store, commit)) for version, commit in commits.items()]
    sums, present = _state_at_start(store, span, {key for _, added, removed in changes for key in (*added, *removed)})
    if span.start is not None and span.start.version in versions:
        yield span.start.version, sums.counts()
    for version, added, removed in changes:
        for key in removed:
            if (removed_file := present.pop(key, None)) is not None:
                sums.count(removed_file, -1)
        for key, file in added.items():
            if (replaced_file := present.get(key)) is not None:
                sums.count(replaced_file, -1)
            present[key] = file
            sums.count(file, 1)
        if version in versions:
            yield version, sums.counts()


def lifetimes(store: LogStore, chain: Chain, keys: Collection[str]) -> dict[str, tuple[Range, ...]]:
    """Return the versions of a chain that contain each file in `keys` (`file_key`), without files that are in none.

    Raises the errors of `counts_by_version`.
    """
    first, last = chain.versions
    first_versions: dict[str, int] = {}
    ranges_by_key: dict[str, list[Range]] = {}
    if chain.start is not None:
        first_versions = dict.fromkeys(
            _present_keys(key_column(_files(store, chain.start.version, chain)), keys), first
        )
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


def _files(store: LogStore, version: int, part: Chain | Span) -> pa.Table:
    """Return the files of the checkpoint at the start of a chain or a span."""
    return replay(store, LogSegment(version=version, checkpoint=part.start, entries=())).files(_COLUMNS)


def _state_at_start(store: LogStore, span: Span, touched: Collection[str]) -> tuple[_Sums, dict[str, _File]]:
    """Return the sums of a span's checkpoint, and those of its files that later commits touch."""
    if span.start is None:
        return _Sums(), {}
    files = _files(store, span.start.version, span)
    vectors = files["deletionVector"]
    sums = _Sums(
        files=files.num_rows,
        size_bytes=bytes_of(files),
        vectors=len(vectors) - vectors.null_count,
        deleted_records=deleted_rows_of(files),
    )
    keys = key_column(files)
    mask = pc.is_in(keys, value_set=pa.array(list(touched), pa.string()))
    rows = files.select(["size", "deletionVector"]).filter(mask).to_pylist()
    present = {
        key: _file(row["size"], row["deletionVector"])
        for key, row in zip(keys.filter(mask).to_pylist(), rows, strict=True)
    }
    return sums, present


def _changed_files(store: LogStore, commit: StoredFile) -> tuple[dict[str, _File], set[str]]:
    """Return the files that a commit adds and removes. A file in both stays, because removes apply first."""
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


def _present_keys(keys: pa.ChunkedArray, requested: Iterable[str]) -> list[str]:
    present: list[str] = keys.filter(pc.is_in(keys, value_set=pa.array(list(requested), pa.string()))).to_pylist()
    return present

"""The changes of one commit, as files to read: the rules of the change data feed, without I/O.

1. A commit with `cdc` actions: only these files count, and each of their rows has its change type.
2. A MERGE whose metrics report no inserted, updated or deleted row: no change, even if it rewrote files.
3. Otherwise adds with `dataChange` are inserted rows, and removes with `dataChange` are deleted rows. Other actions are
   no changes.
4. One path both added and removed: the file stays and its deletion vector changes. Rows only in the new vector were
   deleted; rows only in the old vector were restored.

Actions are processed one by one, and only the fields that identify rows are kept, so a large commit needs little more
memory than its list of files. Protocol: Change Data Files, Add CDC File; delta-spark's `CDCReader`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from deltalite.errors import CorruptLogError
from deltalite.log.file_table import deletion_vector_id
from deltalite.protocol.actions import AddCDCFile, AddFile, CommitInfo, Metadata, Protocol, RemoveFile, from_json
from deltalite.protocol.paths import canonical_path

_CHANGED_ROW_METRICS = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")


class ChangeType(StrEnum):
    """The change type of all rows of a file. Each row of a `cdc` file has a change type."""

    INSERT = "insert"
    DELETE = "delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFile:
    """Rows of one file that a version changed.

    - `change_type`: None if the file has a column `_change_type`.
    - `path`: the path as in the log.
    - `partition_values`: None if a remove lacks them.
    - `only`: a deletion vector with the only rows to read; None means all rows.
    - `deletion_vector`: the rows to leave out.
    """

    version: int
    timestamp_ms: int
    change_type: ChangeType | None
    path: str
    partition_values: Mapping[str, str | None] | None
    size_bytes: int | None
    deletion_vector: Mapping[str, Any] | None = None
    only: Mapping[str, Any] | None = None


class _File(NamedTuple):
    """The fields of an action that identify its rows; a tuple to save memory, because a commit may have a million."""

    path: str
    partition_values: Mapping[str, str | None] | None
    size_bytes: int | None
    deletion_vector: Mapping[str, Any] | None


class CommitChanges:
    """The changes of one commit: its first protocol, metadata and provenance, and its changed files.

    Call `take` for all of its actions first. `source` names the commit in errors.
    """

    def __init__(self, source: str) -> None:
        self.protocol: Protocol | None = None
        self.metadata: Metadata | None = None
        self.provenance: Mapping[str, Any] | None = None
        self._source = source
        self._is_idle = False
        self._recorded: list[_File] = []
        self._adds: dict[str, _File] = {}
        self._removes: dict[str, _File] = {}
        self._values: dict[tuple[tuple[str, str | None], ...], Mapping[str, str | None]] = {}

    def take(self, kind: str, body: dict[str, Any]) -> None:
        """Record an action. Raises `CorruptLogError` if a relevant action is malformed."""
        match kind:
            case AddFile.action:
                self._take_data_file(AddFile, body, self._adds)
            case RemoveFile.action:
                self._take_data_file(RemoveFile, body, self._removes)
            case AddCDCFile.action:
                self._recorded.append(self._file(AddCDCFile, body))
                self._adds.clear()
                self._removes.clear()
            case CommitInfo.action:
                self.provenance = body if self.provenance is None else self.provenance
                self._is_idle = self._is_idle or _is_idle_merge(body)
            case Protocol.action:
                self.protocol = self.protocol or from_json(Protocol, body, self._source)
            case Metadata.action:
                self.metadata = self.metadata or from_json(Metadata, body, self._source)
            case _:
                pass  # transactions, domains and unknown kinds change no rows

    def files(self, *, version: int, timestamp_ms: int) -> Iterator[ChangedFile]:
        """Yield the files with the rows that the commit changed, deleted rows before inserted ones.

        Raises:
            CorruptLogError: the commit adds and removes one file with one deletion vector.
        """
        if self._recorded:
            for cdc in self._recorded:
                yield _changed_file(cdc, None, version, timestamp_ms)
            return
        if self._is_idle:
            return
        for path, remove in self._removes.items():
            if path not in self._adds:
                yield _changed_file(remove, ChangeType.DELETE, version, timestamp_ms, masked=remove.deletion_vector)
        for path, add in self._adds.items():
            if path not in self._removes:
                yield _changed_file(add, ChangeType.INSERT, version, timestamp_ms, masked=add.deletion_vector)
            else:
                yield from _changed_vector(add, self._removes[path].deletion_vector, version, timestamp_ms)

    def _take_data_file(self, cls: type[AddFile | RemoveFile], body: dict[str, Any], files: dict[str, _File]) -> None:
        if self._recorded or self._is_idle or body.get("dataChange") is False:
            return
        file = self._file(cls, body)
        files[canonical_path(file.path)] = file

    def _file(self, cls: type[AddFile | RemoveFile | AddCDCFile], body: dict[str, Any]) -> _File:
        path, values, size_bytes = body.get("path"), body.get("partitionValues"), body.get("size")
        vector = body.get("deletionVector")
        is_complete = (
            type(path) is str
            and type(body.get("dataChange")) is bool
            and type(size_bytes) is int
            and type(values) is dict
            and all(value is None or type(value) is str for value in values.values())
            and (vector is None or type(vector) is dict)
        )
        if not is_complete:  # a remove may lack fields; for other actions this raises the specific error
            from_json(cls, body, self._source)
        if values is not None:  # many files of a commit have the same values, so they share one object
            values = self._values.setdefault(tuple(values.items()), values)
        return _File(body["path"], values, size_bytes, vector)


def _changed_vector(
    add: _File, old: Mapping[str, Any] | None, version: int, timestamp_ms: int
) -> Iterator[ChangedFile]:
    """Yield the rows that differ between two deletion vectors of one file."""
    new = add.deletion_vector
    if _vector_id(old) == _vector_id(new):
        raise CorruptLogError(
            f"Version {version} adds and removes the file '{add.path}' with one deletion vector.",
            remedy="Request changes from another version, or repair the log with the engine that wrote it.",
        )
    if new is not None:
        yield _changed_file(add, ChangeType.DELETE, version, timestamp_ms, masked=old, only=new)
    if old is not None:
        yield _changed_file(add, ChangeType.INSERT, version, timestamp_ms, masked=new, only=old)


def _vector_id(vector: Mapping[str, Any] | None) -> str | None:
    return None if vector is None else deletion_vector_id(vector)


def _changed_file(
    file: _File,
    change_type: ChangeType | None,
    version: int,
    timestamp_ms: int,
    *,
    masked: Mapping[str, Any] | None = None,
    only: Mapping[str, Any] | None = None,
) -> ChangedFile:
    return ChangedFile(
        version=version,
        timestamp_ms=timestamp_ms,
        change_type=change_type,
        path=file.path,
        partition_values=file.partition_values,
        size_bytes=file.size_bytes,
        deletion_vector=masked,
        only=only,
    )


def _is_idle_merge(info: Mapping[str, Any]) -> bool:
    """Whether a MERGE reports that it changed no row; False if a metric is missing."""
    metrics = info.get("operationMetrics")
    if info.get("operation") != "MERGE" or not isinstance(metrics, Mapping):
        return False
    return all(str(metrics.get(name)) == "0" for name in _CHANGED_ROW_METRICS)

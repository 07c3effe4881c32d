"""The changes of one commit, as files to read: the rules of the change data feed, without I/O.

1. If the commit has `cdc` actions, only their files are read. Each row of these files names its change type.
2. If the metrics of a MERGE report no changed row, the commit changes no row, even if it rewrote files.
3. Otherwise adds with `dataChange` are inserted rows, and removes with `dataChange` are deleted rows. Other actions
   change no rows.
4. An add and a remove of the same path are an exception to rule 3: the file stays, and its deletion vector changes.
   Rows that only the new vector contains were deleted. Rows that only the old vector contains were restored.

`CommitChanges` keeps only the fields that identify rows, so a large commit needs little more memory than its list of
files. Protocol: Change Data Files, Add CDC File; delta-spark's `CDCReader`.
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
    """The change type of all rows of a file. A `cdc` file has none, because its rows have different change types."""

    INSERT = "insert"
    DELETE = "delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFile:
    """Rows of one file that a version changed.

    - `change_type`: None if the file has a column `_change_type`.
    - `path`: the path as in the log.
    - `partition_values`: None if a remove lacks them.
    - `only_rows_vector`: the descriptor of a deletion vector. Only its rows are read; None means all rows.
    - `deletion_vector`: the descriptor of a deletion vector. Its rows are left out; None leaves out no row.
    """

    version: int
    timestamp_ms: int
    change_type: ChangeType | None
    path: str
    partition_values: Mapping[str, str | None] | None
    size_bytes: int | None
    deletion_vector: Mapping[str, Any] | None = None
    only_rows_vector: Mapping[str, Any] | None = None


class _File(NamedTuple):
    """The fields of an action that identify its rows. A tuple saves memory: a commit may have a million files."""

    path: str
    partition_values: Mapping[str, str | None] | None
    size_bytes: int | None
    deletion_vector: Mapping[str, Any] | None


class CommitChanges:
    """The changes of one commit: its first protocol, metadata and provenance, and its changed files.

    Call `take` for each action of the commit first. `source` names the commit in errors. With `ignores_change_files`,
    `cdc` actions do not count, so that the data files show whether the commit only appended rows.
    """

    def __init__(self, source: str, *, ignores_change_files: bool = False) -> None:
        self.protocol: Protocol | None = None
        self.metadata: Metadata | None = None
        self.provenance: Mapping[str, Any] | None = None
        self._source = source
        self._ignores_change_files = ignores_change_files
        self._is_merge_without_changes = False
        self._cdc_files: list[_File] = []
        self._adds: dict[str, _File] = {}
        self._removes: dict[str, _File] = {}
        self._shared_values: dict[tuple[tuple[str, str | None], ...], Mapping[str, str | None]] = {}

    def take(self, kind: str, body: dict[str, Any]) -> None:
        """Record an action.

        Raises:
            CorruptLogError: a relevant action is malformed.
        """
        match kind:
            case AddFile.action:
                self._take_data_file(AddFile, body, self._adds)
            case RemoveFile.action:
                self._take_data_file(RemoveFile, body, self._removes)
            case AddCDCFile.action if not self._ignores_change_files:
                self._cdc_files.append(self._file(AddCDCFile, body))
                self._adds.clear()
                self._removes.clear()
            case CommitInfo.action:
                self.provenance = body if self.provenance is None else self.provenance
                self._is_merge_without_changes = self._is_merge_without_changes or _is_merge_without_changes(body)
            case Protocol.action:
                self.protocol = self.protocol or from_json(Protocol, body, self._source)
            case Metadata.action:
                self.metadata = self.metadata or from_json(Metadata, body, self._source)
            case _:
                pass  # transactions, domains and unknown kinds change no rows

    @property
    def only_appends(self) -> bool:
        """Whether the commit removes no row and brings none back. Requires `ignores_change_files`.

        A restore brings back rows of an older version, even if it only adds files.
        """
        if self._is_merge_without_changes or not (self._adds or self._removes):
            return True
        return not self._removes and (self.provenance or {}).get("operation") != "RESTORE"

    def files(self, *, version: int, timestamp_ms: int) -> Iterator[ChangedFile]:
        """Yield the files with the rows that the commit changed. Files that the commit only removes come first.

        Raises:
            CorruptLogError: the commit removes a file and adds it again without a change of its deletion vector.
        """
        if self._cdc_files:
            for cdc_file in self._cdc_files:
                yield _changed_file(cdc_file, None, version, timestamp_ms)
            return
        if self._is_merge_without_changes:
            return
        for path, remove in self._removes.items():
            if path not in self._adds:
                yield _changed_file(
                    remove, ChangeType.DELETE, version, timestamp_ms, excluded_rows_vector=remove.deletion_vector
                )
        for path, add in self._adds.items():
            if path not in self._removes:
                yield _changed_file(
                    add, ChangeType.INSERT, version, timestamp_ms, excluded_rows_vector=add.deletion_vector
                )
            else:
                yield from _vector_changes(add, self._removes[path].deletion_vector, version, timestamp_ms)

    def _take_data_file(self, cls: type[AddFile | RemoveFile], body: dict[str, Any], files: dict[str, _File]) -> None:
        if self._cdc_files or self._is_merge_without_changes or body.get("dataChange") is False:
            return
        file = self._file(cls, body)
        files[canonical_path(file.path)] = file

    def _file(self, cls: type[AddFile | RemoveFile | AddCDCFile], body: dict[str, Any]) -> _File:
        """Return the file of an action. Raises `CorruptLogError` if the action is malformed."""
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
        if not is_complete:  # a remove may lack fields; `from_json` rejects other incomplete actions
            from_json(cls, body, self._source)
        if values is not None:  # many files of a commit have the same values, so they share one object
            values = self._shared_values.setdefault(tuple(values.items()), values)
        return _File(body["path"], values, size_bytes, vector)


def _vector_changes(
    add: _File, old_vector: Mapping[str, Any] | None, version: int, timestamp_ms: int
) -> Iterator[ChangedFile]:
    """Yield the rows that differ between the old and the new deletion vector of one file."""
    new_vector = add.deletion_vector
    if _vector_id(old_vector) == _vector_id(new_vector):
        raise CorruptLogError(
            f"Version {version} removes and adds the file '{add.path}' without a change of its deletion vector.",
            remedy="Request changes from another version, or repair the log with the engine that wrote it.",
        )
    if new_vector is not None:
        yield _changed_file(
            add, ChangeType.DELETE, version, timestamp_ms, excluded_rows_vector=old_vector, only_rows_vector=new_vector
        )
    if old_vector is not None:
        yield _changed_file(
            add, ChangeType.INSERT, version, timestamp_ms, excluded_rows_vector=new_vector, only_rows_vector=old_vector
        )


def _vector_id(vector: Mapping[str, Any] | None) -> str | None:
    return None if vector is None else deletion_vector_id(vector)


def _changed_file(
    file: _File,
    change_type: ChangeType | None,
    version: int,
    timestamp_ms: int,
    *,
    excluded_rows_vector: Mapping[str, Any] | None = None,
    only_rows_vector: Mapping[str, Any] | None = None,
) -> ChangedFile:
    return ChangedFile(
        version=version,
        timestamp_ms=timestamp_ms,
        change_type=change_type,
        path=file.path,
        partition_values=file.partition_values,
        size_bytes=file.size_bytes,
        deletion_vector=excluded_rows_vector,
        only_rows_vector=only_rows_vector,
    )


def _is_merge_without_changes(info: Mapping[str, Any]) -> bool:
    """Whether a MERGE reports that it changed no row; False if a metric is missing."""
    metrics = info.get("operationMetrics")
    if info.get("operation") != "MERGE" or not isinstance(metrics, Mapping):
        return False
    return all(str(metrics.get(name)) == "0" for name in _CHANGED_ROW_METRICS)

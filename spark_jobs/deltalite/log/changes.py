"""What one commit changed, as files to read: the decisions of the change data feed, on values.

1. A commit with `cdc` actions: those files are the whole truth, and each of their rows says how it changed.
2. A MERGE that says it inserted, updated and deleted nothing: no change, though it may have rewritten files.
3. Else adds with `dataChange` are inserted rows, removes with `dataChange` are deleted rows; others are no changes.
4. One path added and removed: the file stays and its deletion vector changes. Rows that only the new vector marks were
   deleted, rows that only the old one marks came back.

Protocol: Change Data Files, Add CDC File; delta-spark's `CDCReader`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from deltalite.errors import CorruptLogError
from deltalite.log.file_table import deletion_vector_id
from deltalite.protocol.actions import Action, AddCDCFile, AddFile, CommitInfo, RemoveFile
from deltalite.protocol.paths import canonical_path

_NO_CHANGES = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")


class ChangeType(StrEnum):
    """How all rows of a file changed. Rows of `cdc` files say it themselves."""

    INSERT = "insert"
    DELETE = "delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFile:
    """Rows of one file that a version changed.

    `change_type` is None where the file has a column `_change_type`. `path` is as in the log. `partition_values` is
    None where a remove does not say. `only` describes the only rows to read (all where None), from which those that
    `deletion_vector` describes are left out.
    """

    version: int
    timestamp_ms: int
    change_type: ChangeType | None
    path: str
    partition_values: Mapping[str, str | None] | None
    size_bytes: int | None
    deletion_vector: Mapping[str, Any] | None = None
    only: Mapping[str, Any] | None = None


def changed_files(actions: Sequence[Action], *, version: int, timestamp_ms: int) -> Iterator[ChangedFile]:
    """The files that hold the rows which a commit changed, deleted rows before inserted ones.

    Raises:
        CorruptLogError: the commit adds and removes one file with one deletion vector.
    """
    recorded = [action for action in actions if isinstance(action, AddCDCFile)]
    if recorded:
        for cdc in recorded:
            yield _changed(cdc, None, version, timestamp_ms)
        return
    if any(isinstance(action, CommitInfo) and _is_idle_merge(action.values) for action in actions):
        return
    adds = {canonical_path(a.path): a for a in actions if isinstance(a, AddFile) and a.data_change}
    removes = {canonical_path(r.path): r for r in actions if isinstance(r, RemoveFile) and r.data_change}
    for path, remove in removes.items():
        if path not in adds:
            yield _changed(remove, ChangeType.DELETE, version, timestamp_ms, masked=remove.deletion_vector)
    for path, add in adds.items():
        if path not in removes:
            yield _changed(add, ChangeType.INSERT, version, timestamp_ms, masked=add.deletion_vector)
        else:
            yield from _changed_vector(add, removes[path].deletion_vector, version, timestamp_ms)


def _changed_vector(
    add: AddFile, old: Mapping[str, Any] | None, version: int, timestamp_ms: int
) -> Iterator[ChangedFile]:
    """The rows that two deletion vectors of one file tell apart."""
    new = add.deletion_vector
    if _id_of(old) == _id_of(new):
        raise CorruptLogError(
            f"Version {version} adds and removes the file '{add.path}' with one deletion vector.",
            remedy="Ask for changes from another version, or repair the log with the engine that wrote it.",
        )
    if new is not None:
        yield _changed(add, ChangeType.DELETE, version, timestamp_ms, masked=old, only=new)
    if old is not None:
        yield _changed(add, ChangeType.INSERT, version, timestamp_ms, masked=new, only=old)


def _id_of(vector: Mapping[str, Any] | None) -> str | None:
    return None if vector is None else deletion_vector_id(vector)


def _changed(
    file: AddFile | RemoveFile | AddCDCFile,
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
    """Whether a MERGE says that it changed no row. Where a count is missing, nothing is known."""
    metrics = info.get("operationMetrics")
    if info.get("operation") != "MERGE" or not isinstance(metrics, Mapping):
        return False
    return all(str(metrics.get(name)) == "0" for name in _NO_CHANGES)

"""The differences between a version and the previous version, as bounded values for a report.

`diff` holds tables of files. This module keeps counts and the first paths, so that a process can cache the result. A
version never changes, so the result does not either.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from deltalite.errors import VersionGapError, VersionNotFoundError
from deltalite.inspection.commit_entries import CommitEntry, entry_of_version
from deltalite.inspection.diff import Change, diff
from deltalite.inspection.shown_texts import shown_text
from deltalite.log.file_table import bytes_of
from deltalite.protocol.paths import decode_path
from deltalite.snapshot import Snapshot
from deltalite.storage.log_store import LogStore

MAX_PATHS = 50
_MAX_CHANGES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownChange:
    """A difference in the schema, the properties, the protocol or the metadata, as texts."""

    kind: str
    subject: str
    aspect: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionChanges:
    """The differences between a version and the previous version.

    - `before`: the previous version; None for version 0, or if the log cannot rebuild the previous version. The object
      then has the commit and the state of the version only.
    - `added_paths`, `removed_paths`: the first `MAX_PATHS` paths of files that only one version has.
    - `rows_before`, `rows_after`: None if a file has no statistics.
    """

    before: int | None
    commit: CommitEntry | None
    files_added: int
    files_removed: int
    files_kept: int
    vectors_changed: int
    bytes_added: int
    bytes_removed: int
    rows_before: int | None
    rows_after: int | None
    total_files: int
    total_bytes: int
    added_paths: tuple[str, ...]
    removed_paths: tuple[str, ...]
    schema: tuple[ShownChange, ...]
    properties: tuple[ShownChange, ...]
    protocol: tuple[ShownChange, ...]
    metadata: tuple[ShownChange, ...]


def read_version_changes(store: LogStore, version: int) -> VersionChanges:
    """Read a version and the previous version, and compare them.

    Raises:
        DeltaLiteError: the version does not exist, or cannot be read.
    """
    after = Snapshot.load(store, version)
    try:
        before = Snapshot.load(store, version - 1) if version > 0 else None
    except (VersionNotFoundError, VersionGapError):
        before = None
    table_diff = diff(after if before is None else before, after)
    files = table_diff.files
    return VersionChanges(
        before=None if before is None else before.version,
        commit=entry_of_version(store, after),
        files_added=files.added.num_rows,
        files_removed=files.removed.num_rows,
        files_kept=files.kept,
        vectors_changed=files.vectors_changed,
        bytes_added=files.added_bytes,
        bytes_removed=files.removed_bytes,
        rows_before=None if before is None else table_diff.rows.before,
        rows_after=table_diff.rows.after,
        total_files=after.files.num_rows,
        total_bytes=bytes_of(after.files),
        added_paths=_first_paths(files.added),
        removed_paths=_first_paths(files.removed),
        schema=_shown_changes(table_diff.schema),
        properties=_shown_changes(table_diff.properties),
        protocol=_shown_changes(table_diff.protocol),
        metadata=_shown_changes(table_diff.metadata),
    )


def _first_paths(files: pa.Table) -> tuple[str, ...]:
    """Return the first paths, decoded."""
    return tuple(sorted(shown_text(decode_path(path)) for path in files["path"].slice(0, MAX_PATHS).to_pylist()))


def _shown_changes(changes: tuple[Change, ...]) -> tuple[ShownChange, ...]:
    return tuple(
        ShownChange(
            kind=change.kind.value,
            subject=shown_text(change.subject),
            aspect=change.aspect or "",
            before=shown_text(change.before, name=change.subject),
            after=shown_text(change.after, name=change.subject),
        )
        for change in changes[:_MAX_CHANGES]
    )

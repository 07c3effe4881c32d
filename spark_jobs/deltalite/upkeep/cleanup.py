"""Log cleanup: deletes log files that no readable version needs and that are older than the retention.

1. The cutoff is midnight (UTC) of the day `delta.logRetentionDuration` ago.
2. The newest version at or before the cutoff, and all later versions, stay readable. Cleanup reads the first of these
   versions. It keeps the checkpoint that this version is built from, the commit of the checkpoint's version, and all
   later files. Without a checkpoint, cleanup deletes no log file.
3. Cleanup points `_last_checkpoint` at the kept checkpoint before it deletes, unless `_last_checkpoint` names a newer
   one.
4. It deletes files in the order of their versions, so the remaining versions have no gap after a kill. It deletes a
   commit before the checkpoint of its version.
5. It deletes no log file if checkpoint protection forbids the deletion (`checkpoint_protection`).
6. It deletes a sidecar if no remaining checkpoint names it and it was written before yesterday (UTC). The checkpoint of
   a younger sidecar may still be in progress, because a writer publishes the sidecars first.
7. It deletes temporary files of killed writers that were written before the cutoff and before yesterday (UTC).

Protocol: Metadata Cleanup, Handling Backward compatibility while moving to UUID-named v2 Checkpoints.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile

from deltalite.errors import CorruptCheckpointError, UnsupportedFeatureError
from deltalite.log.checkpoint_reader import sidecar_names
from deltalite.log.commit_times import Timeline, in_commit_settings
from deltalite.log.listing import CheckpointFiles, CheckpointKind, list_log
from deltalite.log.segment import find_segment
from deltalite.protocol import properties as props
from deltalite.protocol.file_names import (
    LOG_DIR,
    SIDECAR_DIR,
    LogFileKind,
    checkpoint_name,
    first_name_of,
    parse_log_name,
)
from deltalite.snapshot import Snapshot
from deltalite.storage.log_store import LogStore, StoredFile
from deltalite.upkeep.checkpoint import record_existing_checkpoint
from deltalite.upkeep.checkpoint_protection import protected_before, supports_each_version

# The names of incomplete files of this library and of Delta's Hadoop stores, such as
# `.00000000000000000010.json.80a083e8-7026-4e79-81be-64bd76c43a11.tmp`. On local disks, Hadoop keeps the checksum of
# such a file in `..<name>.crc`.
_TEMPORARY_NAME_PATTERN = re.compile(r"\.{1,2}[^.].*\.[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\.tmp(?:\.crc)?")
# Within a version, cleanup deletes the commit, then the checkpoint, and the checksum last. After a cleanup that
# was killed, the next cleanup reads the protocol of the version from the checksum.
_DELETION_ORDER = {
    LogFileKind.CLASSIC_CHECKPOINT: 1,
    LogFileKind.MULTI_PART_CHECKPOINT: 1,
    LogFileKind.UUID_CHECKPOINT: 1,
    LogFileKind.CHECKSUM: 2,
}
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupResult:
    """The numbers of files that a cleanup deleted: log files, sidecars, and temporary files of killed writers."""

    log_files: int = 0
    sidecars: int = 0
    temporary_files: int = 0


def clean_log(snapshot: Snapshot, *, now_ms: int, at_most: int | None = None) -> CleanupResult:
    """Delete the expired log files of a table; `snapshot` is its newest known version.

    It deletes at most `at_most` log files, the oldest first. If no expired log file remains, it deletes sidecars. It
    ignores `at_most` if checkpoint protection requires the deletion of all protected history at once.

    Raises:
        DeltaLiteError: the log cannot be read, or a file cannot be deleted. The remaining log is valid.
    """
    store = snapshot.store
    temporary_files = _delete_temporary_files(
        store, min(_cutoff_ms(snapshot, now_ms), _midnight(now_ms - props.DAY_MS))
    )
    base_and_expired = _find_expired(snapshot, now_ms)
    if base_and_expired is None:
        return CleanupResult(temporary_files=temporary_files)
    base, expired = base_and_expired
    protection_version = protected_before(snapshot.protocol, snapshot.configuration)
    if not supports_each_version(store, _protected_versions(base, expired, protection_version)):
        if base.version < protection_version:
            _log.info(
                "Keeping the log of %s: checkpoints before version %s are protected, and at least one of these "
                "versions has no valid checksum, or a protocol that this release does not support.",
                store.root,
                protection_version,
            )
            return CleanupResult(temporary_files=temporary_files)
        at_most = None  # All protected history must be deleted at once.
    record_existing_checkpoint(store, base)
    _ensure_classic_checkpoint(store, base)
    for name in expired[:at_most]:
        store.delete(name)
    if at_most is not None and len(expired) > at_most:
        return CleanupResult(log_files=at_most, temporary_files=temporary_files)
    sidecars = _delete_sidecars(store, _midnight(now_ms - props.DAY_MS))
    return CleanupResult(log_files=len(expired), sidecars=sidecars, temporary_files=temporary_files)


def expired_names(names: Iterable[str], base_version: int) -> list[str]:
    """Return the log files that are unnecessary if `base_version` has a checkpoint, in the order of deletion.

    After the deletion, the versions before `base_version` are unreadable.

    The commit of `base_version` is not included, because it holds the provenance of the version. A compaction that
    begins at or before `base_version` is included, because no remaining version can use it.
    """
    expired = []
    for name in names:
        log_name = parse_log_name(name)
        if log_name is None:
            continue
        last_version = base_version if log_name.kind is LogFileKind.COMPACTION else base_version - 1
        if log_name.version <= last_version:
            expired.append((log_name.version, _DELETION_ORDER.get(log_name.kind, 0), name))
    return [name for _version, _order, name in sorted(expired)]


def _protected_versions(base: CheckpointFiles, expired: Iterable[str], protection_version: int) -> set[int]:
    """Return the versions of the expired files, and that of `base`, if they are before `protection_version`."""
    log_names = [parse_log_name(name) for name in expired]
    versions = {log_name.version for log_name in log_names if log_name is not None} | {base.version}
    return {version for version in versions if version < protection_version}


def _find_expired(snapshot: Snapshot, now_ms: int) -> tuple[CheckpointFiles, list[str]] | None:
    """Return the checkpoint to keep and the names of the expired files.

    None if no file has expired, if no checkpoint replaces the expired files, or if this release cannot read the version
    that would become the oldest.
    """
    store = snapshot.store
    timeline = Timeline(store, in_commit_settings(snapshot.protocol, snapshot.metadata))
    cutoff_commit = timeline.newest_at(_cutoff_ms(snapshot, now_ms))
    if cutoff_commit is None:
        return None
    names = [file.name for file in store.list_from(first_name_of(0))]
    checkpoint = find_segment(store, cutoff_commit.version).checkpoint
    if checkpoint is None or not expired_names(names, checkpoint.version):
        return None
    try:
        oldest_readable = Snapshot.load(store, cutoff_commit.version)
    except UnsupportedFeatureError as error:
        _log.info(
            "Keeping the log of %s, because version %s is unreadable: %s",
            store.root,
            cutoff_commit.version,
            error.problem,
        )
        return None
    # Reading the files also removes an unreadable checkpoint from the segment.
    oldest_readable.files_with(["path"])
    base = oldest_readable.segment.checkpoint
    expired = [] if base is None else expired_names(names, base.version)
    return (base, expired) if base is not None and expired else None


def _ensure_classic_checkpoint(store: LogStore, base: CheckpointFiles) -> None:
    """Ensure that a checkpoint with a classic name remains.

    Old readers know only classic names, and learn from the checkpoint that they do not support the table's protocol.
    Only a Parquet main file can be copied to that name.
    """
    checkpoints = list_log(store, base.version).checkpoints
    has_classic = any(checkpoint.kind is not CheckpointKind.UUID_NAMED for checkpoint in checkpoints)
    if has_classic or not base.names[0].endswith(".parquet"):
        return
    data = store.read(base.names[0])
    if data is not None:
        store.write_if_absent(checkpoint_name(base.version), data)


def _delete_sidecars(store: LogStore, before_ms: int) -> int:
    """Delete the sidecars that no checkpoint names, if they were written before `before_ms`; return their number.

    If a checkpoint is unreadable, the function deletes no sidecar.
    """
    old_sidecars = [sidecar for sidecar in store.list_from(f"{SIDECAR_DIR}/") if sidecar.modified_ms < before_ms]
    if not old_sidecars:
        return 0
    try:
        referenced_names = {
            name for checkpoint in list_log(store, 0).checkpoints for name in sidecar_names(store, checkpoint)
        }
    except CorruptCheckpointError as error:
        _log.warning("Keeping all sidecars of %s: %s", store.root, error.problem)
        return 0
    unreferenced = [sidecar.name for sidecar in old_sidecars if sidecar.name not in referenced_names]
    for name in unreferenced:
        store.delete(name)
    return len(unreferenced)


def _delete_temporary_files(store: LogStore, before_ms: int) -> int:
    """Delete the temporary log files last written before a time (milliseconds UTC), and return their number."""
    old_names = [
        file.name
        for folder in (LOG_DIR, SIDECAR_DIR)
        for file in _dot_files(store, folder)
        if file.modified_ms < before_ms and _TEMPORARY_NAME_PATTERN.fullmatch(file.name.rpartition("/")[2])
    ]
    for name in old_names:
        store.delete(name)
    return len(old_names)


def _dot_files(store: LogStore, folder: str) -> Iterator[StoredFile]:
    """Yield the files of a folder whose names begin with a dot."""
    prefix = f"{folder}/."
    return takewhile(lambda file: file.name.startswith(prefix), store.list_from(prefix))


def _cutoff_ms(snapshot: Snapshot, now_ms: int) -> int:
    """Return the time before which commits have expired by the table's log retention."""
    return _midnight(now_ms - props.LOG_RETENTION_MS.of(snapshot.configuration))


def _midnight(moment_ms: int) -> int:
    """Return the start of the day (UTC) of a time."""
    return moment_ms - moment_ms % props.DAY_MS

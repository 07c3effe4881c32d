"""The upkeep of the record of loaded files: a check that no engine has removed it, and the deletion of old files.

The deletion removes manifests and segments that no readable version names:

1. A manifest is needed if a readable version names it, or if it is younger than the retention. A restore can make any
   of the named manifests current again.
2. A segment is needed if a needed manifest lists it, or if it is younger than the retention.
3. The manifest with the highest number always stays, so that no number is used twice.
4. Manifests are deleted before segments. So each remaining manifest has its segments after a kill.

The retention is the longer of `delta.logRetentionDuration` and `delta.deletedFileRetentionDuration`. The deletion
assumes that a run older than the retention does not commit any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from deltalite.errors import CorruptLogError
from deltalite.loaded_files.manifest import current_manifest_number, manifest_number, read_manifest
from deltalite.loaded_files.segment import is_segment
from deltalite.log.action_files import actions_in, read_blocks
from deltalite.log.listing import list_log
from deltalite.protocol import properties as props
from deltalite.protocol.actions import LOADED_FILES_APP_ID, NOTHING_LOADED, SetTransaction
from deltalite.protocol.file_names import LOADED_FILES_DIR
from deltalite.snapshot import Snapshot
from deltalite.storage.log_store import LogStore, StoredFile

_APP_ID_BYTES = LOADED_FILES_APP_ID.encode()


def check_record_not_lost(snapshot: Snapshot) -> None:
    """Check that a table without a record of loaded files never had one, as far as its log goes back.

    A transaction names the manifest of a version. An engine removes the transaction if the table had
    `delta.setTransactionRetentionDuration` for a while. The table would then load every file again. If the table has
    the transaction, or no manifest, the check reads at most the listing of a folder.

    Raises:
        CorruptLogError: an earlier version in the log names a manifest, and the newest version names none.
        StorageError: the storage does not answer.
    """
    if LOADED_FILES_APP_ID in snapshot.transactions:
        return
    store = snapshot.store
    if all(manifest_number(file.name) is None for file in store.list_from(f"{LOADED_FILES_DIR}/")):
        return
    versions = [version for version, number in _named_manifests(snapshot) if number != NOTHING_LOADED]
    if versions:
        newest = max(versions)
        raise CorruptLogError(
            f"Could not load files into {store.root}: version {newest} has a record of loaded files, and version "
            f"{snapshot.version} has none. An engine has removed the transaction {LOADED_FILES_APP_ID}, so the table "
            "would load all files again.",
            remedy=f"Restore version {newest} with DeltaRestoreOperator, which also restores the record. Then load the "
            "files of later versions again.",
        )


def delete_unneeded_records(store: LogStore, *, now_ms: int) -> int:
    """Delete the manifests and segments that no readable version needs, and return their number.

    If the table has no record of loaded files, read nothing but the listing of its folder.

    Args:
        store: the store of the table.
        now_ms: the current time, milliseconds UTC.

    Raises:
        TableNotFoundError: there is no table any more.
        CorruptLogError, UnsupportedFeatureError: the log or a needed manifest cannot be read. Nothing was deleted.
        StorageError, StoragePermissionError: the storage does not answer, or a file cannot be deleted.
    """
    record_files = list(store.list_from(f"{LOADED_FILES_DIR}/"))
    if not record_files:
        return 0
    snapshot = Snapshot.load(store)
    cutoff_ms = now_ms - _retention_ms(snapshot.configuration)
    old_files = [file for file in record_files if file.modified_ms < cutoff_ms]
    if not old_files:
        return 0
    manifests = {number: file for file in record_files if (number := manifest_number(file.name)) is not None}
    needed_numbers = _numbers_of_readable_versions(snapshot) | _young_numbers(manifests, cutoff_ms)
    needed_numbers.add(max(manifests, default=NOTHING_LOADED))
    needed_segments = {
        segment.name for number in needed_numbers & set(manifests) for segment in read_manifest(store, number).segments
    }
    unneeded = [file.name for number, file in sorted(manifests.items()) if number not in needed_numbers]
    unneeded += [file.name for file in old_files if is_segment(file.name) and file.name not in needed_segments]
    for name in unneeded:
        store.delete(name)
    return len(unneeded)


def _young_numbers(manifests: Mapping[int, StoredFile], cutoff_ms: int) -> set[int]:
    return {number for number, file in manifests.items() if file.modified_ms >= cutoff_ms}


def _numbers_of_readable_versions(snapshot: Snapshot) -> set[int]:
    """Return the numbers of the manifests that any version in the log names."""
    return {current_manifest_number(snapshot.transactions), *(number for _, number in _named_manifests(snapshot))}


def _named_manifests(snapshot: Snapshot) -> Iterator[tuple[int, int]]:
    """Yield versions and the numbers of their manifests: of the oldest checkpoint, and of each commit that sets one."""
    listing = list_log(snapshot.store, 0)
    if listing.checkpoints:  # the commits name the manifests of all later versions
        oldest_version = min(checkpoint.version for checkpoint in listing.checkpoints)
        yield oldest_version, current_manifest_number(Snapshot.load(snapshot.store, oldest_version).transactions)
    for version, commit in listing.commits.items():
        for block in read_blocks(snapshot.store, commit.name, commit.size_bytes):
            if _APP_ID_BYTES in block:
                transactions = (body for kind, body in actions_in(block, commit.name) if kind == SetTransaction.action)
                yield from (
                    (version, txn["version"]) for txn in transactions if txn.get("appId") == LOADED_FILES_APP_ID
                )


def _retention_ms(configuration: Mapping[str, str]) -> int:
    return max(props.LOG_RETENTION_MS.of(configuration), props.DELETED_FILE_RETENTION_MS.of(configuration))

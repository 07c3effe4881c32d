"""Upkeep after a commit: version checksum, symlink manifests, checkpoint, log cleanup and log compaction.

The commit has succeeded, so an error here must not fail the task. If a step fails, a warning is logged and the other
steps still run. The upkeep after a later commit writes its own checksum, checkpoint and compaction, and cleans the log.
It writes only the manifests of the partitions that the later commit touches. So the warning names the operator that
writes the other manifests. A checkpoint is due every `delta.checkpointInterval` versions, and after a commit that drops
a feature. Cleanup runs if a checkpoint is due, even if the checkpoint fails. Protocol: Checkpoints, Version Checksum
File, Metadata Cleanup, Log Compaction Files.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from deltalite.log.last_checkpoint import LastCheckpoint
from deltalite.protocol import properties as props
from deltalite.snapshot import Snapshot
from deltalite.storage.local_tree import LocalTree
from deltalite.storage.log_store import LogStore
from deltalite.storage.trees import TableTree
from deltalite.upkeep.checkpoint import MAX_FILES_IN_ONE_PROCESS, estimate_file_count, write_checkpoint
from deltalite.upkeep.checkpoint_protection import protected_before
from deltalite.upkeep.checksum import write_checksum, write_derived_checksum
from deltalite.upkeep.cleanup import clean_log
from deltalite.upkeep.compaction import write_compaction
from deltalite.upkeep.derived_state import DerivedState, derive_state
from deltalite.upkeep.manifests import update_manifests

# The number of commits in one log compaction. A checkpoint interval up to this number needs no compaction.
_COMPACTED_COMMITS = 10
# The first cleanup of a long log must not delay a task. The cleanup after the next checkpoint deletes more files.
_MAX_DELETIONS = 1_000
_LATER_UPKEEP = "The upkeep after a later commit repeats this step."
_STALE_MANIFESTS = (
    "The manifests of the partitions that the commit touches may be old until DeltaGenerateManifestOperator runs."
)
_SKIPPED_UPKEEP = (
    "The upkeep after a later commit does this work, except symlink manifests. If the table has them, the manifests of "
    "the partitions of this version may be old until DeltaGenerateManifestOperator runs."
)

CheckpointWriter = Callable[[Snapshot, int], LastCheckpoint | None]
"""A function like `write_checkpoint`, which takes a snapshot and the current time (milliseconds UTC)."""

_log = logging.getLogger(__name__)


def _write_in_this_process(snapshot: Snapshot, now_ms: int) -> LastCheckpoint | None:
    return write_checkpoint(snapshot, now_ms=now_ms)


def after_commit(
    store: LogStore,
    version: int,
    *,
    derive: Callable[[LogStore, int], DerivedState | None] = derive_state,
    checkpoint: CheckpointWriter = _write_in_this_process,
    tree: Callable[[str], TableTree] = LocalTree,
    clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
) -> None:
    """Do the upkeep that is due after the commit of `version`. Never raises.

    Args:
        store: the store of the table.
        version: the committed version.
        derive: returns the state of the version, as `derive_state` does.
        checkpoint: writes a checkpoint.
        tree: opens the folder of a table by its address.
        clock_ms: returns the current time, milliseconds UTC.
    """
    now_ms = clock_ms()
    with _warn_on_error("Post-commit work", store, version, remedy=_SKIPPED_UPKEEP):
        derived = None
        with _warn_on_error("Deriving the checksum from an earlier one", store, version):
            derived = derive(store, version)
        if derived is not None and not _is_checkpoint_due(derived, version):
            state: DerivedState | Snapshot = derived
            with _warn_on_error("Writing the checksum", store, version):
                write_derived_checksum(store, version, derived)
        else:
            state = snapshot = Snapshot.load(store, version)
            # A full count corrects the counts that the checksums derive from each other.
            count_all = derived is None or estimate_file_count(snapshot) <= MAX_FILES_IN_ONE_PROCESS
            with _warn_on_error("Writing the checksum", store, version):
                write_checksum(snapshot, count_all=count_all)
        configuration = state.metadata.configuration
        if props.SYMLINK_MANIFESTS.of(configuration):
            with _warn_on_error("Updating the symlink manifests", store, version, remedy=_STALE_MANIFESTS):
                update_manifests(store, tree(store.root), version)
        versions_since_checkpoint = version % props.CHECKPOINT_INTERVAL.of(configuration)
        if isinstance(state, Snapshot) and _is_checkpoint_due(state, version):
            with _warn_on_error("Writing the checkpoint", store, version):
                checkpoint(state, now_ms)
            with _warn_on_error("Cleaning the log", store, version):
                if props.ENABLE_EXPIRED_LOG_CLEANUP.of(configuration):
                    clean_log(state, now_ms=now_ms, at_most=_MAX_DELETIONS)
        elif versions_since_checkpoint % _COMPACTED_COMMITS == 0 and versions_since_checkpoint > 0:
            with _warn_on_error("Writing the log compaction", store, version):
                write_compaction(store, version - _COMPACTED_COMMITS + 1, version)


def _is_checkpoint_due(state: DerivedState | Snapshot, version: int) -> bool:
    """Whether the table's checkpoint interval ends at the version, or the version's commit drops a feature."""
    configuration = state.metadata.configuration
    ends_interval = version % props.CHECKPOINT_INTERVAL.of(configuration) == 0
    return version > 0 and (ends_interval or protected_before(state.protocol, configuration) == version)


@contextmanager
def _warn_on_error(step: str, store: LogStore, version: int, *, remedy: str = _LATER_UPKEEP) -> Iterator[None]:
    """Log an error of the block as a warning, because the commit succeeded and a failed task would run again."""
    try:
        yield
    except Exception:  # noqa: BLE001  no error may fail the task
        _log.warning(
            "%s failed after version %s of %s was committed. The commit is not affected. %s",
            step,
            version,
            store.root,
            remedy,
            exc_info=True,
        )

"""What follows a commit: its checksum, symlink manifests, the checkpoint at the table's interval, cleanup, compaction.

The commit stands, so nothing here may fail the task: each step that goes wrong is logged as a warning by its own name,
and the others are taken all the same. Cleanup is due with the checkpoint and does not need it: it keeps what is still
readable by itself. What was left undone is done after a later commit. Protocol: Checkpoints, Version Checksum File,
Metadata Cleanup, Log Compaction Files; the interval is `delta.checkpointInterval`.
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
from deltalite.upkeep.checkpoint import LARGE_FILES, estimated_files, write_checkpoint
from deltalite.upkeep.checksum import write_checksum
from deltalite.upkeep.cleanup import clean_log
from deltalite.upkeep.compaction import write_compaction
from deltalite.upkeep.manifests import update_manifests

# Between checkpoints that are further apart, so many commits are compacted into one file.
_COMPACTED_COMMITS = 10
# A log that was never cleaned must not hold up a task; what is left goes after the next checkpoint.
_MOST_DELETIONS = 1_000

CheckpointWriter = Callable[[Snapshot, int], LastCheckpoint | None]
"""Writes the checkpoint of a snapshot at a moment (milliseconds UTC), as `write_checkpoint` does."""

_log = logging.getLogger(__name__)


def _in_this_process(snapshot: Snapshot, now_ms: int) -> LastCheckpoint | None:
    return write_checkpoint(snapshot, now_ms=now_ms)


def after_commit(
    store: LogStore,
    version: int,
    *,
    checkpoint: CheckpointWriter = _in_this_process,
    tree: Callable[[str], TableTree] = LocalTree,
    clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
) -> None:
    """Do what is due after `version` was committed; `tree` opens the folder of a table by its address. Never raises."""
    now_ms = clock_ms()
    with _only_warning("Post-commit work", store, version):
        snapshot = Snapshot.load(store, version)
        since_checkpoint = version % props.CHECKPOINT_INTERVAL.of(snapshot.configuration)
        is_due = version > 0 and since_checkpoint == 0
        with _only_warning("Writing the checksum", store, version):
            write_checksum(snapshot, count_all=is_due and estimated_files(snapshot) <= LARGE_FILES)
        if props.SYMLINK_MANIFESTS.of(snapshot.configuration):
            with _only_warning("Updating the symlink manifests", store, version):
                update_manifests(store, tree(store.root), version)
        if is_due:
            with _only_warning("Writing the checkpoint", store, version):
                checkpoint(snapshot, now_ms)
            with _only_warning("Cleaning the log", store, version):
                if props.ENABLE_EXPIRED_LOG_CLEANUP.of(snapshot.configuration):
                    clean_log(snapshot, now_ms=now_ms, at_most=_MOST_DELETIONS)
        elif since_checkpoint % _COMPACTED_COMMITS == 0 and since_checkpoint > 0:
            with _only_warning("Writing the log compaction", store, version):
                write_compaction(store, version - _COMPACTED_COMMITS + 1, version)


@contextmanager
def _only_warning(step: str, store: LogStore, version: int) -> Iterator[None]:
    """Log an error of the block as a warning, since the commit is done: a failed task would run again."""
    try:
        yield
    except Exception:  # noqa: BLE001  whatever it is
        _log.warning(
            "%s failed after version %s of %s was committed. The commit is not affected; a later commit does the work.",
            step,
            version,
            store.root,
            exc_info=True,
        )

"""What follows a commit: the checkpoint at the table's interval.

The commit stands, so nothing here may fail the task: whatever goes wrong is logged as a warning, and the next commit
that is due tries again. Protocol: Checkpoints; the interval is `delta.checkpointInterval`.
"""

from __future__ import annotations

import logging
import time

from deltalite.protocol import properties as props
from deltalite.snapshot import Snapshot
from deltalite.storage.log_store import LogStore
from deltalite.txn.checkpoint import write_checkpoint

_log = logging.getLogger(__name__)


def after_commit(store: LogStore, version: int) -> None:
    """Do what is due after `version` was committed. Never raises."""
    try:
        if version == 0:
            return
        snapshot = Snapshot.load(store, version)
        if not props.CHECKPOINT_STATS_AS_JSON.of(snapshot.configuration):
            # Such a table keeps its statistics in a form that is not written here: a checkpoint would lose them.
            return
        if version % props.CHECKPOINT_INTERVAL.of(snapshot.configuration) == 0:
            write_checkpoint(snapshot, now_ms=time.time_ns() // 1_000_000)
    except Exception:  # noqa: BLE001  the commit is there: an error now would make Airflow run the task again
        _log.warning(
            "The checkpoint after version %s of %s failed; the commit stands.", version, store.root, exc_info=True
        )

"""Whether a vacuum is deleting files: what it has on its list may be there now, and not a moment later.

A vacuum says in the log when it begins and when it ends (`VACUUM START`, `VACUUM END`). One that began long ago without
an end has died. A vacuum that says nothing, as delta-spark's on S3 does by default, cannot be seen.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice

from deltalite.errors import ConcurrentWriteException
from deltalite.log.commit_times import in_commit_times
from deltalite.log.history import read_history
from deltalite.snapshot import Snapshot
from deltalite.txn.winners import VACUUM_END, VACUUM_START

_LONGEST = timedelta(days=1)
_MOST_COMMITS = 1_000


def refuse_beside_vacuum(base: Snapshot, *, now_ms: int) -> None:
    """Return where no vacuum is at work in the table.

    Raises:
        ConcurrentWriteException: naming the version in which one has begun.
    """
    since = datetime.fromtimestamp(now_ms / 1000, tz=UTC) - _LONGEST
    ended = 0
    in_commit = in_commit_times(base.protocol, base.metadata)
    history = read_history(base.store, up_to_version=base.version, in_commit=in_commit)
    for entry in islice(history, _MOST_COMMITS):
        if entry["timestamp"] < since:
            return
        ended += entry.get("operation") == VACUUM_END
        if entry.get("operation") == VACUUM_START:
            if not ended:
                raise ConcurrentWriteException(
                    f"A vacuum of {base.store.root} began in version {entry['version']} and has not ended: it may be "
                    "deleting files that are to come back.",
                    remedy="Run the task again when the vacuum has ended; one that was killed is waited for for a day.",
                )
            ended -= 1

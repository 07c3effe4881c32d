"""Some changed rows of a version as texts, for a page: the rows that the version inserted, deleted and updated.

The rows come from the change data feed. If the feed is off, the rows of a version that only appends are its inserted
rows. Any other version then raises an error. The limits are those of `preview.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from deltalite.change_feed import ChangePlan, plan_changes, read_changes
from deltalite.change_feed.appends import plan_appends
from deltalite.columnar.predicates.filters import from_filters
from deltalite.columnar.predicates.where import parse_where
from deltalite.errors import ChangeFeedUnavailableError, SourceRowsChangedError
from deltalite.inspection.inner_files import inner_files
from deltalite.inspection.preview import BATCH_ROWS, Deadline, RowPreview, collect_rows, shown_columns
from deltalite.inspection.shown_texts import shown_text
from deltalite.snapshot import Snapshot
from deltalite.storage.log_store import LogStore

_KINDS = {
    "insert": "inserted",
    "delete": "deleted",
    "update_preimage": "updated from",
    "update_postimage": "updated to",
}


def read_changed_rows(
    store: LogStore,
    version: int,
    conditions: Sequence[str],
    *,
    max_seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> RowPreview:
    """Read the first changed rows of a version for which all conditions are true.

    The arguments are those of `read_preview`. The conditions test the rows before and after an update separately.

    Raises:
        ChangeFeedUnavailableError: the version changed rows without recording them, or its schema cannot read them.
        UnsupportedFeatureError: a file is outside of the table's folder.
        DeltaLiteError: a condition is invalid, or the version or its rows cannot be read.
    """
    deadline = Deadline(max_seconds, clock)
    snapshot = Snapshot.load(store, version)
    predicate = from_filters(parse_where(conditions, snapshot.schema), snapshot.schema)
    plan = _plan_of(store, snapshot)
    names = shown_columns(snapshot.schema)
    batches = read_changes(
        plan,
        files=deadline.files_in_time(inner_files(plan.files, store.root)),
        columns=names,
        predicate=predicate,
        batch_size=BATCH_ROWS,
        use_threads=False,
    )
    # The kind of change comes first; the version and the time of the commit are on the page already.
    shown_batches = (batch.select([len(names), *range(len(names))]) for batch in batches)
    rows, limit = collect_rows(shown_batches, deadline)
    return RowPreview(
        columns=tuple(map(shown_text, names)),
        column_count=len(snapshot.schema.fields),
        rows=tuple(row[1:] for row in rows),
        limit=limit,
        kinds=tuple(_KINDS.get(row[0] or "", row[0] or "") for row in rows),
    )


def _plan_of(store: LogStore, snapshot: Snapshot) -> ChangePlan:
    """Return the plan of the changed rows of a version."""
    version = snapshot.version
    try:
        plan = plan_changes(store, version, version, loaded_snapshot=snapshot)
    except ChangeFeedUnavailableError as error:
        if error.are_recorded:
            raise
        return _plan_of_appends(store, snapshot)
    reason = plan.unreadable_removals()
    if reason is not None:
        raise ChangeFeedUnavailableError(
            f"The schema of version {version} cannot read the rows that the version removes: {reason}.",
            remedy=f"Show the rows of version {version - 1}.",
        )
    return plan


def _plan_of_appends(store: LogStore, snapshot: Snapshot) -> ChangePlan:
    version, commit = snapshot.version, snapshot.segment.commit_file
    commits = {} if commit is None else {version: commit}  # `plan_changes` has found the commit in the log
    try:
        return plan_appends(store, version, version, commits, skips_changes=False)
    except SourceRowsChangedError as error:
        raise ChangeFeedUnavailableError(
            f"Version {version} changes or removes rows, and the table did not record them.",
            remedy="To see the changed rows of later versions, set delta.enableChangeDataFeed = true.",
            are_recorded=False,
        ) from error

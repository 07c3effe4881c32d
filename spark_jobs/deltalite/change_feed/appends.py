"""The rows that versions of a table appended, without a change data feed.

The rows are those of data files that the commits added with `dataChange`. A commit without `dataChange`, such as an
optimize, adds no row. A commit that removes, changes or restores rows is not an append: it is an error, or it is left
out as a whole. Protocol: Add File and Remove File (`dataChange`); delta-spark's `skipChangeCommits`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from deltalite.change_feed.history import VersionHistory
from deltalite.change_feed.plan import ChangePlan, read_commit_changes
from deltalite.errors import SourceRowsChangedError
from deltalite.log.changes import ChangedFile
from deltalite.snapshot import Snapshot
from deltalite.storage.log_store import LogStore, StoredFile


def plan_appends(
    store: LogStore,
    from_version: int,
    to_version: int,
    commits: Mapping[int, StoredFile],
    *,
    skips_changes: bool,
) -> ChangePlan:
    """Find the files with the rows that the versions `from_version` to `to_version`, both inclusive, appended.

    Args:
        store: the table's store.
        from_version: the first version.
        to_version: the last version.
        commits: the commits of all these versions.
        skips_changes: whether to leave out a commit that changes rows, together with the rows that it appends.

    Raises:
        SourceRowsChangedError: a commit removes, changes or restores rows, and `skips_changes` is False.
        ChangeFeedUnavailableError: the last schema cannot read the rows of a version.
        VersionGapError, CorruptLogError, UnsupportedFeatureError: the log cannot be read.
    """
    last_snapshot = Snapshot.load(store, to_version)
    first_snapshot = last_snapshot if from_version == to_version else Snapshot.load(store, from_version)
    history = VersionHistory(first_snapshot, needs_feed=False)
    files: list[ChangedFile] = []
    for version in range(from_version, to_version + 1):
        changes = read_commit_changes(store, commits[version], ignores_change_files=True)
        history.apply_commit(version, changes.protocol, changes.metadata)
        if changes.only_appends:
            files += changes.files(version=version, timestamp_ms=0)
        elif not skips_changes:
            raise _rows_changed_error(store.root, version, (changes.provenance or {}).get("operation"))
    history.check_readable_as(last_snapshot.table_schema)
    return ChangePlan(
        from_version=from_version,
        snapshot=last_snapshot,
        files=tuple(files),
        table_ids=frozenset(history.table_ids),
    )


def sizes_of_changes(
    store: LogStore, versions: range, commits: Mapping[int, StoredFile], *, reads_feed: bool
) -> Iterator[int]:
    """Yield for each version the bytes of the files that a source reads.

    With `reads_feed`, these are the files of the change data feed. Otherwise they are the added files of a commit that
    only appends rows; another commit has 0 bytes.

    Raises:
        VersionGapError, CorruptLogError: the log cannot be read.
    """
    for version in versions:
        changes = read_commit_changes(store, commits[version], ignores_change_files=not reads_feed)
        is_read = reads_feed or changes.only_appends
        files = changes.files(version=version, timestamp_ms=0) if is_read else ()
        yield sum(file.size_bytes or 0 for file in files)


def _rows_changed_error(root: str, version: int, operation: object) -> SourceRowsChangedError:
    return SourceRowsChangedError(
        f"Version {version} of {root} ({operation or 'unknown operation'}) removes, changes or restores rows, but "
        "the source reads appended rows only.",
        remedy="To load changed rows too, set read='changes' and delta.enableChangeDataFeed in the source. To leave "
        "out such commits, set on_change='skip'.",
    )

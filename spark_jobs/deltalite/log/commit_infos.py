"""The provenance of commits with their times, newest first.

Each commit is read only up to its provenance, which comes first. The iteration ends at a commit that log cleanup has
deleted, because log cleanup deletes the oldest commits first. Protocol: Commit Provenance Information.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from deltalite.errors import VersionGapError
from deltalite.log.commit_times import CommitTime, InCommitSettings, in_commit_timestamp, timed_commits
from deltalite.log.replay import read_commit_info
from deltalite.storage.log_store import LogStore, StoredFile

_THREADS, _COMMITS_PER_BATCH = 8, 32


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedCommitInfo:
    """The provenance of a commit with its time. `info` is empty if the commit has no provenance.

    `file_time_ms` is the modification time of the commit's file, adjusted as in `commit_times.file_times`.
    """

    version: int
    info: Mapping[str, Any]
    file_name: str
    file_time_ms: int
    in_commit: InCommitSettings | None

    @property
    def timestamp_ms(self) -> int:
        """The commit time in milliseconds UTC: the in-commit timestamp if the table has one for the version.

        Raises:
            CorruptLogError: the commit lacks its required in-commit timestamp.
        """
        if self.in_commit is not None and self.in_commit.covers(self.version):
            return in_commit_timestamp(self.info, self.file_name)
        return self.file_time_ms


def commit_infos(
    store: LogStore, *, up_to_version: int, in_commit: InCommitSettings | None = None, after_version: int = -1
) -> Iterator[TimedCommitInfo]:
    """Yield the provenance of commits, newest first, one read at a time.

    Args:
        store: the store of the table.
        up_to_version: the newest version, inclusive.
        in_commit: the `in_commit_settings` of the snapshot. A caller that does not use the commit times can leave it
            out.
        after_version: only commits above this version are read.

    Raises:
        CorruptLogError: a line before the provenance of a commit is malformed.
        StorageError: the log cannot be read.
    """
    for commit in _newest_first(store, up_to_version):
        if commit[0].version <= after_version:
            return
        timed_info = _read_timed_info(store, in_commit, commit)
        if timed_info is None:
            return
        yield timed_info


def newest_commit_infos(
    store: LogStore, *, up_to_version: int, in_commit: InCommitSettings | None, max_commits: int
) -> Iterator[TimedCommitInfo]:
    """Yield the same as `commit_infos` for at most `max_commits` commits. Several threads read ahead.

    Raises:
        CorruptLogError, StorageError: see `commit_infos`.
    """
    commits = _newest_first(store, up_to_version)[:max_commits]
    with ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix="commits") as pool:
        for start in range(0, len(commits), _COMMITS_PER_BATCH):
            batch = commits[start : start + _COMMITS_PER_BATCH]
            for timed_info in pool.map(partial(_read_timed_info, store, in_commit), batch):
                if timed_info is None:
                    return
                yield timed_info


def _newest_first(store: LogStore, up_to_version: int) -> list[tuple[CommitTime, StoredFile]]:
    return [(time, file) for time, file in reversed(timed_commits(store)) if time.version <= up_to_version]


def _read_timed_info(
    store: LogStore, in_commit: InCommitSettings | None, commit: tuple[CommitTime, StoredFile]
) -> TimedCommitInfo | None:
    """Read the provenance of a commit. Return None if log cleanup has deleted the commit."""
    time, file = commit
    try:
        info = read_commit_info(store, file) or {}
    except VersionGapError:
        return None
    return TimedCommitInfo(
        version=time.version, info=info, file_name=file.name, file_time_ms=time.timestamp_ms, in_commit=in_commit
    )

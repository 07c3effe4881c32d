"""The log files of one version: a checkpoint and the commits after it, or all commits from 0 on.

The commits and compactions of a `LogSegment` reach its version without a gap or an overlap, and its checkpoint is
complete. `find_segment` selects the files from a listing: the newest complete checkpoint at or below the version, then
the fewest files that cover the later commits. It skips files that the caller could not read. `_last_checkpoint`
only determines where the listing starts. Protocol: Action Reconciliation, Checkpoints, Log Compaction Files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from deltalite.errors import TableNotFoundError, VersionGapError, VersionNotFoundError
from deltalite.log.last_checkpoint import read_last_checkpoint
from deltalite.log.listing import CheckpointFiles, Listing, LogEntry, list_log
from deltalite.storage.log_store import LogStore, StoredFile


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSegment:
    """The log files of `version`.

    - `entries`: commits and compactions in ascending order, starting right after the checkpoint (or at 0).
    - `commit_file`: the commit of `version`, even if a checkpoint or a compaction covers it; None if the log no longer
      holds it.
    - `checksum`: the version's checksum file, if any.
    """

    version: int
    checkpoint: CheckpointFiles | None
    entries: tuple[LogEntry, ...]
    commit_file: StoredFile | None = None
    checksum: StoredFile | None = None

    def __post_init__(self) -> None:
        next_version = 0 if self.checkpoint is None else self.checkpoint.version + 1
        remaining_entries = list(reversed(self.entries))
        while remaining_entries and remaining_entries[-1].first_version == next_version:
            next_version = remaining_entries.pop().last_version + 1
        if remaining_entries or next_version != self.version + 1:
            versions_after_gap = sum(entry.last_version + 1 - entry.first_version for entry in remaining_entries)
            missing_count = self.version + 1 - next_version - versions_after_gap
            gap_text = (
                f"{missing_count} commits are missing; the first is {next_version}"
                if missing_count > 1
                else f"commit {next_version} is missing"
            )
            raise VersionGapError(
                f"Could not read version {self.version}: {gap_text}.",
                remedy="Restore the missing commits, or read a version below the gap.",
            )

    @property
    def checkpoint_at_version(self) -> CheckpointFiles | None:
        """The checkpoint of `version` itself; None if the segment uses an older checkpoint or none."""
        is_of_version = self.checkpoint is not None and self.checkpoint.version == self.version
        return self.checkpoint if is_of_version else None

    @property
    def commits(self) -> tuple[StoredFile, ...]:
        """The commits to read, in ascending order."""
        return tuple(entry.file for entry in self.entries if not entry.is_compaction)

    @property
    def compactions(self) -> tuple[StoredFile, ...]:
        """The compactions to read instead of their commits, in ascending order."""
        return tuple(entry.file for entry in self.entries if entry.is_compaction)


def find_segment(store: LogStore, version: int | None = None, *, unreadable: Collection[str] = ()) -> LogSegment:
    """Find the segment of `version`, or of the newest version if `version` is None.

    Checkpoints and compactions with a file named in `unreadable` are skipped.

    Raises:
        TableNotFoundError: the log is empty or absent.
        VersionNotFoundError: the log has no such version, or log cleanup has deleted its files: the oldest checkpoint
            is newer than the version.
        VersionGapError: the log lacks a commit that the version needs, and no checkpoint or compaction outside
            `unreadable` replaces the commit.
    """
    excluded = frozenset(unreadable)
    hint = read_last_checkpoint(store)
    start = hint.version if hint is not None and (version is None or hint.version <= version) else 0
    listing = list_log(store, start)
    if start and _best_checkpoint(listing, version, excluded) is None:
        listing = list_log(store, 0)
    if listing.newest_version < 0:
        raise TableNotFoundError(
            f"There is no Delta table at {store.root}: its _delta_log holds no commit.",
            remedy="Check the address, or write the table first.",
        )
    target = listing.newest_version if version is None else version
    if target < 0 or target > listing.newest_version:
        raise VersionNotFoundError(
            f"{store.root} has no version {target}: its newest version is {listing.newest_version}.",
            remedy="Read an existing version.",
        )
    checkpoint = _best_checkpoint(listing, target, excluded)
    if checkpoint is None:
        _check_not_deleted(store.root, target, listing)
    first = 0 if checkpoint is None else checkpoint.version + 1
    return LogSegment(
        version=target,
        checkpoint=checkpoint,
        entries=_covering_entries(listing, first, target, excluded),
        commit_file=listing.commits.get(target),
        checksum=listing.checksums.get(target),
    )


def _best_checkpoint(listing: Listing, version: int | None, excluded: frozenset[str]) -> CheckpointFiles | None:
    usable = (c for c in listing.checkpoints if (version is None or c.version <= version) and not c.is_among(excluded))
    return max(usable, key=lambda c: c.preference, default=None)


def _covering_entries(listing: Listing, first: int, last: int, excluded: frozenset[str]) -> tuple[LogEntry, ...]:
    """Return the fewest commits and compactions that cover `first` to `last`, or all commits if there is a gap."""
    commits = [_entry(v, listing.commits[v]) for v in sorted(listing.commits) if first <= v <= last]
    compactions = [
        c
        for c in listing.compactions
        if first <= c.first_version and c.last_version <= last and c.file.name not in excluded
    ]
    return _shortest_path((*commits, *compactions), first, last) if compactions else tuple(commits)


def _shortest_path(entries: Iterable[LogEntry], first: int, last: int) -> tuple[LogEntry, ...]:
    """Return the fewest consecutive entries from `first` to `last`, or all commits if there is a gap.

    The search runs backwards: the best path from a version is one entry plus the best path from the end of that entry.
    `best_paths` holds for each version the number of entries to `last`, and the first of these entries.
    """
    entries = list(entries)
    best_paths: dict[int, tuple[int, LogEntry | None]] = {last + 1: (0, None)}
    for entry in sorted(entries, key=lambda e: e.first_version, reverse=True):
        path_after_entry = best_paths.get(entry.last_version + 1)
        if path_after_entry is None:
            continue
        length = path_after_entry[0] + 1
        if entry.first_version not in best_paths or length < best_paths[entry.first_version][0]:
            best_paths[entry.first_version] = (length, entry)
    if first not in best_paths:
        return tuple(entry for entry in entries if not entry.is_compaction)
    path: list[LogEntry] = []
    while (entry_at_first := best_paths[first][1]) is not None:
        path.append(entry_at_first)
        first = entry_at_first.last_version + 1
    return tuple(path)


def _entry(version: int, commit: StoredFile) -> LogEntry:
    return LogEntry(first_version=version, last_version=version, file=commit)


def _check_not_deleted(root: str, target: int, listing: Listing) -> None:
    """Raise `VersionNotFoundError` if no file of the log begins at version 0, and the oldest checkpoint is newer.

    The caller found no checkpoint at or below the version `target`.
    """
    if 0 in listing.commits or any(c.first_version == 0 for c in listing.compactions):
        return
    oldest = min((c.version for c in listing.checkpoints), default=None)
    if oldest is not None and target < oldest:
        raise VersionNotFoundError(
            f"Could not read version {target} of {root}: its oldest checkpoint is version {oldest}.",
            remedy=f"Read version {oldest} or newer.",
        )

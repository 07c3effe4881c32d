"""The versions that the files of a log can rebuild, computed from a listing without opening a file.

A chain is a range of versions without a gap after one start: a checkpoint, or the empty table before version 0. Further
checkpoints divide a chain into spans, each from one checkpoint to the next. Such a checkpoint must agree with the
commits of the span before it. Chains leave out log compactions, so a version that only a compaction can rebuild is not
verified.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise, zip_longest

from deltalite.inspection.versions import Range
from deltalite.log.listing import CheckpointFiles, LogEntry
from deltalite.log.segment import LogSegment
from deltalite.storage.log_store import StoredFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """A range of versions without a gap.

    `start` is the checkpoint at the first version; None is the empty table before version 0. `commits` are the commits
    after `start` by version, ascending. `checkpoints` are the other readable checkpoints of the chain, ascending. If a
    version has several checkpoints, the preferred one is the last.
    """

    start: CheckpointFiles | None
    commits: Mapping[int, StoredFile]
    checkpoints: tuple[CheckpointFiles, ...]

    @property
    def versions(self) -> Range:
        """The first and the last version."""
        first = min(self.commits) if self.start is None else self.start.version
        return first, max(self.commits, default=first)

    def checkpoint_before(self, version: int) -> CheckpointFiles | None:
        """Return the newest checkpoint before a version, by preference; `start` if the chain has none before it."""
        return max((c for c in self.checkpoints if c.version < version), key=lambda c: c.preference, default=self.start)

    def segment(
        self, version: int, *, compaction: LogEntry | None = None, base_before: int | None = None
    ) -> LogSegment:
        """Return the segment that rebuilds a version from the newest checkpoint before it and the commits.

        With `base_before`, the checkpoint is before that version instead of before `version`. `compaction` replaces
        the last commits.
        """
        base = self.checkpoint_before(version if base_before is None else base_before)
        first = 0 if base is None else base.version + 1
        last_commit = version if compaction is None else compaction.first_version - 1
        entries = [
            LogEntry(first_version=v, last_version=v, file=self.commits[v]) for v in range(first, last_commit + 1)
        ]
        return LogSegment(
            version=version, checkpoint=base, entries=(*entries, *([] if compaction is None else [compaction]))
        )

    def spans(self) -> Iterator[Span]:
        """Yield the spans of the chain."""
        first, last = self.versions
        # Of several checkpoints of a version, only the preferred one begins a span.
        starts = [
            self.start,
            *{c.version: c for c in self.checkpoints if c.version > first or self.start is None}.values(),
        ]
        for start, next_start in zip_longest(starts, starts[1:]):
            first_commit = 0 if start is None else start.version + 1
            last_commit = last if next_start is None else next_start.version
            yield Span(start=start, commits={v: self.commits[v] for v in range(first_commit, last_commit + 1)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A checkpoint, and the commits after it up to the version of the next checkpoint, inclusive.

    If `start` is None, the span begins with the empty table before version 0.
    """

    start: CheckpointFiles | None
    commits: Mapping[int, StoredFile]


def chains_of(commits: Mapping[int, StoredFile], checkpoints: Collection[CheckpointFiles]) -> tuple[Chain, ...]:
    """Return the chains of readable commits and readable checkpoints, ascending and without overlap."""
    sorted_checkpoints = sorted(checkpoints, key=lambda checkpoint: checkpoint.preference)
    preferred_checkpoints = {c.version: c for c in sorted_checkpoints}
    chains: list[Chain] = []
    last_version = -1
    starts: list[CheckpointFiles | None] = [*([None] if 0 in commits else []), *preferred_checkpoints.values()]
    for start in starts:
        if start is not None and start.version <= last_version:
            continue
        first = 0 if start is None else start.version + 1
        last_version = first - 1
        while last_version + 1 in commits:
            last_version += 1
        chains.append(
            Chain(
                start=start,
                commits={v: commits[v] for v in range(first, last_version + 1)},
                checkpoints=tuple(
                    c for c in sorted_checkpoints if first - 1 <= c.version <= last_version and c != start
                ),
            )
        )
    return tuple(chains)


def missing_commits(commits: Collection[int]) -> Iterator[Range]:
    """Yield the versions without a commit between the oldest and the newest commit, as ranges."""
    for before, after in pairwise(sorted(commits)):
        if after > before + 1:
            yield before + 1, after - 1

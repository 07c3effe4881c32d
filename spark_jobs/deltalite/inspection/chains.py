"""Which versions the files of a log can rebuild, and from where: decided on a listing, nothing is opened.

A chain is a run of versions that one start leads to without a gap: the empty table before version 0, or a checkpoint.
Further checkpoints of its versions cut it into spans, each from one checkpoint to the next; they must say what the
commits of the span before say. Readers may use compactions in the place of commits, chains do not: what a compaction
alone still tells is no version that can be verified.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from deltalite.inspection.versions import Range
from deltalite.log.listing import CheckpointFiles, LogEntry
from deltalite.log.segment import LogSegment
from deltalite.storage.log_store import StoredFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """Versions that follow one another.

    `start` is the checkpoint that they begin with, None for the table before version 0; `commits` are those behind it,
    by version, ascending. `checkpoints` are those of its versions that can be read, ascending, the preferred one of a
    version last; `start` is not among them.
    """

    start: CheckpointFiles | None
    commits: Mapping[int, StoredFile]
    checkpoints: tuple[CheckpointFiles, ...]

    @property
    def versions(self) -> Range:
        """The first and the last version."""
        first = min(self.commits) if self.start is None else self.start.version
        return first, max(self.commits, default=first)

    def anchor(self, below: int) -> CheckpointFiles | None:
        """The newest checkpoint of a version below that one, the preferred of its version."""
        return max((c for c in self.checkpoints if c.version < below), key=lambda c: c.preference, default=self.start)

    def segment(self, version: int, *, last: LogEntry | None = None, below: int | None = None) -> LogSegment:
        """How to rebuild a version from the newest checkpoint before it (before `below`) and the commits.

        `last` is a compaction that stands for the commits up to the version.
        """
        base = self.anchor(version if below is None else below)
        first = 0 if base is None else base.version + 1
        end = version if last is None else last.first_version - 1
        entries = [LogEntry(first_version=v, last_version=v, file=self.commits[v]) for v in range(first, end + 1)]
        return LogSegment(version=version, checkpoint=base, entries=(*entries, *([] if last is None else [last])))

    def spans(self) -> Iterator[Span]:
        """The versions in pieces, each from one checkpoint to before the next."""
        first, last = self.versions
        starts = [
            self.start,
            *{c.version: c for c in self.checkpoints if c.version > first or self.start is None}.values(),
        ]
        for number, start in enumerate(starts):
            behind = starts[number + 1] if number + 1 < len(starts) else None
            end = last if behind is None else behind.version
            begin = 0 if start is None else start.version + 1
            yield Span(start=start, commits={v: self.commits[v] for v in range(begin, end + 1)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A checkpoint (None: the empty table) and the commits from there to the next checkpoint's version, inclusive."""

    start: CheckpointFiles | None
    commits: Mapping[int, StoredFile]


def chains_of(commits: Mapping[int, StoredFile], checkpoints: Collection[CheckpointFiles]) -> tuple[Chain, ...]:
    """The chains, ascending and apart, that readable commits and readable checkpoints make."""
    ordered = sorted(checkpoints, key=lambda c: c.preference)
    preferred = {c.version: c for c in ordered}
    found: list[Chain] = []
    reached = -1
    starts: list[CheckpointFiles | None] = [*([None] if 0 in commits else []), *preferred.values()]
    for start in starts:
        if start is not None and start.version <= reached:
            continue
        first = 0 if start is None else start.version + 1
        reached = first - 1
        while reached + 1 in commits:
            reached += 1
        found.append(
            Chain(
                start=start,
                commits={v: commits[v] for v in range(first, reached + 1)},
                checkpoints=tuple(c for c in ordered if first - 1 <= c.version <= reached and c != start),
            )
        )
    return tuple(found)


def missing_commits(commits: Collection[int]) -> Iterator[Range]:
    """The versions between the oldest and the newest commit that have none, as ranges."""
    ordered = sorted(commits)
    for before, after in pairwise(ordered):
        if after > before + 1:
            yield before + 1, after - 1

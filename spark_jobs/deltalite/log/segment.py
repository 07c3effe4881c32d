"""The files of the log that make one version: a checkpoint and the commits after it, or all commits from 0 on.

`LogSegment` is the gate: once it exists, its commits follow one another without a gap up to its version, and its
checkpoint is complete. `find_segment` chooses it from a listing: the newest complete checkpoint at or below the
version, except those that the caller found unreadable. Protocol: Action Reconciliation, Checkpoints.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from deltalite.errors import (
    CorruptCheckpointError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionGapError,
    VersionNotFoundError,
)
from deltalite.log.last_checkpoint import read_last_checkpoint
from deltalite.protocol.file_names import LogFileKind, LogFileName, first_name_of, parse_log_name
from deltalite.storage.log_store import LogStore, StoredFile


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFiles:
    """A complete classic or multi-part checkpoint: the names of its files, parts in order."""

    version: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSegment:
    """The files that make `version`; `commits` are ascending and begin right after the checkpoint (or at 0)."""

    version: int
    checkpoint: CheckpointFiles | None
    commits: tuple[StoredFile, ...]

    def __post_init__(self) -> None:
        first = 0 if self.checkpoint is None else self.checkpoint.version + 1
        have = [_version_of(commit) for commit in self.commits]
        expected = list(range(first, self.version + 1))
        if have != expected:
            missing = sorted(set(expected) - set(have))
            raise VersionGapError(
                f"The log cannot rebuild version {self.version}: commit {missing[0]} is missing"
                + (f" ({len(missing)} commits in all)." if len(missing) > 1 else "."),
                remedy="Restore the missing commits, or read a version below the gap.",
            )

    @property
    def newest_file(self) -> StoredFile | None:
        """The newest commit, or None where the checkpoint stands alone."""
        return self.commits[-1] if self.commits else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listing:
    commits: dict[int, StoredFile]
    checkpoints: dict[int, CheckpointFiles]
    uuid_checkpoints: frozenset[int]

    @property
    def newest(self) -> int:
        return max((*self.commits, *self.checkpoints), default=-1)


def find_segment(store: LogStore, version: int | None = None, *, unreadable: Collection[int] = ()) -> LogSegment:
    """The segment of `version`, or of the newest version where None; checkpoints in `unreadable` are passed over.

    Raises:
        TableNotFoundError: the log is empty or absent.
        VersionNotFoundError: the version is newer than the table, or older than what the log still holds.
        VersionGapError: a commit in between is missing.
        CorruptCheckpointError: only unreadable checkpoints lead to the version.
    """
    hint = read_last_checkpoint(store)
    use_hint = hint is not None and hint.version not in unreadable and (version is None or hint.version <= version)
    listing = _list(store, hint.version if hint is not None and use_hint else 0)
    if use_hint and hint is not None and hint.version not in listing.checkpoints:
        listing = _list(store, 0)
    if listing.newest < 0:
        raise TableNotFoundError(
            f"There is no Delta table at {store.root}: its _delta_log holds no commit.",
            remedy="Check the address, or write the table first.",
        )
    target = listing.newest if version is None else version
    if target < 0 or target > listing.newest:
        raise VersionNotFoundError(
            f"{store.root} has no version {target}: its newest is {listing.newest}.",
            remedy="Ask for an existing version.",
        )
    usable = [v for v in listing.checkpoints if v <= target and v not in unreadable]
    checkpoint = listing.checkpoints[max(usable)] if usable else None
    first = 0 if checkpoint is None else checkpoint.version + 1
    commits = tuple(listing.commits[v] for v in sorted(listing.commits) if first <= v <= target)
    if checkpoint is None:
        _check_reaches_back(store.root, target, listing, unreadable)
    return LogSegment(version=target, checkpoint=checkpoint, commits=commits)


def _check_reaches_back(root: str, target: int, listing: _Listing, unreadable: Collection[int]) -> None:
    """Without a checkpoint the commits must begin at 0; say as exactly as possible why they do not."""
    if 0 in listing.commits:
        return
    if any(v <= target for v in unreadable):
        raise CorruptCheckpointError(
            f"The checkpoints of {root} up to version {target} cannot be read, and the commits before them are gone.",
            remedy="Restore the checkpoint file, or read a newer version that another checkpoint covers.",
        )
    if any(v <= target for v in listing.uuid_checkpoints):
        raise UnsupportedFeatureError(
            f"Version {target} of {root} needs a V2 checkpoint (table feature v2Checkpoint), "
            "which this release does not read.",
            remedy="Read it with an engine that supports the feature.",
        )
    oldest = min(listing.checkpoints, default=None)
    if oldest is not None and target < oldest:
        raise VersionNotFoundError(
            f"The log of {root} no longer reaches back to version {target}: its oldest checkpoint is version {oldest}.",
            remedy=f"Ask for version {oldest} or newer.",
        )


def _list(store: LogStore, from_version: int) -> _Listing:
    commits: dict[int, StoredFile] = {}
    whole: dict[int, CheckpointFiles] = {}
    parts: dict[tuple[int, int], dict[int, str]] = {}
    uuid_named: set[int] = set()
    for stored in store.list_from(first_name_of(from_version)):
        parsed = parse_log_name(stored.name)
        if parsed is None:
            continue
        match parsed.kind:
            case LogFileKind.COMMIT:
                commits[parsed.version] = stored
            case LogFileKind.CLASSIC_CHECKPOINT | LogFileKind.MULTI_PART_CHECKPOINT if stored.size_bytes == 0:
                pass  # left by a writer that died
            case LogFileKind.CLASSIC_CHECKPOINT:
                whole[parsed.version] = CheckpointFiles(version=parsed.version, names=(stored.name,))
            case LogFileKind.MULTI_PART_CHECKPOINT:
                _collect_part(parts, parsed)
            case LogFileKind.UUID_CHECKPOINT:
                uuid_named.add(parsed.version)
            case LogFileKind.COMPACTION | LogFileKind.CHECKSUM:
                pass
    complete = {version: names for (version, count), names in sorted(parts.items()) if len(names) == count}
    multi = {
        v: CheckpointFiles(version=v, names=tuple(names[i] for i in sorted(names))) for v, names in complete.items()
    }
    return _Listing(commits=commits, checkpoints=whole | multi, uuid_checkpoints=frozenset(uuid_named))


def _collect_part(parts: dict[tuple[int, int], dict[int, str]], parsed: LogFileName) -> None:
    """An incomplete set is no checkpoint; two sets of one version do not mix."""
    part, count = parsed.part, parsed.parts
    if part is not None and count is not None and 1 <= part <= count:
        parts.setdefault((parsed.version, count), {})[part] = parsed.name


def _version_of(commit: StoredFile) -> int:
    parsed = parse_log_name(commit.name)
    if parsed is None or parsed.kind is not LogFileKind.COMMIT:
        raise ValueError(f"{commit.name} is no commit")
    return parsed.version

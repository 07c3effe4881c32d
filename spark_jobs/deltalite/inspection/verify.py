"""Verification of a table: its whole log, and every data file that a version in the log contains.

The steps:

1. Read every commit and validate its actions.
2. Read every checkpoint, and build chains of versions from the readable files.
3. Compare checkpoints and log compactions with the commits.
4. Check the in-commit timestamps.
5. Check that every added file exists, and compare its footer and deletion vector with the log.
6. Find the versions of each faulty file. A missing file that only older versions contain is not an error, because
   VACUUM deletes such files.
7. Compare the row ids of the newest version's files, if the table has row tracking.
8. Compare version checksums with the protocol, the metadata and the file counts of their versions.

A step skips the versions and files that an earlier step could not read. Memory holds two replays and a listing, for any
number of versions, because files are checked in batches. The verification writes nothing and returns its findings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from deltalite.errors import CorruptCheckpointError, CorruptLogError, DeltaLiteError, StorageError, TableNotFoundError
from deltalite.inspection.chains import Chain, chains_of, missing_commits
from deltalite.inspection.checksums import read_checksums, wrong_checksums
from deltalite.inspection.commits import (
    CommitFacts,
    TableDefinition,
    definitions_after_commits,
    read_commit,
    time_findings,
)
from deltalite.inspection.data_files import COLUMNS, CheckedAmount, FileChecks, FileFault
from deltalite.inspection.findings import Finding, FindingKind, Findings
from deltalite.inspection.replays import differences
from deltalite.inspection.report import CheckedCounts, VerifyReport
from deltalite.inspection.row_ids import COLUMNS as ROW_ID_COLUMNS
from deltalite.inspection.row_ids import row_id_problems
from deltalite.inspection.versions import Range, contains, format_ranges, ranges_of, union, without
from deltalite.inspection.walk import lifetimes
from deltalite.log.action_files import FileTableBuilder, read_action_blocks
from deltalite.log.last_checkpoint import read_last_checkpoint
from deltalite.log.listing import CheckpointFiles, Listing, list_log
from deltalite.log.replay import ReplayedLog, UnusableLogFile, replay, replay_checkpoint
from deltalite.log.segment import LogSegment
from deltalite.log.version_checksum import VersionChecksum
from deltalite.protocol import row_tracking
from deltalite.protocol.actions import AddFile
from deltalite.protocol.features import check_readable
from deltalite.protocol.file_names import LAST_CHECKPOINT
from deltalite.protocol.paths import decode_path
from deltalite.protocol.schema import parse_schema
from deltalite.sizes import counted
from deltalite.storage.log_store import LogStore, StoredFile

ReportProgress = Callable[[str, int, int | None], None]
"""A function that takes the name of a step, the amount done, and the total amount (None if unknown)."""

# Commits are small, so the latency of storage dominates.
_MAX_THREADS = 8
# The files of a checkpoint in one batch; each batch reports progress.
_FILES_IN_A_BATCH = 4_096


def verify(
    store: LogStore, *, with_footers: bool = True, progress: ReportProgress = lambda _step, _done, _total: None
) -> VerifyReport:
    """Verify a table.

    Args:
        store: the table's storage.
        with_footers: open every data file and deletion vector; otherwise check only their existence, size and partition
            values.
        progress: the function that receives the progress of each step.

    Raises:
        TableNotFoundError: there is no table.
        UnsupportedFeatureError: the newest version uses a feature that this release does not read.
        StorageError: storage does not answer.
    """
    listing = list_log(store, 0)
    if listing.newest_version < 0:
        raise TableNotFoundError(
            f"There is no Delta table at {store.root}: its _delta_log holds no commit.", remedy="Check the address."
        )
    return _Verification(store=store, listing=listing, progress=progress).run(with_footers=with_footers)


@dataclass(kw_only=True)
class _Verification:
    """The state of one verification."""

    store: LogStore
    listing: Listing
    progress: ReportProgress
    findings: Findings = field(default_factory=Findings)
    facts: dict[int, CommitFacts] = field(default_factory=dict)
    checkpoint_definitions: dict[CheckpointFiles, TableDefinition] = field(default_factory=dict)
    definitions: dict[int, TableDefinition] = field(default_factory=dict)

    def run(self, *, with_footers: bool) -> VerifyReport:
        self._read_commits()
        self._read_checkpoints()
        readable_commits = {v: c for v, c in sorted(self.listing.commits.items()) if v in self.facts}
        chains = chains_of(readable_commits, self.checkpoint_definitions)
        self._compute_definitions(chains)
        versions = (version for chain in chains for version in range(*_half_open(chain.versions)))
        rebuildable = ranges_of(version for version in versions if version in self.definitions)
        self._report_lost_versions(rebuildable)
        for chain in chains:
            self._check_replays(chain)
        for finding in time_findings(self.definitions, self.facts, self.listing.commits):
            self.findings.add(finding)
        unreadable, checked_amount = self._check_files(chains, with_footers=with_footers)
        self._check_row_ids(chains)
        self._check_checksums(chains)
        self._check_last_checkpoint()
        return VerifyReport(
            root=self.store.root,
            newest_version=self.listing.newest_version,
            rebuildable=rebuildable,
            readable=without(rebuildable, unreadable),
            findings=tuple(self.findings.stored),
            counts=dict(self.findings.counts),
            checked=CheckedCounts(
                commits=len(self.listing.commits),
                checkpoints=len(self.listing.checkpoints),
                compactions=len(self.listing.compactions),
                checksums=len(self.listing.checksums),
                files=checked_amount.files,
                bytes=checked_amount.size_bytes,
                footers=checked_amount.footers,
                deletion_vectors=checked_amount.vectors,
            ),
        )

    def _read_commits(self) -> None:
        commits = self.listing.commits
        for first, last in missing_commits(commits):
            self._report(
                FindingKind.MISSING_COMMIT, "The log contains no commit of these versions.", versions=[(first, last)]
            )
        versions = sorted(commits)
        with ThreadPoolExecutor(max_workers=_MAX_THREADS, thread_name_prefix="commit") as pool:
            outcomes = pool.map(self._read_commit, versions)
            for done, (version, outcome) in enumerate(zip(versions, outcomes, strict=True)):
                self.progress("commits", done, len(commits))
                if isinstance(outcome, CommitFacts):
                    self.facts[version] = outcome
                else:
                    file_name = commits[version].name
                    self._report(FindingKind.UNREADABLE_COMMIT, outcome.problem, file_name, [(version, version)])

    def _read_commit(self, version: int) -> CommitFacts | DeltaLiteError:
        """Read a commit; return the error if it is invalid. Runs in a thread."""
        try:
            return read_commit(self.store, self.listing.commits[version])
        except StorageError:
            raise
        except DeltaLiteError as error:
            return error

    def _read_checkpoints(self) -> None:
        for done, checkpoint in enumerate(self.listing.checkpoints):
            self.progress("checkpoints", done, len(self.listing.checkpoints))
            file_name, versions = checkpoint.names[0], [(checkpoint.version, checkpoint.version)]
            try:
                log = replay_checkpoint(self.store, checkpoint)
                log.files(COLUMNS)
                log.tombstones(("path",))
            except (UnusableLogFile, CorruptCheckpointError) as error:
                reason = error.error if isinstance(error, UnusableLogFile) else error
                self._report(FindingKind.UNREADABLE_CHECKPOINT, reason.problem, file_name, versions)
            else:
                try:
                    self.checkpoint_definitions[checkpoint] = TableDefinition.of(log.protocol, log.metadata)
                # A reader that starts from this checkpoint would use the invalid protocol or metadata.
                except DeltaLiteError as error:
                    self._report(FindingKind.CHECKPOINT_DIFFERS, error.problem, file_name, versions)

    def _compute_definitions(self, chains: Iterable[Chain]) -> None:
        """Compute the protocol and metadata of every version, and report commits that make them invalid.

        Raises:
            UnsupportedFeatureError: this release does not read the newest protocol or schema.
        """
        for chain in chains:
            start = None if chain.start is None else self.checkpoint_definitions[chain.start]
            if chain.start is not None and start is not None:
                self.definitions[chain.start.version] = start
            facts = ((version, self.facts[version]) for version in chain.commits)
            for version, definition, problem in definitions_after_commits(start, facts):
                if definition is not None:
                    self.definitions[version] = definition
                if problem is not None:
                    file_name = self.listing.commits[version].name
                    self._report(FindingKind.UNREADABLE_COMMIT, problem, file_name, [(version, version)])
        newest = self.definitions.get(max(self.definitions, default=-1))
        if newest is not None:
            check_readable(newest.protocol, newest.metadata)
            if newest.schema is None:
                parse_schema(newest.metadata.schema_string)  # raises with the unsupported type

    def _report_lost_versions(self, rebuildable: tuple[Range, ...]) -> None:
        """Report the versions that the log cannot rebuild, if they are newer than the oldest rebuildable version."""
        oldest = rebuildable[0][0] if rebuildable else 0
        lost_versions = without([(oldest, self.listing.newest_version)], rebuildable)
        if lost_versions:
            is_newest_lost = lost_versions[-1][1] == self.listing.newest_version
            note = f", including the newest ({self.listing.newest_version})" if is_newest_lost else ""
            message = (
                f"The log cannot rebuild the versions {format_ranges(lost_versions)}{note}: no checkpoint and no "
                "gapless sequence of commits leads to them."
            )
            if self.listing.compactions:
                message += " Readers that use log compactions may still read some of them."
            self._report(FindingKind.UNREADABLE_VERSION, message, versions=lost_versions)

    def _check_replays(self, chain: Chain) -> None:
        """Compare the checkpoints and compactions of a chain with its commits."""
        first, last = chain.versions
        starts_at_checkpoint = chain.start is not None
        checkpoints = [c for c in chain.checkpoints if c.version > first or not starts_at_checkpoint]
        for done, checkpoint in enumerate(checkpoints):
            self.progress("checkpoints against commits", done, len(checkpoints))
            file_name, versions = checkpoint.names[0], [(checkpoint.version, checkpoint.version)]
            for problem in self._replay_differences(
                chain.segment(checkpoint.version), partial(replay_checkpoint, self.store, checkpoint)
            ):
                self._report(FindingKind.CHECKPOINT_DIFFERS, f"The checkpoint {problem}.", file_name, versions)
        for compaction in self.listing.compactions:
            first_version, last_version = compaction.first_version, compaction.last_version
            if (starts_at_checkpoint and first_version <= first) or first_version < first or last_version > last:
                continue
            commits_segment = chain.segment(last_version, base_before=first_version)
            compaction_segment = chain.segment(last_version, compaction=compaction, base_before=first_version)
            versions = [(first_version, last_version)]
            for problem in self._replay_differences(commits_segment, partial(replay, self.store, compaction_segment)):
                message = f"The log compaction {problem}."
                self._report(FindingKind.COMPACTION_DIFFERS, message, compaction.file.name, versions)

    def _replay_differences(
        self, commits_segment: LogSegment, replay_alternative: Callable[[], ReplayedLog]
    ) -> list[str]:
        """Compare the replay of a checkpoint or compaction (`replay_alternative`) with the replay of the commits.

        Returns an empty list if the commits cannot be replayed or do not define the protocol and metadata. Another step
        reports such commits.
        """
        if commits_segment.version not in self.definitions:
            return []
        try:
            expected = replay(self.store, commits_segment)
        except CorruptLogError:
            return []
        try:
            return list(differences(replay_alternative(), expected))
        except UnusableLogFile as error:
            return [f"cannot be read: {error.error.problem.rstrip('.')}"]
        except CorruptLogError as error:
            return [f"cannot be read: {error.problem.rstrip('.')}"]

    def _check_files(self, chains: tuple[Chain, ...], *, with_footers: bool) -> tuple[list[Range], CheckedAmount]:
        """Check every file of every chain; return the versions with unreadable rows, and the amount checked."""
        unreadable: list[Range] = []
        with FileChecks(self.store, with_footers=with_footers) as checks:
            for chain in chains:
                faults: list[FileFault] = []
                versions_with_unknown_types: list[int] = []
                for version, adds in self._adds(chain):
                    schema = self.definitions[version].schema
                    if schema is None:
                        versions_with_unknown_types.append(version)
                        continue
                    faults += checks.check(adds, schema)
                    self.progress("data files", checks.checked_amount.files, None)
                if versions_with_unknown_types:
                    message = (
                        "The files that these versions added cannot be checked: this release does not know all types "
                        "of their columns."
                    )
                    self._report(FindingKind.UNCHECKED_FILES, message, versions=ranges_of(versions_with_unknown_types))
                unreadable += self._report_faults(chain, faults)
            for folder in checks.inaccessible_folders:
                self._report(
                    FindingKind.UNCHECKED_FILES,
                    "The files of this folder are not checked, because the folder is not accessible.",
                    folder,
                )
            return unreadable, checks.checked_amount

    def _adds(self, chain: Chain) -> Iterator[tuple[int, pa.Table]]:
        """Yield every file of a chain in batches, with the version whose protocol and metadata apply to the batch."""
        if chain.start is not None:
            start_files = replay_checkpoint(self.store, chain.start).files(COLUMNS)
            for offset in range(0, start_files.num_rows, _FILES_IN_A_BATCH):
                yield chain.start.version, start_files.slice(offset, _FILES_IN_A_BATCH)
        for version, commit in chain.commits.items():
            if version in self.definitions:
                for adds in added_files(self.store, commit):
                    yield version, adds

    def _report_faults(self, chain: Chain, faults: list[FileFault]) -> list[Range]:
        """Report the faults, and return the versions with unreadable rows.

        The method does not report a file that no version contains, or a missing file that only older versions contain.
        """
        versions_by_key = lifetimes(self.store, chain, {fault.key for fault in faults}) if faults else {}
        unreadable: list[Range] = []
        for fault in faults:
            versions = versions_by_key.get(fault.key, ())
            if fault.is_fatal:
                unreadable += versions
            may_be_vacuumed = fault.kind is FindingKind.MISSING_FILE and not contains(
                versions, self.listing.newest_version
            )
            if versions and not may_be_vacuumed:
                self._report(fault.kind, fault.message, fault.path, versions)
        return list(union(unreadable))

    def _check_row_ids(self, chains: tuple[Chain, ...]) -> None:
        """Check the row ids of the files of the newest version."""
        newest = self.listing.newest_version
        definition = self.definitions.get(newest)
        chain = next((chain for chain in chains if chain.versions[1] == newest), None)
        if chain is None or definition is None:
            return
        if not row_tracking.is_enabled(definition.protocol, definition.metadata):
            return
        versions = [(newest, newest)]
        try:
            log = replay(self.store, chain.segment(newest))
            high_water_mark = row_tracking.high_water_mark(log.domains)
            for path, problem in row_id_problems(log.files(ROW_ID_COLUMNS), newest, high_water_mark):
                self._report(FindingKind.WRONG_ROW_IDS, problem, decode_path(path), versions)
        except UnusableLogFile:
            return  # An earlier step has reported the checkpoint.
        except CorruptLogError as error:
            self._report(FindingKind.WRONG_ROW_IDS, error.problem, versions=versions)

    def _check_checksums(self, chains: Iterable[Chain]) -> None:
        """Compare the version checksums with the protocol, the metadata and the file counts of their versions."""
        files = self.listing.checksums
        checksums: dict[int, VersionChecksum] = {}
        unreadable_versions: list[int] = []
        for done, (version, checksum) in enumerate(read_checksums(self.store, files)):
            self.progress("checksums", done, len(files))
            if checksum is None:
                unreadable_versions.append(version)
            else:
                checksums[version] = checksum
        if unreadable_versions:
            message = f"Readers ignore {counted(len(unreadable_versions), 'invalid version checksum')}."
            first_file = files[unreadable_versions[0]].name
            self._report(FindingKind.UNREADABLE_CHECKSUM, message, first_file, ranges_of(unreadable_versions))
        for chain in chains:
            for version, problem in wrong_checksums(self.store, chain, checksums, self.definitions):
                message = f"The checksum differs from the log: {problem}."
                self._report(FindingKind.CHECKSUM_DIFFERS, message, files[version].name, [(version, version)])

    def _check_last_checkpoint(self) -> None:
        if self.store.read(LAST_CHECKPOINT) is None:
            return
        hint = read_last_checkpoint(self.store)
        if hint is None:
            self._report(
                FindingKind.LAST_CHECKPOINT, "The file cannot be read, or its checksum is wrong.", LAST_CHECKPOINT
            )
        elif hint.version not in {checkpoint.version for checkpoint in self.listing.checkpoints}:
            self._report(
                FindingKind.LAST_CHECKPOINT,
                f"The file names version {hint.version}, which has no complete checkpoint.",
                LAST_CHECKPOINT,
            )

    def _report(self, kind: FindingKind, message: str, file: str | None = None, versions: Iterable[Range] = ()) -> None:
        self.findings.add(Finding(kind=kind, message=message, file=file, versions=tuple(versions)))


def added_files(store: LogStore, commit: StoredFile) -> Iterator[pa.Table]:
    """Yield the `add` actions of a commit, one table per block. Raises `CorruptLogError`."""
    for block_bytes, actions in read_action_blocks(store, commit.name, commit.size_bytes):
        builder = FileTableBuilder(AddFile)
        for kind, body in actions:
            if kind == AddFile.action:
                builder.append(body)
        builder.end_block(commit.name, block_bytes)
        table = builder.table()
        if table.num_rows:
            yield table


def _half_open(versions: Range) -> Range:
    """Return the arguments of `range` for a range of versions."""
    return versions[0], versions[1] + 1

"""Finds runs of later data intervals that committed before this run and may have touched the same rows.

For example, a cleared merge of day 2 that runs after day 5 would bring back rows that the later days deleted. Each
commit names its task and its data interval. A later commit counts if this operation could touch rows that the later
commit added or removed. The read set decides this, as for conflicts. Usually the transactions of the snapshot show that
there is no later run, so the search sends no request.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from deltalite.errors import VersionGapError
from deltalite.log.commit_infos import commit_infos
from deltalite.log.file_table import file_key
from deltalite.log.listing import list_log
from deltalite.log.replay import read_commit_info
from deltalite.protocol import properties as props
from deltalite.protocol.actions import RemoveFile
from deltalite.protocol.file_names import commit_name
from deltalite.requests import RunIdentity, RunProvenance
from deltalite.requests.provenance import parse_time
from deltalite.snapshot import Snapshot
from deltalite.txn.find_run import CLOCK_SKEW_SECONDS, run_commits
from deltalite.txn.proposal import ReadSet
from deltalite.txn.winners import Winner, read_winner

_MAX_RUNS = 5
_SKEW_MS = CLOCK_SKEW_SECONDS * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterRun:
    """A commit of a later data interval."""

    version: int
    run: RunProvenance

    def __str__(self) -> str:
        return f"version {self.version} (run {self.run.run_id}, of {_interval_text(self.run)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterRuns:
    """The result of the search for later runs.

    - `runs`: the newest later runs that may have touched the same rows, a few at most.
    - `has_committed_before`: this run has committed before, so this is a rerun.
    - `unreadable_app_ids`: app ids of the same task that may belong to later runs. The log no longer holds their
      commits.
    """

    runs: tuple[LaterRun, ...] = ()
    has_committed_before: bool = False
    unreadable_app_ids: tuple[str, ...] = ()


def later_runs(base: Snapshot, identity: RunIdentity, reads: ReadSet) -> LaterRuns:
    """Return the later runs that committed after this run's last commit, up to the version of `base`."""
    current = RunProvenance.from_values(identity.provenance)
    ordering_time = _ordering_time(current)
    if ordering_time is None:
        return LaterRuns()
    return _Search(base, identity, current, ordering_time, reads).result


class _Search:
    """One search through the log of a snapshot."""

    def __init__(
        self, base: Snapshot, identity: RunIdentity, current: RunProvenance, ordering_time: datetime, reads: ReadSet
    ) -> None:
        self._base = base
        self._identity = identity
        self._current = current
        self._ordering_time = ordering_time
        self._reads = reads
        # A run commits after its data interval ends, so a later run commits after the end of the current interval.
        end = parse_time(current.data_interval_end) or ordering_time
        self._earliest_commit_ms = int(end.timestamp() * 1000) - _SKEW_MS

    @property
    def result(self) -> LaterRuns:
        last_version = self._last_commit_version
        has_committed = last_version is not None or self._is_recorded
        if not self._may_have_later_runs:
            return LaterRuns(has_committed_before=has_committed)
        runs = []
        for later in self._later_commits(-1 if last_version is None else last_version):
            if self._may_share_rows(later.version):
                runs.append(later)
            if len(runs) == _MAX_RUNS:
                break
        unreadable = () if last_version is not None else tuple(self._unreadable_app_ids())
        return LaterRuns(runs=tuple(runs), has_committed_before=has_committed, unreadable_app_ids=unreadable)

    @property
    def _is_recorded(self) -> bool:
        """Whether the table certainly has a transaction of this run.

        A transaction under an idempotency key may belong to another run.
        """
        return self._current.idempotency_key is None and self._identity.app_id in self._base.transactions

    @cached_property
    def _last_commit_version(self) -> int | None:
        """The version of this run's last commit that changed rows.

        None if the log holds no such commit. No later run depends on a commit without rows.
        """
        if self._identity.app_id not in self._base.transactions:
            return None
        commits = run_commits(self._base.store, self._identity.app_id, at_or_below=self._base.version)
        for commit in commits:
            if commit.changes_rows and (self._is_recorded or self._current.is_same_task_instance(commit.run)):
                return commit.version
        return None

    @property
    def _may_have_later_runs(self) -> bool:
        retention_ms = props.SET_TRANSACTION_RETENTION_MS.of(self._base.configuration)
        if retention_ms is not None and self._earliest_commit_ms < self._base.loaded_at_ms - retention_ms:
            return True  # the transactions of later runs may have expired
        return any(True for _ in self._transactions_of_task())

    def _transactions_of_task(self) -> Iterator[tuple[str, int | None]]:
        """Yield the app ids that may belong to later runs of the task, with the times of their commits."""
        namespace_and_dag = self._identity.app_id.split("/")[:2]
        for app_id, txn in self._base.transactions.items():
            segments = app_id.split("/")
            is_of_task = (
                len(segments) == 5  # noqa: PLR2004
                and segments[2] == self._current.task_id
                and segments[4:] != self._run_segments
            )
            # An app id with an idempotency key does not name the task.
            has_idempotency_key = len(segments) == 3  # noqa: PLR2004
            if segments[:2] != namespace_and_dag or not (is_of_task or has_idempotency_key):
                continue
            if txn.last_updated_ms is None or txn.last_updated_ms >= self._earliest_commit_ms:
                yield app_id, txn.last_updated_ms

    @property
    def _run_segments(self) -> list[str]:
        """The segments of the app id that name the DAG run; all mapped tasks of the DAG run share these segments."""
        return self._identity.app_id.split("/")[4:]

    def _later_commits(self, after: int) -> Iterator[LaterRun]:
        """Yield the commits of later runs above version `after`, newest first."""
        for commit in commit_infos(self._base.store, up_to_version=self._base.version, after_version=after):
            run = RunProvenance.from_text(commit.info.get("userMetadata"))
            committed_ms = commit.info.get("timestamp")
            if run.dag_id is not None and isinstance(committed_ms, int) and committed_ms < self._earliest_commit_ms:
                return  # only commits of Airflow runs end the search: other writers' clocks are not trusted
            if self._is_later(run):
                yield LaterRun(version=commit.version, run=run)

    def _is_later(self, run: RunProvenance) -> bool:
        """Whether another run has the same task or idempotency key as the current run, and a later data interval."""
        current = self._current
        if run.dag_id != current.dag_id or run.run_id == current.run_id:
            return False
        has_same_key = current.idempotency_key is not None and current.idempotency_key == run.idempotency_key
        if not has_same_key and run.task_id != current.task_id:
            return False
        ordering_time = _ordering_time(run)
        return ordering_time is not None and ordering_time > self._ordering_time

    def _may_share_rows(self, version: int) -> bool:
        data = self._base.store.read(commit_name(version))
        return data is not None and _may_touch(self._reads, read_winner(version, data))

    def _unreadable_app_ids(self) -> Iterator[str]:
        """Yield the app ids of the task with transactions that are older than the oldest commit in the log."""
        commits = list_log(self._base.store, 0).commits
        oldest = min(commits, default=0)
        if oldest == 0:
            return
        try:
            info = read_commit_info(self._base.store, commits[oldest]) or {}
        except VersionGapError:
            info = {}
        oldest_ms = info.get("timestamp")
        if not isinstance(oldest_ms, int):
            return
        for app_id, committed_ms in self._transactions_of_task():
            if app_id != self._identity.app_id and committed_ms is not None and committed_ms < oldest_ms:
                yield app_id


def _may_touch(reads: ReadSet, winner: Winner) -> bool:
    """Whether the operation could touch rows that the commit added or removed."""
    removes = (remove for remove in winner.removes if remove.data_change)
    return any(reads.would_have_read(add) for add in winner.adds_with_new_rows) or any(
        _may_have_read(reads, remove) for remove in removes
    )


def _may_have_read(reads: ReadSet, remove: RemoveFile) -> bool:
    if reads.whole_table or file_key(remove.path, remove.deletion_vector) in reads.keys:
        return True
    values = remove.partition_values
    if values is None:
        return bool(reads.row_tests)
    return any(test.may_match(values, remove.stats) for test in reads.row_tests)


def _ordering_time(run: RunProvenance) -> datetime | None:
    """Return the time that orders the runs of a task: the start of the data interval, else the logical date."""
    return parse_time(run.data_interval_start) or parse_time(run.logical_date)


def _interval_text(run: RunProvenance) -> str:
    if run.data_interval_start is None:
        return f"logical date {run.logical_date}"
    return f"data interval {run.data_interval_start} to {run.data_interval_end}"

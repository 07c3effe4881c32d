"""The commits of a log as bounded values for a report: operation, writer, counts, and the results of a task.

The provenance of a commit is hostile text of any size (see `shown_texts.py`). Counts come from the operation metrics
with the names of Spark or delta-rs. A count is None if the writer did not record it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile
from typing import Any, TypeVar

from deltalite.inspection.commit_effort import CommitEffort, counts_of, effort_of, first_count
from deltalite.inspection.shown_texts import shown_text
from deltalite.log.commit_infos import TimedCommitInfo, commit_infos, newest_commit_infos
from deltalite.log.commit_times import in_commit_settings
from deltalite.log.writers import TaskRun, task_run, writer_text
from deltalite.requests.provenance import RunProvenance
from deltalite.results import AuditResult, FlowRange
from deltalite.snapshot import Snapshot
from deltalite.storage.log_store import LogStore
from deltalite.txn.audits import AUDITS, audit_results_of
from deltalite.txn.find_run import CLOCK_SKEW_SECONDS, source_versions_of
from deltalite.txn.flows import FLOWS, flow_ranges_of
from deltalite.txn.proposal import SOURCE_VERSIONS

_T = TypeVar("_T")
_MAX_PAIRS = 60
_MAX_AUDITS = 100
# The length of Airflow's columns for ids. A longer id names no task of any Airflow. An id with characters that are not
# printable names no task either. Databases refuse some of these characters, such as NUL and unpaired surrogates.
_LONGEST_ID = 250
# Parameters that have separate fields.
_PARSED_PARAMETERS = frozenset({AUDITS, FLOWS, SOURCE_VERSIONS})
# delta-rs writes the names with underscores.
_INSERTED_ROWS = ("numTargetRowsInserted", "num_target_rows_inserted")
_ADDED_ROWS = (*_INSERTED_ROWS, "numOutputRows", "numConvertedRows", "num_added_rows")
_REMOVED_ROWS = ("numTargetRowsDeleted", "numDeletedRows", "num_target_rows_deleted", "num_deleted_rows")
_UPDATED_ROWS = ("numTargetRowsUpdated", "numUpdatedRows", "num_target_rows_updated", "num_updated_rows")
_ADDED_BYTES = ("numTargetBytesAdded", "numOutputBytes", "numAddedBytes", "restoredFilesSize", "convertedFilesSize")
_REMOVED_BYTES = ("numTargetBytesRemoved", "numRemovedBytes", "removedFilesSize")
# `numOutputRows` of these operations also counts rows that the operation copied or updated.
_OUTPUT_ROWS_ARE_NOT_ADDED = frozenset({"MERGE", "UPDATE", "DELETE", "OPTIMIZE"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitEntry:
    """A commit.

    - `run`: the task attempt that made the commit; None for another writer.
    - `writer`: the description of the task attempt, or of the other writer.
    - `generation`: the number of clears of the task before the commit; None for another writer.
    - `parameters`, `metrics`: names and values of the operation, as texts.
    - `user_metadata`: the text of the writer; empty if it names a task.
    """

    version: int
    timestamp_ms: int
    operation: str
    run: TaskRun | None
    writer: str
    generation: int | None
    engine: str
    isolation: str
    user_metadata: str
    parameters: tuple[tuple[str, str], ...]
    metrics: tuple[tuple[str, str], ...]
    rows_added: int | None
    rows_removed: int | None
    rows_updated: int | None
    bytes_added: int | None
    bytes_removed: int | None
    effort: CommitEffort = field(default_factory=CommitEffort)
    source_versions: Mapping[str, int] = field(default_factory=dict)
    flows: Mapping[str, FlowRange] = field(default_factory=dict)
    audits: tuple[AuditResult, ...] = ()


def commit_entries(store: LogStore, snapshot: Snapshot, *, up_to_version: int, limit: int) -> Iterator[CommitEntry]:
    """Yield at most `limit` commits from `up_to_version` (inclusive) back, newest first.

    Raises:
        CorruptLogError: a line before the provenance of a commit is malformed.
        StorageError: the log cannot be read.
    """
    in_commit = in_commit_settings(snapshot.protocol, snapshot.metadata)
    infos = newest_commit_infos(store, up_to_version=up_to_version, in_commit=in_commit, max_commits=limit)
    return map(commit_entry, infos)


def entries_since(store: LogStore, snapshot: Snapshot, *, since_ms: int, limit: int) -> Iterator[CommitEntry]:
    """Yield at most `limit` commits that were made at or after a time (milliseconds UTC), newest first.

    The clocks of the machines may differ by `CLOCK_SKEW_SECONDS`, so the result may contain older commits.

    Raises: as `commit_entries`.
    """
    earliest_ms = since_ms - CLOCK_SKEW_SECONDS * 1000
    entries = commit_entries(store, snapshot, up_to_version=snapshot.version, limit=limit)
    return takewhile(lambda entry: entry.timestamp_ms >= earliest_ms, entries)


def entry_of_version(store: LogStore, snapshot: Snapshot) -> CommitEntry | None:
    """Return the commit of the snapshot's version; None if the log no longer holds it.

    Raises: as `commit_entries`.
    """
    in_commit = in_commit_settings(snapshot.protocol, snapshot.metadata)
    info = next(commit_infos(store, up_to_version=snapshot.version, in_commit=in_commit), None)
    return None if info is None or info.version != snapshot.version else commit_entry(info)


def commit_entry(commit: TimedCommitInfo) -> CommitEntry:
    """Return the entry of a commit. Raises `CorruptLogError` if it lacks its in-commit timestamp."""
    info = commit.info
    run, parameters, metrics = _run(info), info.get("operationParameters"), counts_of(info.get("operationMetrics"))
    operation = shown_text(info.get("operation"), max_length=60)
    output_has_copies = operation.upper().split(" ")[0] in _OUTPUT_ROWS_ARE_NOT_ADDED
    return CommitEntry(
        version=commit.version,
        timestamp_ms=commit.timestamp_ms,
        operation=operation,
        run=run,
        writer=shown_text(writer_text(info)),
        generation=None if run is None else RunProvenance.from_text(info.get("userMetadata")).generation,
        engine=shown_text(info.get("engineInfo")),
        isolation=shown_text(info.get("isolationLevel"), max_length=60),
        user_metadata="" if run is not None else shown_text(info.get("userMetadata")),
        parameters=_pairs(parameters, left_out=_PARSED_PARAMETERS),
        metrics=_pairs(info.get("operationMetrics")),
        rows_added=first_count(metrics, _INSERTED_ROWS if output_has_copies else _ADDED_ROWS),
        rows_removed=first_count(metrics, _REMOVED_ROWS),
        rows_updated=first_count(metrics, _UPDATED_ROWS),
        bytes_added=first_count(metrics, _ADDED_BYTES),
        bytes_removed=first_count(metrics, _REMOVED_BYTES),
        effort=effort_of(commit.version, info),
        source_versions={shown_text(view): version for view, version in _first_items(source_versions_of(parameters))},
        flows={shown_text(view): _bounded_flow(flow) for view, flow in _first_items(flow_ranges_of(parameters))},
        audits=tuple(map(_bounded_audit, audit_results_of(parameters)[:_MAX_AUDITS])),
    )


def _run(info: Mapping[str, Any]) -> TaskRun | None:
    """Return the task attempt that made a commit; None for another writer, or if an id is impossible in Airflow."""
    run = task_run(info)
    ids = () if run is None else (run.dag_id, run.task_id, run.run_id or "")
    return None if any(len(text) > _LONGEST_ID or not text.isprintable() for text in ids) else run


def _bounded_flow(flow: FlowRange) -> FlowRange:
    return replace(flow, flow=shown_text(flow.flow), source_table_id=shown_text(flow.source_table_id))


def _bounded_audit(audit: AuditResult) -> AuditResult:
    return replace(
        audit,
        name=shown_text(audit.name),
        kind=shown_text(audit.kind),
        on=shown_text(audit.on),
        level=shown_text(audit.level),
        threshold=shown_text(audit.threshold),
        measured=shown_text(audit.measured) if isinstance(audit.measured, str) else audit.measured,
        error=None if audit.error is None else shown_text(audit.error),
    )


def _first_items(values: Mapping[str, _T]) -> list[tuple[str, _T]]:
    return list(values.items())[:_MAX_PAIRS]


def _pairs(values: Any, *, left_out: frozenset[str] = frozenset()) -> tuple[tuple[str, str], ...]:
    """Return the first names and values as texts, without empty values."""
    if not isinstance(values, Mapping):
        return ()
    pairs = (
        (name, value)
        for name, value in values.items()
        if name not in left_out and value not in (None, "", "null", "[]", "{}")
    )
    return tuple(
        (shown_text(str(name), max_length=80), shown_text(value, name=str(name)))
        for name, value in islice(pairs, _MAX_PAIRS)
    )

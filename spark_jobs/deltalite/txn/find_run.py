"""Finds the commit of a run by app id, newest commits first. `resuming` decides whether the run resumes the commit.

The commit's provenance holds the result of the run. A task that lost its result, or that runs again, therefore reports
the same version and metrics. Protocol: Transaction Identifiers.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from deltalite.errors import CommitStateUnknownError, TableNotFoundError, VersionGapError
from deltalite.log.action_files import read_actions, read_blocks
from deltalite.log.commit_infos import commit_infos
from deltalite.log.listing import list_log
from deltalite.protocol.actions import (
    AddFile,
    CommitInfo,
    Metadata,
    RemoveFile,
    SetTransaction,
    from_json,
    iter_raw_actions,
)
from deltalite.protocol.file_names import commit_name
from deltalite.protocol.touched_partitions import MAX_PARTITIONS, partition_names
from deltalite.requests import OnRerun, RunIdentity, RunProvenance
from deltalite.requests.provenance import parse_time
from deltalite.results import OperationResult
from deltalite.snapshot import Snapshot
from deltalite.storage.log_store import LogStore
from deltalite.txn.audits import audit_results_of
from deltalite.txn.flows import flow_ranges_of
from deltalite.txn.proposal import SOURCE_VERSIONS
from deltalite.txn.quarantine import quarantine_of
from deltalite.txn.resuming import EarlierCommit, Rerun, check_requests_differ, decide, is_before

_log = logging.getLogger(__name__)
CLOCK_SKEW_SECONDS = 600
"""The tolerated difference between the clocks of Airflow and of a writer."""
_INTEGER = re.compile(r"-?[0-9]{1,19}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCommit:
    """A commit with the app id of a run: its provenance and the paths of its added files, as in the log.

    - `changes_rows`: whether the commit added or removed rows. Every run commits its transaction, even without rows.
    - `changed_partitions`: the distinct partition values of the files that change rows. The list ends at
      `MAX_PARTITIONS` + 1 items, because a result does not name so many.
    - `metadata`: the metadata that the commit sets, if any.
    """

    version: int
    txn: SetTransaction
    info: Mapping[str, Any]
    added_paths: frozenset[str]
    changes_rows: bool
    changed_partitions: tuple[Mapping[str, str | None] | None, ...] = ()
    metadata: Metadata | None = None

    @property
    def run(self) -> RunProvenance:
        """The run in the commit's provenance."""
        return RunProvenance.from_text(self.info.get("userMetadata"))


def find_run_commit(store: LogStore, app_id: str, *, at_or_below: int) -> RunCommit | None:
    """Return the newest commit of `app_id` up to a version, or None if the log does not hold one."""
    return next(run_commits(store, app_id, at_or_below=at_or_below), None)


def run_commits(store: LogStore, app_id: str, *, at_or_below: int) -> Iterator[RunCommit]:
    """Yield the commits of `app_id` that the log still holds, up to the version `at_or_below`, newest first.

    The listing may not show the newest versions yet. They are read by name, because the caller knows that they exist.
    """
    sizes = {version: file.size_bytes for version, file in list_log(store, 0).commits.items()}
    unlisted = range(max(sizes, default=-1) + 1, at_or_below + 1)
    for version in sorted({*sizes, *unlisted}, reverse=True):
        commit = run_commit_of(store, version, app_id, sizes.get(version)) if version <= at_or_below else None
        if commit is not None:
            yield commit


def run_commit_of(store: LogStore, version: int, app_id: str, size_bytes: int | None = None) -> RunCommit | None:
    """Return the commit of `version`; None if the log does not hold it, or if it lacks the app id.

    A known size saves a request.
    """
    name = commit_name(version)
    try:
        txn = _transaction(store, name, size_bytes, app_id)
        return None if txn is None else _run_commit(store, name, size_bytes, version, txn)
    except VersionGapError:
        return None


def _transaction(store: LogStore, name: str, size_bytes: int | None, app_id: str) -> SetTransaction | None:
    """Return the transaction of `app_id` in a commit, if any; only blocks that contain the app id are parsed."""
    app_id_json, first_line = json.dumps(app_id).encode(), 1
    for block in read_blocks(store, name, size_bytes):
        for kind, body in iter_raw_actions(block, name, first_line=first_line) if app_id_json in block else ():
            if kind == SetTransaction.action and body.get("appId") == app_id:
                return from_json(SetTransaction, body, name)
        first_line += block.count(b"\n")
    return None


def _run_commit(store: LogStore, name: str, size_bytes: int | None, version: int, txn: SetTransaction) -> RunCommit:
    info: Mapping[str, Any] | None = None
    added_paths: set[str] = set()
    changes_rows = False
    partitions: dict[Hashable, Mapping[str, str | None] | None] = {}
    metadata: Metadata | None = None
    for kind, body in read_actions(store, name, size_bytes):
        if kind == CommitInfo.action:
            info = body if info is None else info
        elif kind == AddFile.action:
            added_paths.add(from_json(AddFile, body, name).path)
        elif kind == Metadata.action:
            metadata = from_json(Metadata, body, name)
        if kind in (AddFile.action, RemoveFile.action) and body.get("dataChange") is not False:
            changes_rows = True
            values = body.get("partitionValues")
            if len(partitions) <= MAX_PARTITIONS:
                partitions[None if values is None else frozenset(values.items())] = values
    return RunCommit(
        version=version,
        txn=txn,
        info=info or {},
        added_paths=frozenset(added_paths),
        changes_rows=changes_rows,
        changed_partitions=tuple(partitions.values()),
        metadata=metadata,
    )


def earlier_result(snapshot: Snapshot, table: str, identity: RunIdentity) -> OperationResult | None:
    """Return the result of the commit that this run resumes, marked as skipped; None if the run has to do its work.

    Raises:
        RerunDiffersError: an earlier commit with the run's app id was made for a different request, or another position
            of the same mapped task committed this task's request.
    """
    stored_txn = snapshot.transactions.get(identity.app_id)
    if stored_txn is None:
        _check_item_has_not_moved(snapshot, table, identity)
        return None
    commit = _commit_to_compare(snapshot, identity)
    if commit is None:
        earlier = EarlierCommit(table=table, txn=stored_txn, version=None, run=RunProvenance())
    else:
        earlier = EarlierCommit(table=table, txn=commit.txn, version=commit.version, run=commit.run)
    if decide(identity, earlier) is Rerun.WORK:
        return None
    _warn_of_other_request(identity, earlier)
    return _skipped_result(commit, earlier.txn, table, snapshot.metadata)


def _commit_to_compare(snapshot: Snapshot, identity: RunIdentity) -> RunCommit | None:
    """Return the newest commit of the app id; under an idempotency key, the newest commit of this run if there is one.

    The search for a commit of this run ends at a commit long before the start of the DAG run. A clear of a finished DAG
    run sets a new start, so the search may not find a commit from before the clear. None if the log holds no commit of
    the app id.
    """
    current = RunProvenance.from_values(identity.provenance)
    newest = None
    for commit in run_commits(snapshot.store, identity.app_id, at_or_below=snapshot.version):
        if current.idempotency_key is None or current.is_same_task_instance(commit.run):
            return commit
        newest = newest or commit
        if _is_long_before(commit, current):
            break
    return newest


def _is_long_before(commit: RunCommit, current: RunProvenance) -> bool:
    """Whether the commit is older than the start of the current DAG run by more than the clock skew.

    All commits of lower versions are then older than this start too.
    """
    start, committed_ms = parse_time(current.run_start), _int64(commit.info.get("timestamp"))
    return (
        start is not None and committed_ms is not None and committed_ms / 1000 < start.timestamp() - CLOCK_SKEW_SECONDS
    )


def _check_item_has_not_moved(snapshot: Snapshot, table: str, identity: RunIdentity) -> None:
    """Check that no other position of the mapped task has committed the request of this position.

    Two positions of one DAG run may have equal items. Without a clear, the check therefore ignores commits of the
    current DAG run. It compares only commits of a deleted DAG run with the same id, which are older.

    Raises:
        RerunDiffersError: another position has committed this request.
    """
    if identity.sibling_ids is None or identity.on_rerun is OnRerun.WRITE:
        return
    prefix, suffix = identity.sibling_ids
    current = RunProvenance.from_values(identity.provenance)
    start = parse_time(current.run_start)
    sibling_app_ids = {
        app_id
        for app_id, txn in snapshot.transactions.items()
        if app_id.startswith(prefix)
        and app_id.endswith(suffix)
        and (identity.is_of_cleared_run or (start is not None and is_before(txn, start)))
    }
    for commit in commit_infos(snapshot.store, up_to_version=snapshot.version) if sibling_app_ids else ():
        run = RunProvenance.from_text(commit.info.get("userMetadata"))
        if (run.dag_id, run.task_id, run.run_id) != (current.dag_id, current.task_id, current.run_id):
            continue
        app_id = f"{prefix}{run.map_index}{suffix}"
        txn = snapshot.transactions.get(app_id)
        if txn is not None and app_id in sibling_app_ids:
            check_requests_differ(identity, EarlierCommit(table=table, txn=txn, version=commit.version, run=run))
        sibling_app_ids.discard(app_id)
        if not sibling_app_ids:
            return


def _warn_of_other_request(identity: RunIdentity, earlier: EarlierCommit) -> None:
    """Log a warning if the run resumes a commit of another request, or of an unknown request."""
    current = RunProvenance.from_values(identity.provenance)
    if not current.has_comparable_digest or current.has_same_request(earlier.run):
        return
    if earlier.run.has_comparable_digest:
        _log.warning(
            "Resuming %s, although the request of this retry differs from the request of the commit. These parameters "
            "differ: %s.",
            earlier,
            ", ".join(current.differing_parameters(earlier.run)),
        )
    else:
        _log.warning(
            "Resuming a commit of this task in %s without comparing the requests: an earlier release made the commit, "
            "or the log no longer holds it (transaction %s, version %s).",
            earlier.table,
            earlier.txn.version,
            earlier.version,
        )


def result_of_version(store: LogStore, version: int, app_id: str, metadata: Metadata | None = None) -> OperationResult:
    """Return the result of the run that committed `version`, marked as skipped.

    The result names the touched partitions if the table's `metadata` is given, or if the commit sets the metadata.

    Raises:
        CommitStateUnknownError: the log no longer holds the commit.
    """
    commit = run_commit_of(store, version, app_id)
    if commit is None:
        raise CommitStateUnknownError(
            f"Another task attempt of this run committed version {version} of {store.root}, but that commit is no "
            "longer in the log.",
            remedy="Check the table's history before you run the task again.",
        )
    return _skipped_result(commit, commit.txn, store.root, metadata)


def _skipped_result(
    commit: RunCommit | None, txn: SetTransaction, table: str, metadata: Metadata | None
) -> OperationResult:
    """Return the result in the provenance of an earlier commit, marked as skipped.

    Another program may have written the provenance, so a value of an unexpected type counts as absent.
    """
    info = commit.info if commit else {}
    operation, timestamp_ms = info.get("operation"), _int64(info.get("timestamp"))
    return OperationResult(
        table=table,
        operation=operation if isinstance(operation, str) else "UNKNOWN",
        version=commit.version if commit else None,
        read_version=_int64(info.get("readVersion")),
        committed=False,
        skipped=True,
        app_id=txn.app_id,
        txn_version=txn.version,
        timestamp=txn.last_updated_ms if timestamp_ms is None else timestamp_ms,
        metrics=_metrics(info.get("operationMetrics")),
        source_versions=source_versions_of(info.get("operationParameters")),
        out_of_order=RunProvenance.from_text(info.get("userMetadata")).out_of_order,
        partitions=_partitions(commit, metadata),
        flows=flow_ranges_of(info.get("operationParameters")),
        audits=audit_results_of(info.get("operationParameters")),
        quarantine=quarantine_of(info.get("operationParameters"), _metrics(info.get("operationMetrics"))),
    )


def _partitions(commit: RunCommit | None, metadata: Metadata | None) -> tuple[str, ...] | None:
    """Name the partitions in which the commit changed rows; None if there are too many, or if they are unknown."""
    metadata = metadata if commit is None or commit.metadata is None else commit.metadata
    if metadata is None or (commit is None and metadata.partition_columns):
        return None
    return partition_names(metadata, () if commit is None else commit.changed_partitions)


def _metrics(values: Any) -> dict[str, int]:
    """Return the metrics of a commit that are 64-bit integers; Delta writes them as text."""
    if not isinstance(values, Mapping):
        return {}
    numbers = {name: _int64(int(text)) for name, value in values.items() if _INTEGER.fullmatch(text := str(value))}
    return {name: number for name, number in numbers.items() if number is not None}


def _int64(value: Any) -> int | None:
    """Return the value if it is a 64-bit integer, else None."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and -(2**63) <= value < 2**63 else None


def source_versions_of(parameters: Any) -> dict[str, int]:
    """Return the versions of the Delta tables that an operation read, from the operation parameters of its commit.

    The result is empty if the parameters have no valid value for `SOURCE_VERSIONS`.
    """
    text = parameters.get(SOURCE_VERSIONS) if isinstance(parameters, Mapping) else None
    if not isinstance(text, str):
        return {}
    try:
        versions = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(versions, Mapping) or any(_int64(version) is None for version in versions.values()):
        return {}
    return dict(versions)


def find_run(store: LogStore, identity: RunIdentity) -> OperationResult | None:
    """Return `earlier_result` for the newest snapshot, or None if there is no table.

    Raises:
        RerunDiffersError: as `earlier_result`.
        TableError, StorageError: the log cannot be read.
    """
    snapshot = newest_snapshot(store)
    return None if snapshot is None else earlier_result(snapshot, store.root, identity)


def newest_snapshot(store: LogStore) -> Snapshot | None:
    """Return the newest snapshot, or None if there is no table.

    Raises:
        TableError, StorageError: the log cannot be read.
    """
    try:
        return Snapshot.load(store)
    except TableNotFoundError:
        return None

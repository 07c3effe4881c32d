"""Which commit a run made: looked up by app id, newest commits first.

The commit's own provenance is the result of the run, so a task whose answer was lost, or that runs again, reports the
same version and the same metrics. Protocol: Transaction Identifiers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deltalite.errors import CommitStateUnknownError, TableNotFoundError, VersionGapError
from deltalite.log.action_files import read_actions, read_blocks
from deltalite.log.listing import list_log
from deltalite.protocol.actions import AddFile, CommitInfo, SetTransaction, from_json, iter_raw_actions
from deltalite.protocol.file_names import commit_name
from deltalite.results import OperationResult
from deltalite.snapshot import Snapshot
from deltalite.storage.log_store import LogStore
from deltalite.txn.proposal import SOURCE_VERSIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCommit:
    """A commit that carries the app id of a run: its provenance, and the paths it added, as in the log."""

    version: int
    txn: SetTransaction
    info: Mapping[str, Any]
    added_paths: frozenset[str]


def find_run_commit(store: LogStore, app_id: str, *, at_or_below: int) -> RunCommit | None:
    """The newest commit of `app_id` up to a version, or None where the log no longer holds it.

    A version that a listing does not show yet is looked for by its name, since the caller has seen it.
    """
    sizes = {version: file.size_bytes for version, file in list_log(store, 0).commits.items()}
    unlisted = range(max(sizes, default=-1) + 1, at_or_below + 1)
    for version in sorted({*sizes, *unlisted}, reverse=True):
        found = run_commit_of(store, version, app_id, sizes.get(version)) if version <= at_or_below else None
        if found is not None:
            return found
    return None


def run_commit_of(store: LogStore, version: int, app_id: str, size_bytes: int | None = None) -> RunCommit | None:
    """The commit of `version`, where it is one of the run and still there; a size that is known saves a request."""
    name = commit_name(version)
    try:
        txn = _transaction(store, name, size_bytes, app_id)
        return None if txn is None else _run_commit(store, name, size_bytes, version, txn)
    except VersionGapError:
        return None


def _transaction(store: LogStore, name: str, size_bytes: int | None, app_id: str) -> SetTransaction | None:
    """The transaction of `app_id` in a commit; only blocks with its name in them are parsed."""
    needle, line = json.dumps(app_id).encode(), 1
    for block in read_blocks(store, name, size_bytes):
        for kind, body in iter_raw_actions(block, name, first_line=line) if needle in block else ():
            if kind == SetTransaction.action and body.get("appId") == app_id:
                return from_json(SetTransaction, body, name)
        line += block.count(b"\n")
    return None


def _run_commit(store: LogStore, name: str, size_bytes: int | None, version: int, txn: SetTransaction) -> RunCommit:
    info: Mapping[str, Any] | None = None
    added: set[str] = set()
    for kind, body in read_actions(store, name, size_bytes):
        if kind == CommitInfo.action:
            info = body if info is None else info
        elif kind == AddFile.action:
            added.add(from_json(AddFile, body, name).path)
    return RunCommit(version=version, txn=txn, info=info or {}, added_paths=frozenset(added))


def earlier_result(snapshot: Snapshot, table: str, app_id: str, txn_version: int) -> OperationResult | None:
    """The result of an earlier try of this run, marked as skipped; None where the run has not committed.

    A stored version at or above `txn_version` means done: an older try that comes late must not write again.
    """
    stored = snapshot.transactions.get(app_id)
    if stored is None or stored.version < txn_version:
        return None
    found = find_run_commit(snapshot.store, app_id, at_or_below=snapshot.version)
    return _told(found, stored, table)


def result_of_version(store: LogStore, version: int, app_id: str) -> OperationResult:
    """The result of the run that is known to have committed `version`, marked as skipped.

    Raises:
        CommitStateUnknownError: the log does not show it any more.
    """
    found = run_commit_of(store, version, app_id)
    if found is None:
        raise CommitStateUnknownError(
            f"Another try of this run committed version {version} of {store.root}, and it is no longer there.",
            remedy="Look at the table's history before the task is run again.",
        )
    return _told(found, found.txn, store.root)


def _told(found: RunCommit | None, stored: SetTransaction, table: str) -> OperationResult:
    info = found.info if found else {}
    metrics = info.get("operationMetrics") or {}
    return OperationResult(
        table=table,
        operation=str(info.get("operation", "UNKNOWN")),
        version=found.version if found else None,
        read_version=info.get("readVersion"),
        committed=False,
        skipped=True,
        app_id=stored.app_id,
        txn_version=stored.version,
        timestamp=info.get("timestamp", stored.last_updated_ms),
        metrics={name: int(value) for name, value in metrics.items() if str(value).lstrip("-").isdigit()},
        source_versions=source_versions_of(info.get("operationParameters")),
    )


def source_versions_of(parameters: Any) -> dict[str, int]:
    """The versions of the Delta tables that an operation read, as the parameters in its commit say them."""
    text = parameters.get(SOURCE_VERSIONS) if isinstance(parameters, Mapping) else None
    return dict(json.loads(text)) if isinstance(text, str) else {}


def find_run(store: LogStore, app_id: str, txn_version: int) -> OperationResult | None:
    """`earlier_result` on the newest snapshot; None too where there is no table yet."""
    try:
        snapshot = Snapshot.load(store)
    except TableNotFoundError:
        return None
    return earlier_result(snapshot, store.root, app_id, txn_version)

"""Which commit a run made: looked up by app id, newest commits first.

The commit's own provenance is the result of the run, so a task whose answer was lost, or that runs again, reports the
same version and the same metrics. Protocol: Transaction Identifiers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from deltalite.errors import TableNotFoundError
from deltalite.log.commit_times import commit_times
from deltalite.protocol.actions import Action, AddFile, CommitInfo, SetTransaction, parse_commit
from deltalite.protocol.file_names import commit_name
from deltalite.results import OperationResult
from deltalite.snapshot import Snapshot
from deltalite.storage.log_store import LogStore


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCommit:
    """A commit that carries the app id of a run."""

    version: int
    txn: SetTransaction
    actions: Sequence[Action]

    @property
    def added_paths(self) -> frozenset[str]:
        """The paths it added, as in the log."""
        return frozenset(a.path for a in self.actions if isinstance(a, AddFile))


def find_run_commit(store: LogStore, app_id: str, *, at_or_below: int) -> RunCommit | None:
    """The newest commit of `app_id` up to a version, or None where the log no longer holds it."""
    needle = json.dumps(app_id).encode()
    for time in reversed(commit_times(store)):
        if time.version > at_or_below:
            continue
        name = commit_name(time.version)
        data = store.read(name)
        if data is None or needle not in data:
            continue
        actions = parse_commit(data, name)
        txn = next((a for a in actions if isinstance(a, SetTransaction) and a.app_id == app_id), None)
        if txn is not None:
            return RunCommit(version=time.version, txn=txn, actions=actions)
    return None


def earlier_result(snapshot: Snapshot, table: str, app_id: str, txn_version: int) -> OperationResult | None:
    """The result of an earlier try of this run, marked as skipped; None where the run has not committed.

    A stored version at or above `txn_version` means done: an older try that comes late must not write again.
    """
    stored = snapshot.transactions.get(app_id)
    if stored is None or stored.version < txn_version:
        return None
    found = find_run_commit(snapshot.store, app_id, at_or_below=snapshot.version)
    info = next((a.values for a in found.actions if isinstance(a, CommitInfo)), {}) if found else {}
    metrics = info.get("operationMetrics") or {}
    return OperationResult(
        table=table,
        operation=str(info.get("operation", "UNKNOWN")),
        version=found.version if found else None,
        read_version=info.get("readVersion"),
        committed=False,
        skipped=True,
        app_id=app_id,
        txn_version=stored.version,
        timestamp=info.get("timestamp", stored.last_updated_ms),
        metrics={name: int(value) for name, value in metrics.items() if str(value).lstrip("-").isdigit()},
    )


def find_run(store: LogStore, app_id: str, txn_version: int) -> OperationResult | None:
    """`earlier_result` on the newest snapshot; None too where there is no table yet."""
    try:
        snapshot = Snapshot.load(store)
    except TableNotFoundError:
        return None
    return earlier_result(snapshot, store.root, app_id, txn_version)

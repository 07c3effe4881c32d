"""The run behind a commit: its transaction identifier, and what history shows of it.

Every command records its run the same way, also when it changed no row, so that a retry finds itself.
Protocol: Transaction Identifiers; `commitInfo.userMetadata`.
"""

from __future__ import annotations

import json
from typing import Any

from deltalite.errors import CommitStateUnknownError
from deltalite.protocol.actions import SetTransaction
from deltalite.requests import RunIdentity
from deltalite.results import OperationResult
from deltalite.snapshot import Snapshot
from deltalite.storage.log_store import LogStore
from deltalite.txn.find_run import earlier_result


def transaction(identity: RunIdentity | None, *, now_ms: int) -> SetTransaction | None:
    """The `txn` action of a run, None where no run is known."""
    if identity is None:
        return None
    return SetTransaction(app_id=identity.app_id, version=identity.txn_version, last_updated_ms=now_ms)


def user_metadata(identity: RunIdentity | None, text: str | None) -> str | None:
    """The run as JSON, with the user's own text under `user_metadata`; the text alone where no run is known."""
    if identity is None or not identity.details:
        return text
    details: dict[str, Any] = dict(identity.details)
    if text is not None:
        details["user_metadata"] = text
    return json.dumps(details)


def result_of_another_try(store: LogStore, identity: RunIdentity | None) -> OperationResult:
    """The result that another try of this run has left in the log, after the commit was found to be its.

    Raises:
        CommitStateUnknownError: the log does not show it any more.
    """
    found = None
    if identity is not None:
        found = earlier_result(Snapshot.load(store), store.root, identity.app_id, identity.txn_version)
    if found is None:
        raise CommitStateUnknownError(
            f"Another try of this run committed to {store.root}, and its commit is no longer there.",
            remedy="Look at the table's history before the task is run again.",
        )
    return found

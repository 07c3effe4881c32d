"""The run that makes a commit: its transaction identifier, and its entry in the table's history.

Every command that commits records its run in the same way, even if it changed no row, so that a retry finds the commit.
Protocol: Transaction Identifiers; `commitInfo.userMetadata`.
"""

from __future__ import annotations

import json

from deltalite.protocol.actions import SetTransaction
from deltalite.requests import RunIdentity
from deltalite.snapshot import Snapshot


def transaction(identity: RunIdentity | None, base: Snapshot | None, *, now_ms: int) -> SetTransaction | None:
    """Return the `txn` action of a run that commits on `base`, or None without a run identity.

    The table may already have a `txn` action with the same app id: from a run with the same `idempotency_key`, or from
    the task before it was cleared. The new `txn` then has a higher version. Two attempts of one run choose the same
    version on the same base, so only one of them commits.
    """
    if identity is None:
        return None
    latest = None if base is None else base.transactions.get(identity.app_id)
    version = identity.txn_version if latest is None else max(identity.txn_version, latest.version + 1)
    return SetTransaction(app_id=identity.app_id, version=version, last_updated_ms=now_ms)


def user_metadata(identity: RunIdentity | None, text: str | None) -> str | None:
    """Return the run's provenance as JSON, with the user's `text` under `user_metadata`.

    Without provenance, return `text` unchanged.
    """
    provenance = {} if identity is None else identity.provenance
    if not provenance:
        return text
    if text is not None:
        provenance["user_metadata"] = text
    return json.dumps(provenance)

"""The run behind a commit: its transaction identifier, and its entry in the table's history.

Every command records its run in the same way, even if it changed no row, so that a retry finds the commit.
Protocol: Transaction Identifiers; `commitInfo.userMetadata`.
"""

from __future__ import annotations

import json

from deltalite.protocol.actions import SetTransaction
from deltalite.requests import RunIdentity
from deltalite.snapshot import Snapshot


def transaction(identity: RunIdentity | None, base: Snapshot | None, *, now_ms: int) -> SetTransaction | None:
    """Return the `txn` action of a run that commits on `base`, or None without a run identity.

    The version is above the stored one, because the stored commit belongs to another run of the same key or to another
    generation. Two attempts of one run choose the same version, so only one of them commits.
    """
    if identity is None:
        return None
    stored = None if base is None else base.transactions.get(identity.app_id)
    version = identity.txn_version if stored is None else max(identity.txn_version, stored.version + 1)
    return SetTransaction(app_id=identity.app_id, version=version, last_updated_ms=now_ms)


def user_metadata(identity: RunIdentity | None, text: str | None) -> str | None:
    """Return the run as JSON, with the user's text under `user_metadata`; without a run, return the text alone."""
    values = {} if identity is None else identity.provenance
    if not values:
        return text
    if text is not None:
        values["user_metadata"] = text
    return json.dumps(values)

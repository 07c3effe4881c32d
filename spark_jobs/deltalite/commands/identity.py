"""The run behind a commit: its transaction identifier, and what history shows of it.

Every command records its run the same way, also when it changed no row, so that a retry finds itself.
Protocol: Transaction Identifiers; `commitInfo.userMetadata`.
"""

from __future__ import annotations

import json

from deltalite.protocol.actions import SetTransaction
from deltalite.requests import RunIdentity
from deltalite.snapshot import Snapshot


def transaction(identity: RunIdentity | None, base: Snapshot | None, *, now_ms: int) -> SetTransaction | None:
    """The `txn` action of a run that commits on `base`, None where no run is known.

    The version is above the stored one, since the run has work to do: the stored commit belongs to another run of the
    same key, or to another generation. Two tries of one run choose the same version, so only one of them commits.
    """
    if identity is None:
        return None
    stored = None if base is None else base.transactions.get(identity.app_id)
    version = identity.txn_version if stored is None else max(identity.txn_version, stored.version + 1)
    return SetTransaction(app_id=identity.app_id, version=version, last_updated_ms=now_ms)


def user_metadata(identity: RunIdentity | None, text: str | None) -> str | None:
    """The run as JSON, with the user's own text under `user_metadata`; the text alone where no run is known."""
    values = {} if identity is None else identity.provenance
    if not values:
        return text
    if text is not None:
        values["user_metadata"] = text
    return json.dumps(values)

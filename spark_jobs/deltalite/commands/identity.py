"""The run behind a commit: its transaction identifier, and what history shows of it.

Every command records its run the same way, also when it changed no row, so that a retry finds itself.
Protocol: Transaction Identifiers; `commitInfo.userMetadata`.
"""

from __future__ import annotations

import json
from typing import Any

from deltalite.protocol.actions import SetTransaction
from deltalite.requests import RunIdentity


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

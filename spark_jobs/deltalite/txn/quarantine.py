"""The records that link a commit to the rows that it rejected.

The operation parameters of the commit name the quarantine table. The quarantine table has a transaction for each run.
The functions here do no I/O. Protocol: Transaction Identifiers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from deltalite.results import QuarantineResult

if TYPE_CHECKING:
    from deltalite.snapshot import Snapshot

QUARANTINE, QUARANTINE_VERSION = "quarantine", "quarantineVersion"
"""The operation parameters with the address of the quarantine table, and the version that has the rows of the run."""
QUARANTINED_ROWS = "numQuarantinedRows"
"""The operation metric with the number of rows that the run put into quarantine."""

_VERSION = re.compile(r"\d{1,18}", re.ASCII)


def quarantine_app_id(run_app_id: str, target_address: str) -> str:
    """Return the app id of a run in its quarantine table.

    `run_app_id` is the app id of the run in the table at the canonical `target_address`. Runs with one
    `idempotency_key` may load into several tables and share a quarantine.
    """
    return f"deltalite-quarantine/{target_address}/{run_app_id}"


def transaction_version(snapshot: Snapshot | None, app_id: str) -> int:
    """Return the version of the transaction of an app id, -1 without a transaction or without a table."""
    txn = None if snapshot is None else snapshot.transactions.get(app_id)
    return -1 if txn is None else txn.version


def may_have_uncommitted_rows(
    quarantine: Snapshot | None, target: Snapshot, *, run_app_id: str, target_address: str
) -> bool:
    """Whether a quarantine may have rows of a run that the run has not committed to its target."""
    app_id = quarantine_app_id(run_app_id, target_address)
    return transaction_version(quarantine, app_id) > transaction_version(target, run_app_id)


def quarantine_parameters(quarantine: QuarantineResult) -> dict[str, str]:
    """Return the operation parameters that name the quarantine of a commit."""
    version = {} if quarantine.version is None else {QUARANTINE_VERSION: str(quarantine.version)}
    return {QUARANTINE: quarantine.table, **version}


def quarantine_of(parameters: Any, metrics: Mapping[str, int]) -> QuarantineResult | None:
    """Return the quarantine from the operation parameters and metrics of a commit, or None if they name none.

    Another program may have written the parameters, so a value of an unexpected type counts as absent.
    """
    table = parameters.get(QUARANTINE) if isinstance(parameters, Mapping) else None
    if not isinstance(table, str) or QUARANTINED_ROWS not in metrics:
        return None
    version = parameters.get(QUARANTINE_VERSION)
    return QuarantineResult(
        table=table,
        version=int(version) if isinstance(version, str) and _VERSION.fullmatch(version) else None,
        rows=metrics[QUARANTINED_ROWS],
    )

"""The check for runs of later data intervals that have committed before this run: `out_of_order`.

The check uses the snapshot that the commit is based on, after the plan is made. So only those later runs count that
could have touched the same rows. An out-of-order commit has `out_of_order` in its provenance.
"""

from __future__ import annotations

import json
import logging
from dataclasses import replace

from deltalite.errors import OutOfOrderError
from deltalite.requests import OutOfOrder, RowsRequest, RunIdentity, WriteRequest
from deltalite.snapshot import Snapshot
from deltalite.txn.later_runs import LaterRuns, later_runs
from deltalite.txn.proposal import Operation, ReadSet

_log = logging.getLogger(__name__)


def is_out_of_order(request: RowsRequest | WriteRequest, base: Snapshot, reads: ReadSet) -> bool:
    """Whether later runs changed rows that this operation may touch, and the request accepts it with a warning.

    Raises:
        OutOfOrderError: the request does not accept it.
    """
    identity = request.identity
    if identity is None or request.out_of_order is OutOfOrder.ALLOW:
        return False
    later = later_runs(base, identity, reads)
    if later.unreadable:
        _log.warning(
            "The log of %s no longer holds the commits of %s. These runs may have later data intervals, and it is "
            "unknown which rows they touched.",
            base.store.root,
            ", ".join(later.unreadable[:5]),
        )
    if not later.runs:
        return False
    problem = (
        f"Runs of later data intervals have changed rows of {base.store.root} that this {request.kind} may touch: "
        f"{', '.join(str(run) for run in later.runs)}."
    )
    if _policy(request.out_of_order, identity, later) is OutOfOrder.FAIL:
        raise OutOfOrderError(
            f"{problem} This run is older, and could undo their changes. Nothing was written.",
            remedy="To keep the earlier commit, set on_rerun='skip'. If the operation gives the same rows in any "
            "order, set out_of_order='allow'. To build the rows again, set out_of_order='warn' and clear the later "
            "runs too, so that they run after this one.",
        )
    _log.warning("%s This run is older, and may undo their changes.", problem)
    return True


def _policy(requested: OutOfOrder | None, identity: RunIdentity, later: LaterRuns) -> OutOfOrder:
    """Return the requested policy. By default a cleared task fails, and a first run, such as a backfill, warns."""
    if requested is not None:
        return requested
    is_first = identity.generation == 0 and not later.has_committed_before
    return OutOfOrder.WARN if is_first else OutOfOrder.FAIL


def with_out_of_order(operation: Operation, *, out_of_order: bool) -> Operation:
    """Return the operation, with `out_of_order` in its provenance if it is true."""
    if not out_of_order or operation.user_metadata is None:
        return operation
    values = json.loads(operation.user_metadata)
    return replace(operation, user_metadata=json.dumps({**values, "out_of_order": True}))

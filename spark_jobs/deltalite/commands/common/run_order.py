"""The check for runs of later data intervals that have committed before this run: `out_of_order`.

The check runs after the command has planned, on the snapshot of the plan. A later run counts if it may have touched
the same rows. An out-of-order commit has `out_of_order` in its provenance.
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


def check_run_order(request: RowsRequest | WriteRequest, base: Snapshot, reads: ReadSet) -> bool:
    """Return whether later runs have changed rows that this operation may touch.

    With `out_of_order="allow"`, or without a run identity, skip the search and return False. With "warn", log a warning
    that names the later runs.

    Raises:
        OutOfOrderError: later runs have changed such rows, and the policy is "fail".
    """
    identity = request.identity
    if identity is None or request.out_of_order is OutOfOrder.ALLOW:
        return False
    search_result = later_runs(base, identity, reads)
    if search_result.unreadable_app_ids:
        _log.warning(
            "Cannot check the run order for all runs: the log of %s no longer contains the commits of these runs, "
            "which may have later data intervals: %s",
            base.store.root,
            ", ".join(search_result.unreadable_app_ids[:5]),
        )
    if not search_result.runs:
        return False
    problem = (
        f"Runs of later data intervals have changed rows of {base.store.root} that this {request.kind} may touch: "
        f"{', '.join(str(run) for run in search_result.runs)}."
    )
    if _policy(request.out_of_order, identity, search_result) is OutOfOrder.FAIL:
        raise OutOfOrderError(
            f"{problem} This run is older, and could undo their changes. Nothing was committed.",
            remedy="To keep the earlier commit, set on_rerun='skip'. If the order of the runs does not matter for the "
            "rows, set out_of_order='allow'. To build the rows again, set out_of_order='warn' and clear the later "
            "runs too, so that they run after this one.",
        )
    _log.warning("%s This run is older, and may undo their changes.", problem)
    return True


def _policy(requested: OutOfOrder | None, identity: RunIdentity, search_result: LaterRuns) -> OutOfOrder:
    """Return the requested policy. By default a cleared task fails, and a first run, such as a backfill, warns."""
    if requested is not None:
        return requested
    is_first_run = identity.generation == 0 and not search_result.has_committed_before
    return OutOfOrder.WARN if is_first_run else OutOfOrder.FAIL


def with_out_of_order(operation: Operation, *, out_of_order: bool) -> Operation:
    """Return the operation, with `out_of_order` in its provenance if the argument is true.

    An operation without `user_metadata` has no provenance and stays unchanged.
    """
    if not out_of_order or operation.user_metadata is None:
        return operation
    provenance = json.loads(operation.user_metadata)
    return replace(operation, user_metadata=json.dumps({**provenance, "out_of_order": True}))

"""The run identity of a step: the app id of the run, followed by the name of the step.

An optimize and a vacuum of one run both commit to the log of a table, so each needs a separate transaction. The
identity has no digest of the request: a retry with other thresholds continues, because no step changes a row.
"""

from __future__ import annotations

from dataclasses import replace

from deltalite.commands.common.committing import find_earlier_result
from deltalite.inspection.table_rows import Outcome, StepOutcome, TableRow
from deltalite.requests import MaintainRequest, OptimizeRequest, RunIdentity, Step
from deltalite.snapshot import Snapshot

_STEPS_WITH_COMMIT = (Step.OPTIMIZE, Step.VACUUM)


def identity_of_step(identity: RunIdentity | None, step: Step) -> RunIdentity | None:
    """Return the identity under which the step commits; None for a run without an identity."""
    if identity is None:
        return None
    app_id = f"{identity.app_id}/{step}"
    return replace(identity, app_id=app_id, request_digest=None, parameter_digests={}, sibling_ids=None)


def with_earlier_steps(request: MaintainRequest, snapshot: Snapshot, row: TableRow) -> TableRow:
    """Return the row with the outcome of each step that an earlier attempt of the run has committed.

    Raises: as `find_earlier_result`.
    """
    if request.identity is None:
        return row
    for step in _STEPS_WITH_COMMIT:
        step_request = OptimizeRequest(table=snapshot.store.root, identity=identity_of_step(request.identity, step))
        result = find_earlier_result(step_request, snapshot)
        if result is not None:
            reason = "an earlier attempt of this task committed it"
            row = row.with_step(
                StepOutcome(step=step, outcome=Outcome.DONE_EARLIER, reason=reason, version=result.version)
            )
    return row

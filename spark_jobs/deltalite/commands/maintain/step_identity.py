"""The run identity of a step: the app id of the run, followed by the name of the step.

An optimize and a vacuum of one run both commit to the log of a table, so each needs a separate transaction. The
identity has no digest of the request: a retry with other thresholds continues, because no step changes a row.
"""

from __future__ import annotations

from dataclasses import replace

from deltalite.inspection.table_rows import Outcome, StepOutcome, TableRow
from deltalite.requests import MaintainRequest, RunIdentity, Step
from deltalite.snapshot import Snapshot
from deltalite.txn.find_run import earlier_result

EARLIER_ATTEMPT = "an earlier attempt of this task committed it"
"""The reason of a step that an earlier attempt of the run has committed."""
_STEPS_WITH_COMMIT = (Step.OPTIMIZE, Step.VACUUM)


def identity_of_step(identity: RunIdentity | None, step: Step) -> RunIdentity | None:
    """Return the identity under which the step commits; None for a run without an identity."""
    return None if identity is None else _step_identity(identity, step)


def with_earlier_steps(request: MaintainRequest, snapshot: Snapshot, row: TableRow) -> TableRow:
    """Return the row with the outcome of each step that an earlier attempt of the run has committed.

    Raises:
        CorruptLogError: as `Snapshot.check_log`.
    """
    if request.identity is None:
        return row
    snapshot.check_log()
    for step in _STEPS_WITH_COMMIT:
        result = earlier_result(snapshot, snapshot.store.root, _step_identity(request.identity, step))
        if result is not None:
            version, outcome = result.version, Outcome.DONE_EARLIER
            row = row.with_step(StepOutcome(step=step, outcome=outcome, reason=EARLIER_ATTEMPT, version=version))
    return row


def _step_identity(identity: RunIdentity, step: Step) -> RunIdentity:
    app_id = f"{identity.app_id}/{step}"
    return replace(identity, app_id=app_id, request_digest=None, parameter_digests={}, sibling_ids=None)

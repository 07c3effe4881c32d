"""Decides whether a run resumes the commit with its app id, or does its work.

A retry is the same task of the same DAG run with the same number of clears (the generation), and resumes the commit.
Any other run with this app id is a cleared run, another run under the same idempotency key, or a DAG run that was
deleted and created again. For such a run, `on_rerun` decides:

- With `skip` the run resumes a commit of the same request. It fails if the request differs.
- With `write` the run does its work.
- With `replace` the run does its work. It fails if the request differs and the app id names the position of a mapped
  task.

Two such runs resume the commit even with `write` or `replace`: a late task attempt of an older generation, and a DAG
run that was created again with the same request. If one of the two requests has no digest, the transaction version and
the times decide.

The functions here do no I/O. Protocol: Transaction Identifiers.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto

from deltalite.errors import RerunDiffersError
from deltalite.protocol.actions import SetTransaction
from deltalite.requests import OnRerun, RunIdentity, RunProvenance
from deltalite.requests.provenance import parse_time


class Rerun(Enum):
    """The decision of a run that finds an earlier commit with its app id."""

    RESUME = auto()
    """The run returns the result of the earlier commit."""
    WORK = auto()
    """The run does its work on top of the earlier commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierCommit:
    """An earlier commit of an app id.

    `version` is None and `run` is empty if the log no longer holds the commit.
    """

    table: str
    txn: SetTransaction
    version: int | None
    run: RunProvenance

    def __str__(self) -> str:
        return f"version {self.version} of {self.table} ({self.run})"


def decide(identity: RunIdentity, earlier: EarlierCommit) -> Rerun:
    """Decide whether the run resumes an earlier commit of its app id or does its work.

    Raises:
        RerunDiffersError: the commit was made for a different request, and `on_rerun` does not allow another write.
    """
    current = RunProvenance.from_values(identity.provenance)
    # Case 1: the commit has no digest, because an earlier release made it or the log no longer holds it.
    if not current.has_comparable_digest or not earlier.run.has_comparable_digest:
        return _decide_without_digests(identity, current, earlier)
    same_request = current.has_same_request(earlier.run)
    generation = earlier.run.generation or 0
    if current.is_same_task_instance(earlier.run) and not _is_later_dag_run(current, earlier.run):
        # Case 2: a retry resumes, even if its templates render other values.
        if identity.generation == generation:
            return Rerun.RESUME
        # Case 3: a late task attempt of an older generation must not write.
        if identity.generation < generation and (same_request or identity.on_rerun is not OnRerun.SKIP):
            return Rerun.RESUME
    # Case 4: the DAG run was created again under the same id, with the same request.
    elif current.is_same_task_instance(earlier.run) and same_request and identity.generation <= generation:
        return Rerun.RESUME
    # Case 5: a clear, another run of the same key, or a DAG run that was created again.
    if identity.on_rerun is OnRerun.SKIP and same_request:
        return Rerun.RESUME
    if identity.on_rerun is OnRerun.WRITE or same_request:
        return Rerun.WORK
    if identity.on_rerun is OnRerun.REPLACE and not identity.is_mapped_by_position:
        return Rerun.WORK
    raise _request_differs_error(identity, current, earlier)


def resumes_concurrent_commit(current: RunProvenance, winner: RunProvenance) -> bool:
    """Whether a winning commit with the app id of this run did the work of this run.

    True also if one of the two has no digest of its request.
    """
    if not current.has_comparable_digest or not winner.has_comparable_digest:
        return True
    if current.is_same_task_instance(winner) and current.generation == winner.generation:
        return True
    return current.has_same_request(winner) and current.run_id == winner.run_id


def check_requests_differ(identity: RunIdentity, sibling: EarlierCommit) -> None:
    """Check that another position of the same mapped task has not committed the request of this position.

    Raises:
        RerunDiffersError: the other position committed the same request, so the items have changed their positions.
    """
    current = RunProvenance.from_values(identity.provenance)
    if current.has_same_request(sibling.run):
        raise RerunDiffersError(
            f"Nothing was written: the items of this mapped task changed their positions. {sibling} contains the "
            f"request of {current}.",
            remedy=_KEY_REMEDY,
        )


_KEY_REMEDY = (
    "Give the operator an `idempotency_key` that names the item, such as '{{ source }}'. To write the item again, set "
    "on_rerun='write'."
)


def _decide_without_digests(identity: RunIdentity, current: RunProvenance, earlier: EarlierCommit) -> Rerun:
    if earlier.txn.version < identity.txn_version:
        return Rerun.WORK
    may_write_again = identity.on_rerun is not OnRerun.SKIP
    start = parse_time(current.run_start)
    if may_write_again and current.idempotency_key is not None and start is not None and is_before(earlier.txn, start):
        return Rerun.WORK  # another run made the commit, before this DAG run began
    return Rerun.RESUME


def is_before(txn: SetTransaction, time: datetime) -> bool:
    """Whether the transaction was committed before a time; False if it has no time."""
    return txn.last_updated_ms is not None and txn.last_updated_ms < time.timestamp() * 1000


def _is_later_dag_run(current: RunProvenance, earlier: RunProvenance) -> bool:
    """Whether the current DAG run began after the commit's DAG run, because it was cleared or created again."""
    start, earlier_start = parse_time(current.run_start), parse_time(earlier.run_start)
    return start is not None and earlier_start is not None and start > earlier_start


def _request_differs_error(identity: RunIdentity, current: RunProvenance, earlier: EarlierCommit) -> RerunDiffersError:
    names = ", ".join(current.differing_parameters(earlier.run)) or "unknown"
    remedy = (
        _KEY_REMEDY
        if identity.is_mapped_by_position
        else "To write the rows of the new request, set on_rerun='write', or 'replace' for an append. To keep the "
        "commit, restore the earlier request."
    )
    return RerunDiffersError(
        f"Nothing was written: this task has committed {earlier}, and its request differs now ({current}). "
        f"These parameters differ: {names}.",
        remedy=remedy,
    )

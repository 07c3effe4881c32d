"""The last step of every command that commits: commit, keep the new files, run the upkeep and return the result."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from deltalite.commands.common.effort import with_effort
from deltalite.commands.common.run_identity import transaction
from deltalite.errors import CommitStateUnknownError, DeltaLiteError
from deltalite.phases import PHASES, Phase
from deltalite.protocol.features import check_writable
from deltalite.protocol.file_names import commit_name
from deltalite.protocol.touched_partitions import changed_partitions
from deltalite.requests import CommitRequest, RunProvenance
from deltalite.results import OperationResult
from deltalite.snapshot import Snapshot
from deltalite.spark.hadoop.tree import tree_of
from deltalite.spark.large_tables.large_checkpoint import write_any_checkpoint
from deltalite.txn.audits import audit_results_of
from deltalite.txn.commit import Committed, CommittedByAnotherAttempt, commit
from deltalite.txn.find_run import earlier_result, result_of_version, source_versions_of
from deltalite.txn.flows import flow_ranges_of
from deltalite.txn.proposal import BaseState, Operation, Proposal
from deltalite.txn.quarantine import quarantine_of
from deltalite.upkeep.derived_state import DerivedState, derive_state, state_after_commit
from deltalite.upkeep.post_commit import after_commit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltalite.storage.log_store import LogStore


class PendingFiles(Protocol):
    """Files that were written for a commit. The owner removes these files if no method below was called."""

    def keep_published(self) -> None:
        """Keep the files that the proposal refers to."""

    def keep_all(self) -> None:
        """Keep all files, because it is unknown whether the log refers to them."""


def find_earlier_result(request: CommitRequest, base: Snapshot) -> OperationResult | None:
    """Check that the log is complete, and return the result of an earlier attempt of the run, or None.

    Raises:
        CorruptLogError: as `Snapshot.check_log`.
        RerunDiffersError: as `txn.find_run.earlier_result`.
    """
    base.check_log()
    identity = request.identity
    return None if identity is None else earlier_result(base, base.store.root, identity)


def commit_proposal(
    spark: SparkSession, request: CommitRequest, store: LogStore, proposal: Proposal, files: Sequence[PendingFiles] = ()
) -> OperationResult:
    """Commit the proposal, run the post-commit upkeep and return the result.

    If another attempt of the same run has committed, return the result of that attempt, without upkeep. `files` were
    written for this commit. They stay if the log refers or may refer to them.

    Raises:
        DeltaLiteError: as `txn.commit.commit`.
        CommitStateUnknownError: another attempt has committed, and the log no longer holds its commit.
    """
    PHASES.begin(Phase.COMMIT)
    proposal = replace(proposal, operation=with_effort(proposal.operation))
    try:
        outcome = commit(store, proposal)
        if not isinstance(outcome, CommittedByAnotherAttempt):
            for pending_files in files:
                pending_files.keep_published()
    except BaseException as error:
        # Any DeltaLiteError except CommitStateUnknownError means that the commit is not in the log.
        if isinstance(error, CommitStateUnknownError) or not isinstance(error, DeltaLiteError):
            for pending_files in files:
                pending_files.keep_all()
        raise
    if isinstance(outcome, CommittedByAnotherAttempt):
        return result_of_version(store, outcome.version, outcome.app_id, proposal.metadata or proposal.base.metadata)
    PHASES.begin(Phase.AFTER_COMMIT)
    after_commit(
        store,
        outcome.version,
        derive=partial(_derive_state, proposal.base, outcome),
        checkpoint=partial(write_any_checkpoint, spark),
        tree=partial(tree_of, spark),
    )
    result = operation_result(
        request,
        store,
        proposal.operation.name,
        version=outcome.version,
        read_version=proposal.base.version if proposal.base.version >= 0 else None,
        committed=True,
        timestamp_ms=outcome.timestamp_ms,
        metrics=dict(proposal.operation.metrics),
        source_versions=source_versions_of(proposal.operation.parameters),
        txn_version=None if proposal.txn is None else proposal.txn.version,
    )
    provenance = RunProvenance.from_text(proposal.operation.user_metadata)
    metadata = proposal.metadata or proposal.base.metadata
    partitions = None if metadata is None else changed_partitions(metadata, chain(proposal.adds, proposal.removes))
    parameters = proposal.operation.parameters
    return replace(
        result,
        out_of_order=provenance.out_of_order,
        partitions=partitions,
        flows=flow_ranges_of(parameters),
        audits=audit_results_of(parameters),
        quarantine=quarantine_of(parameters, proposal.operation.metrics),
    )


def _derive_state(base: BaseState, outcome: Committed, store: LogStore, version: int) -> DerivedState | None:
    """Return the state after the commit, or None if it is unknown (`derive_state`).

    If the job has read the previous version completely, send no request to the storage. Otherwise read the log.
    """
    is_on_base = version == base.version + 1
    if is_on_base and base.checksum is not None and base.commit_info is not None and outcome.data is not None:
        return state_after_commit(base.checksum, base.commit_info, outcome.data, commit_name(version))
    return derive_state(store, version)


def record_run(
    spark: SparkSession, request: CommitRequest, store: LogStore, base: Snapshot, operation: Operation
) -> OperationResult:
    """Commit only the `txn` action of a run that changes nothing, so that a retry finds it. Return the result.

    Without a run identity, commit nothing.

    Raises:
        UnsupportedFeatureError: this release cannot write the table.
        DeltaLiteError: as `commit_proposal`.
    """
    if request.identity is None:
        version = base.version
        return operation_result(request, store, operation.name, version=version, read_version=version, committed=False)
    check_writable(base.protocol, base.metadata)
    txn = transaction(request.identity, base, now_ms=now_ms())
    return commit_proposal(spark, request, store, Proposal(base=BaseState.of(base), operation=operation, txn=txn))


def operation_result(
    request: CommitRequest,
    store: LogStore,
    operation: str,
    *,
    version: int,
    read_version: int | None,
    committed: bool,
    timestamp_ms: int | None = None,
    metrics: dict[str, int] | None = None,
    source_versions: Mapping[str, int] | None = None,
    txn_version: int | None = None,
) -> OperationResult:
    """Return the result of this run. `txn_version` is the transaction version of the request by default."""
    identity = request.identity
    return OperationResult(
        table=store.root,
        operation=operation,
        version=version,
        read_version=read_version,
        committed=committed,
        skipped=False,
        app_id=identity.app_id if identity else None,
        txn_version=identity.txn_version if identity and txn_version is None else txn_version,
        timestamp=timestamp_ms,
        metrics=metrics or {},
        source_versions=source_versions or {},
    )


def now_ms() -> int:
    """Return the milliseconds since 1970 (UTC)."""
    return time.time_ns() // 1_000_000

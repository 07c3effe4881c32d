"""The restore command: returns a table to the state of an older version, in one new version.

The steps:

1. Look for an earlier commit of this run.
2. Load the older version (`target`), and compute its difference from the newest version (`base`). Files are compared by
   identity (`restore.files`). `protocol.restoring` computes the protocol and the metadata.
3. Check that the files to add back exist.
4. Run the audits on the table as it would be after the commit: the rows of the older version.
5. Commit. The read set is the whole table, so any concurrent commit that changes rows conflicts.

The commit also restores the source offsets of flows and the record of loaded files, so that the next load brings the
removed rows again.

The command copies no file and deletes none. The versions in between stay, so another restore can undo a restore.
delta-spark: RestoreTableCommand, which refuses the newest version and does not check that vector files exist.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from deltalite.commands.common.append_only import refuse_if_append_only
from deltalite.commands.common.auditing import Auditor, staged_rows
from deltalite.commands.common.committing import commit_proposal, find_earlier_result, now_ms, operation_result
from deltalite.commands.common.replanning import Rebase, replan_on_conflict
from deltalite.commands.common.run_identity import transaction, user_metadata
from deltalite.commands.restore.files import AbsentFiles, Difference, absent_files, difference, refuse_absent
from deltalite.commands.restore.running_vacuum import refuse_during_vacuum
from deltalite.log.file_table import adds_of, bytes_of, removes_of
from deltalite.protocol.actions import LOADED_FILES_APP_ID, SOURCE_OFFSET_PREFIX
from deltalite.protocol.column_mapping import table_schema_of
from deltalite.protocol.restoring import RestoredRules, Rules, restored_rules
from deltalite.requests import RestoreRequest
from deltalite.requests.moments import parse_moment_ms
from deltalite.results import OperationResult
from deltalite.sizes import counted
from deltalite.snapshot import Snapshot
from deltalite.spark.hadoop.opening import writable_store
from deltalite.storage.versioned_path import refuse_version
from deltalite.txn.audits import audit_results_of
from deltalite.txn.file_actions import FileActions
from deltalite.txn.flows import restored_offsets
from deltalite.txn.loaded_files import restored_loaded_files
from deltalite.txn.proposal import BaseState, Operation, Proposal, ReadSet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltalite.storage.log_store import LogStore

OPERATION = "RESTORE"
_log = logging.getLogger(__name__)


def restore(spark: SparkSession, request: RestoreRequest) -> OperationResult:
    """Restore the table, or return the result of an earlier attempt of the same run (`skipped`).

    If the table has the state of that version already, commit only the run's `txn` action. The audits also examine
    such a table.

    Raises:
        AuditFailedError, ApprovalNeededError: an audit did not pass, and no approval covers its value.
        TableNotFoundError: there is no table.
        VersionNotFoundError, TimestampOutOfRangeError: the log does not have the version.
        CorruptDataFileError: files of the version no longer exist.
        AppendOnlyError: the table is append-only, and the restore would remove rows.
        ConcurrentWriteException: a running vacuum may delete a file to add back.
        UnsupportedFeatureError: the older or the newest version has a writer feature that this release does not know.
        DeltaLiteError: the log cannot be read, or every attempt met a conflict. The table is unchanged.
    """
    refuse_version(request.table)
    time_ms = None if request.timestamp is None else parse_moment_ms(request.timestamp)
    store = writable_store(spark, request.table, single_writer=request.single_writer)
    auditor = Auditor.of(spark, request, store, has_new_rows=False)
    return replan_on_conflict(
        lambda: _attempt(spark, request, store, auditor, time_ms),
        rebase=Rebase.REPLAN,
        retries=request.conflict_retries,
        seconds=request.conflict_seconds,
    )


def _attempt(
    spark: SparkSession, request: RestoreRequest, store: LogStore, auditor: Auditor, time_ms: int | None
) -> OperationResult:
    """Plan and commit once, and return the result."""
    while True:
        base = Snapshot.load(store)
        earlier_result = find_earlier_result(request, base)
        if earlier_result is not None:
            return earlier_result
        target = Snapshot.load(store, request.version) if time_ms is None else Snapshot.load_at(store, time_ms)
        if target.version <= base.version:  # otherwise the target was committed after the load of `base`
            break
    rules = restored_rules(_rules_of(base), _rules_of(target))
    files = difference(base, target)
    _check_may_remove(base, files)
    refuse_during_vacuum(base, files.restored, now_ms=now_ms())
    absent = absent_files(store, files.restored, total_file_count=files.files_after)
    if request.ignore_missing_files:
        files = _without_absent(files, absent, target)
    else:
        refuse_absent(absent, base, target)
    table = table_schema_of(rules.protocol, rules.metadata)
    audits = auditor.resolve(table.logical)
    proposal = _proposal(request, base, target, rules, files, absent)
    proposal = auditor.audit(audits, base, proposal, table, staged_rows(spark, store, table, ()), ())
    if _is_empty(proposal):
        result = operation_result(
            request, store, OPERATION, version=base.version, read_version=base.version, committed=False,
            metrics=_metrics(files, absent),
        )  # fmt: skip
        return replace(result, audits=audit_results_of(proposal.operation.parameters))
    return commit_proposal(spark, request, store, proposal)


def _rules_of(snapshot: Snapshot) -> Rules:
    return Rules(protocol=snapshot.protocol, metadata=snapshot.metadata, domains=snapshot.domains)


def _check_may_remove(base: Snapshot, files: Difference) -> None:
    """Refuse to remove files from an append-only table."""
    if files.removed.num_rows:
        effect = f"the restore would remove {counted(files.removed.num_rows, 'file')}"
        refuse_if_append_only(base, effect, remedy="Unset the property first.")


def _without_absent(files: Difference, absent: AbsentFiles, target: Snapshot) -> Difference:
    """Return the difference without the absent files, and log a warning about their rows."""
    if not absent.count:
        return files
    _log.warning(
        "Restoring version %s of %s without %s. The rows of missing files are lost: %s.",
        target.version,
        target.store.root,
        counted(absent.count, "missing file"),
        "; ".join(absent.problems),
    )
    return files.without(absent)


def _proposal(
    request: RestoreRequest,
    base: Snapshot,
    target: Snapshot,
    rules: RestoredRules,
    files: Difference,
    absent: AbsentFiles,
) -> Proposal:
    """Return the proposal, without the results of audits."""
    has_same_rules = (rules.protocol, rules.metadata, rules.domains) == (base.protocol, base.metadata, ())
    is_unchanged = has_same_rules and not files.restored.num_rows and not files.removed.num_rows
    transactions = (base.transactions, target.transactions)
    offsets = restored_offsets(*transactions, now_ms=now_ms()) + restored_loaded_files(*transactions, now_ms=now_ms())
    return Proposal(
        operation=Operation(
            name=OPERATION,
            parameters={"version": target.version, "timestamp": request.timestamp},
            metrics=_metrics(files, absent),
            user_metadata=user_metadata(request.identity, request.user_metadata),
        ),
        adds=FileActions(files.restored, partial(adds_of, data_change=True)),
        removes=FileActions(files.removed, partial(removes_of, deletion_timestamp_ms=now_ms(), data_change=True)),
        protocol=None if rules.protocol == base.protocol else rules.protocol,
        # A commit that changes anything has the metadata too, so that a concurrent change of the metadata conflicts.
        metadata=None if is_unchanged else rules.metadata,
        domains=rules.domains,
        txn=transaction(request.identity, base, now_ms=now_ms()),
        offsets=offsets,
        reads=ReadSet(whole_table=True, app_id_prefixes=(SOURCE_OFFSET_PREFIX, LOADED_FILES_APP_ID)),
        revives_files=files.restored.num_rows > 0,
        base=BaseState.of(base),
    )


def _is_empty(proposal: Proposal) -> bool:
    """Whether nothing differs from the table, and there is no run to record."""
    has_files = len(proposal.adds) > 0 or len(proposal.removes) > 0
    return not has_files and proposal.metadata is None and proposal.txn is None and not proposal.offsets


def _metrics(files: Difference, absent: AbsentFiles) -> dict[str, int]:
    """Return delta-spark's metrics, and the number of missing files if the restore ignored any."""
    metrics = {
        "tableSizeAfterRestore": files.bytes_after,
        "numOfFilesAfterRestore": files.files_after,
        "numRemovedFiles": files.removed.num_rows,
        "numRestoredFiles": files.restored.num_rows,
        "removedFilesSize": bytes_of(files.removed),
        "restoredFilesSize": bytes_of(files.restored),
    }
    return metrics | ({"numMissingFiles": absent.count} if absent.count else {})

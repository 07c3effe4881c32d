"""The table command: creates the table that a task declares, or alters an existing table to match the declaration.

The steps:

1. Look for an earlier commit of this run.
2. Compare the table with the declaration. If there is no difference, commit nothing.
3. Check the expressions of the table. If a rule is new, check the rows of the table too.
4. If the table gets row tracking, give row ids to its files (`row_id_backfill`). If it drops a feature, rewrite the
   files that need the feature (`feature_drop`). Both make separate commits. Then repeat steps 2 and 3 on the new
   snapshot.
5. Commit the protocol and the metadata in one version.

The last check of step 3 and the commit of step 5 use the same snapshot. A commit that adds rows after the check
conflicts, and the command replans. delta-spark: CreateDeltaTableCommand and the commands in alterDeltaTableCommands.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from deltalite.commands.common.committing import commit_proposal, find_earlier_result, now_ms, operation_result
from deltalite.commands.common.existing_table import existing_table
from deltalite.commands.common.replanning import Rebase, replan_on_conflict
from deltalite.commands.common.run_identity import transaction, user_metadata
from deltalite.commands.table.feature_drop import prepare_drop
from deltalite.commands.table.plan import Plan, check_properties, plan_change, plan_new_table
from deltalite.commands.table.row_id_backfill import backfill_row_ids
from deltalite.errors import InvalidRequestError
from deltalite.loaded_files.manifest import current_manifest_number
from deltalite.protocol import properties as props
from deltalite.protocol import row_tracking
from deltalite.protocol.actions import NOTHING_LOADED, SetTransaction
from deltalite.protocol.schema import StructType
from deltalite.requests import TableRequest
from deltalite.results import OperationResult
from deltalite.snapshot import Snapshot
from deltalite.spark.declared.checks import check_expressions, check_rows
from deltalite.spark.declared.schema import declared_schema
from deltalite.spark.hadoop.opening import writable_store
from deltalite.storage.versioned_path import refuse_version
from deltalite.txn.flows import flow_offsets, prefix_of_flow, reset_offsets
from deltalite.txn.proposal import BaseState, Operation, Proposal, ReadSet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltalite.storage.log_store import LogStore

CREATE, ALTER = "CREATE TABLE", "ALTER TABLE"


def define_table(spark: SparkSession, request: TableRequest) -> OperationResult:
    """Create or alter the table, or return the result of an earlier attempt of the same run (`skipped`).

    Raises:
        TableNotFoundError: there is no table, and the request has no schema.
        InvalidRequestError: the schema, a property or an expression of the request is wrong.
        SchemaMismatchError: the table cannot get the declared schema.
        ConstraintViolationError: a row of the table breaks a new rule.
        UnsupportedFeatureError: this release cannot write a table with these features or properties.
        DeltaLiteError: the log cannot be read, or every attempt met a conflict. The table is unchanged, except for
            commits that give row ids to files or prepare the drop of a feature.
    """
    refuse_version(request.table)
    check_properties(request)
    declaration = None if request.schema is None else declared_schema(spark, request.schema)
    store = writable_store(spark, request.table, single_writer=request.single_writer)
    return replan_on_conflict(
        lambda: _attempt(spark, request, store, declaration),
        rebase=Rebase.REPLAN,
        retries=request.conflict_retries,
        seconds=request.conflict_seconds,
    )


def _attempt(
    spark: SparkSession, request: TableRequest, store: LogStore, declaration: StructType | None
) -> OperationResult:
    """Plan and commit once, and return the result. `declaration` is the schema of the request."""
    base = existing_table(spark, store)
    if base is None:
        reset_offsets({}, request.reset_flows, table=store.root, now_ms=now_ms())  # raises if a flow is named
        plan = plan_new_table(request, declaration, store.root, now_ms=now_ms())
        _check_rules(spark, plan, None, declaration)
        return commit_proposal(spark, request, store, _proposal(request, plan, None))
    earlier_result = find_earlier_result(request, base)
    if earlier_result is not None:
        return earlier_result
    reset_offsets(base.transactions, request.reset_flows, table=store.root, now_ms=now_ms())  # raises before a commit
    plan = plan_change(request, declaration, base)
    _check_keeps_offsets(plan, base)
    backfilled_files = rewritten_files = 0
    if _needs_row_ids(plan, base):
        _check_rules(spark, plan, base, declaration)  # so that a wrong rule fails before the backfill commits
        backfilled_files, base = backfill_row_ids(spark, request, store)
        plan = plan_change(request, declaration, base)
    if plan.changes.dropped_features:
        _check_rules(spark, plan, base, declaration)  # so that a wrong rule fails before the preparation commits
        rewritten_files, base = prepare_drop(spark, request, store, plan.changes.dropped_features)
        plan = plan_change(request, declaration, base)
    offsets = reset_offsets(base.transactions, request.reset_flows, table=store.root, now_ms=now_ms())
    if not plan.is_change and not offsets:
        return operation_result(
            request, store, ALTER, version=base.version, read_version=base.version, committed=False,
            metrics=plan.changes.metrics,
        )  # fmt: skip
    _check_rules(spark, plan, base, declaration)
    file_counts = {"numBackfilledFiles": backfilled_files, "numRewrittenFiles": rewritten_files}
    return commit_proposal(spark, request, store, _proposal(request, plan, base, file_counts, offsets))


def _check_keeps_offsets(plan: Plan, base: Snapshot) -> None:
    """Refuse a new property with which other engines remove the source offsets of flows, or the record of loaded files.

    Raises:
        InvalidRequestError: the table has source offsets or loaded files, and the plan sets the property.
    """
    retention, new_metadata = props.SET_TRANSACTION_RETENTION_MS, plan.target.changed_metadata
    if new_metadata is None or retention.of(new_metadata.configuration) is None:
        return
    has_loaded_files = current_manifest_number(base.transactions) != NOTHING_LOADED
    if retention.of(base.configuration) is None and (has_loaded_files or flow_offsets(base.transactions)):
        subject = "record of loaded files" if has_loaded_files else "source offsets"
        raise InvalidRequestError(
            f"Could not set {retention.key} on {base.store.root}. Other engines would remove the {subject} of the "
            "table, and rows would be loaded twice.",
            remedy="Leave the property out.",
        )


def _needs_row_ids(plan: Plan, base: Snapshot) -> bool:
    """Whether the plan enables row tracking, so that the files of the table need row ids."""
    return plan.target.row_ids is not None and not row_tracking.is_enabled(base.protocol, base.metadata)


def _check_rules(spark: SparkSession, plan: Plan, base: Snapshot | None, declaration: StructType | None) -> None:
    """Check the expressions of the table, and the rows of `base` if a rule is new."""
    target, changes = plan.target, plan.changes
    declared_columns = () if declaration is None else declaration.names
    check_expressions(
        spark, target.schema, target.rules, columns=declared_columns, constraint_keys=changes.constraint_keys
    )
    if base is not None and changes.has_new_rules:
        check_rows(
            spark,
            base,
            target.schema,
            target.rules,
            constraint_keys=changes.constraint_keys,
            required_columns=changes.required_columns,
        )


def _proposal(
    request: TableRequest,
    plan: Plan,
    base: Snapshot | None,
    file_counts: Mapping[str, int] | None = None,
    offsets: tuple[SetTransaction, ...] = (),
) -> Proposal:
    resets = {"resetFlows": json.dumps(dict(request.reset_flows))} if offsets else {}
    metrics = plan.changes.metrics | {name: count for name, count in (file_counts or {}).items() if count}
    return Proposal(
        base=BaseState.of(base),
        operation=Operation(
            name=CREATE if base is None else ALTER,
            parameters=_creation_parameters(plan) if base is None else {**plan.changes.parameters, **resets},
            metrics={} if base is None else metrics,
            user_metadata=user_metadata(request.identity, request.user_metadata),
        ),
        protocol=plan.target.changed_protocol,
        metadata=plan.target.changed_metadata,
        domains=plan.domains,
        txn=transaction(request.identity, base, now_ms=now_ms()),
        offsets=offsets,
        reads=ReadSet(
            whole_table=base is not None and plan.changes.depends_on_rows,
            app_id_prefixes=tuple(map(prefix_of_flow, request.reset_flows)),
        ),
        protects_checkpoints=bool(plan.changes.dropped_features),
    )


def _creation_parameters(plan: Plan) -> dict[str, str | None]:
    """Return delta-spark's parameters of CREATE TABLE."""
    metadata = plan.target.metadata
    return {
        "isManaged": "false",
        "description": metadata.description,
        "partitionBy": json.dumps(metadata.partition_columns),
        "clusterBy": json.dumps(list(plan.changes.cluster_by or ())),
        "properties": json.dumps(dict(metadata.configuration)),
    }

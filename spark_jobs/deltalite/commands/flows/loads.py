"""The loads of one attempt: for each incremental source the versions to read, the offset to commit, and the rows."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from deltalite.change_feed import ChangePlan, plan_changes
from deltalite.change_feed.appends import plan_appends, sizes_of_changes
from deltalite.commands.common.committing import now_ms
from deltalite.commands.flows.lost_files import LostFiles
from deltalite.commands.flows.ranges import (
    Loss,
    SourceState,
    check_keeps_offsets,
    choose_range,
    last_version_within,
    reload_or_fail,
)
from deltalite.errors import (
    ChangeFeedUnavailableError,
    InvalidRequestError,
    VersionGapError,
    VersionNotFoundError,
)
from deltalite.log.listing import list_log
from deltalite.protocol.actions import SetTransaction
from deltalite.protocol.features import is_in_force
from deltalite.requests import CommitRequest, OnChange, Source, WriteRequest
from deltalite.results import FlowRange, OperationResult
from deltalite.snapshot import Snapshot
from deltalite.spark.hadoop.opening import source_store
from deltalite.spark.reader.changes import refuse_versioned_path
from deltalite.spark.reader.incremental import SourceLoad
from deltalite.spark.reader.sources import QueryRows, query_rows
from deltalite.storage.locations import is_same_table
from deltalite.txn.flows import (
    FLOWS,
    FlowId,
    flow_name,
    flows_parameter,
    offset_transaction,
    prefix_of_flow,
    result_without_new_versions,
)
from deltalite.txn.proposal import ReadSet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltalite.storage.log_store import LogStore, StoredFile

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loads:
    """The loads of an attempt, by the keys of the request's `sources`; empty without an incremental source.

    - `ranges`: the versions of each load.
    - `source_loads`: the plan of each load, for the reader.
    - `lost_files`: the lost files that the command knows. A read may find more.
    """

    ranges: Mapping[str, FlowRange] = field(default_factory=dict)
    source_loads: Mapping[str, SourceLoad] = field(default_factory=dict)
    lost_files: LostFiles = field(default_factory=LostFiles, compare=False)

    @property
    def loaded(self) -> Mapping[str, FlowRange]:
        """The versions of each load. Attempts with equal versions can share the written rows."""
        return self.ranges

    @property
    def metrics(self) -> Mapping[str, int]:
        """The operation metrics that the loads add to the metrics of the write: none."""
        return {}

    @property
    def has_nothing_new(self) -> bool:
        """Whether there are incremental sources, and none of them has a new version."""
        return bool(self.ranges) and all(flow_range.is_empty for flow_range in self.ranges.values())

    @property
    def is_partial(self) -> bool:
        """Whether a load has only the new rows of its source, and not the complete source."""
        return any(flow_range.after_version is not None for flow_range in self.ranges.values())

    @property
    def parameters(self) -> dict[str, str]:
        """The operation parameters of the commit."""
        return {FLOWS: flows_parameter(self.ranges)} if self.ranges else {}

    def record(self) -> tuple[SetTransaction, ...]:
        """Return the transactions with the new offsets. The transactions are the whole record."""
        return tuple(
            offset_transaction(
                FlowId(name=flow_range.flow, source_table_id=flow_range.source_table_id),
                flow_range.to_version,
                now_ms=now_ms(),
            )
            for flow_range in self.ranges.values()
            if not flow_range.is_empty
        )

    def result_if_nothing_new(self, request: CommitRequest, base: Snapshot | None) -> OperationResult | None:
        """Return the result of a run if no source has a new version, else None.

        Without a table, return None, because the run creates the table.
        """
        if base is None or not self.has_nothing_new:
            return None
        return result_without_new_versions(request, base, self.ranges)

    @contextmanager
    def rows(self, spark: SparkSession, sources: Mapping[str, Source], request: WriteRequest) -> Iterator[QueryRows]:
        """Yield the rows of the request's query over the sources.

        Raises:
            DeltaLiteError: as `query_rows`.
            NewPlanNeeded: as `replan_after_loss`.
        """
        query = query_rows(
            spark,
            sources,
            request.query,
            request.query_params,
            deduplicate=request.deduplicate,
            loads=self.source_loads,
        )
        with self.replan_after_loss(), query as rows:
            yield rows

    def replan_after_loss(self) -> AbstractContextManager[None]:
        """Make the command replan if the `with` block fails because files of a source are lost.

        Raises:
            NewPlanNeeded: files are lost. The next plan finds a gap.
        """
        return self.lost_files.replan_after_loss(self.source_loads)

    def extended_reads(self, reads: ReadSet) -> ReadSet:
        """Return the read set with the offsets of the flows."""
        prefixes = tuple(prefix_of_flow(flow_range.flow) for flow_range in self.ranges.values())
        return replace(reads, app_id_prefixes=(*reads.app_id_prefixes, *prefixes))


def plan_loads(spark: SparkSession, request: CommitRequest, lost_files: LostFiles, base: Snapshot | None) -> Loads:
    """Choose and plan the versions that the attempt on `base` loads. Read the logs of the sources, but no data file.

    `lost_files` has the files that earlier attempts of the command did not find.

    Raises:
        SourceGapError: a source lost versions that are not loaded.
        SourceRowsChangedError: a commit changes rows, and the source reads appended rows only.
        InvalidRequestError: the target's transactions expire, the target is a source too, or two sources have the same
            flow.
        ChangeFeedUnavailableError: a source does not record its changes.
        TableError: the log of a source cannot be read.
    """
    all_sources: Mapping[str, Source] = getattr(request, "sources", {})
    sources = {name: source for name, source in all_sources.items() if source.incremental is not None}
    if not sources:
        return Loads()
    if base is not None:
        check_keeps_offsets(base.configuration, table=request.table)
    flows = {name: flow_name(source) for name, source in sources.items()}
    if len(set(flows.values())) < len(flows):
        raise InvalidRequestError(
            f"Two incremental sources of {request.table} have the same flow.",
            remedy="Give `incremental` a different name in each of them.",
        )
    ranges: dict[str, FlowRange] = {}
    source_loads: dict[str, SourceLoad] = {}
    for name, source in sources.items():
        address = source.path or ""
        refuse_versioned_path(address)
        if is_same_table(address, request.table):
            raise InvalidRequestError(
                f"The incremental source '{name}' is the table {request.table} itself, so each load would create new "
                "rows to load.",
                remedy="Read another table, or leave `incremental` out.",
            )
        transactions = {} if base is None else base.transactions
        store = source_store(spark, address)
        ranges[name], source_loads[name] = plan_load(store, source, flows[name], transactions, lost_files.loss_of(name))
    return Loads(ranges=ranges, source_loads=source_loads, lost_files=lost_files)


def plan_load(
    store: LogStore, source: Source, flow: str, transactions: Mapping[str, SetTransaction], loss: Loss | None = None
) -> tuple[FlowRange, SourceLoad]:
    """Choose and plan the versions to load from one source.

    `transactions` are those of the target. `loss` has the files of the source that are known to be lost.

    Raises:
        DeltaLiteError: as `plan_loads`.
    """
    snapshot = Snapshot.load(store)
    commits = list_log(store, 0).commits
    state = SourceState(
        address=store.root,
        table_id=snapshot.metadata.id,
        newest_version=snapshot.version,
        commits=commits,
        loss=loss,
    )
    flow_range = choose_range(flow, source, state, transactions)
    if flow_range.after_version is None or flow_range.is_empty:  # load the whole snapshot, or no row
        _check_feed(source, snapshot)
        return flow_range, SourceLoad(
            snapshot=snapshot, is_empty=flow_range.is_empty, has_change_columns=source.reads_changes
        )
    first_version, log_has_versions = flow_range.after_version + 1, True
    try:
        if source.max_bytes is not None:
            versions = range(first_version, flow_range.to_version + 1)
            sizes = sizes_of_changes(store, versions, commits, reads_feed=source.reads_changes)
            flow_range = replace(flow_range, to_version=last_version_within(first_version, sizes, source.max_bytes))
        plan = _plan_with_one_schema(store, source, first_version, flow_range.to_version, commits)
    except (VersionGapError, VersionNotFoundError) as error:
        # Log cleanup may have deleted commits since the plan began. Some engines also delete a checkpoint but keep the
        # commits after it.
        gap, log_has_versions = f"the source's log has lost versions ({error.problem.rstrip('.')})", False
    except ChangeFeedUnavailableError as error:
        if error.are_recorded:
            raise
        gap = f"changes are missing ({error.problem.rstrip('.')})"
    else:
        reason = plan.unreadable_removals() if source.reads_changes else None
        if plan.table_ids != {flow_range.source_table_id}:
            gap = f"the source was another table in a version from {first_version} to {flow_range.to_version}"
        elif reason is not None:
            gap = f"version {first_version} removes rows that its schema may not read: {reason}"
        else:
            flow_range = replace(flow_range, to_version=plan.snapshot.version)
            return flow_range, SourceLoad(snapshot=plan.snapshot, plan=plan, has_change_columns=source.reads_changes)
    snapshot_range = reload_or_fail(flow, source, state, transactions, gap, log_has_versions=log_has_versions)
    _check_feed(source, snapshot)
    return snapshot_range, SourceLoad(snapshot=snapshot, has_change_columns=source.reads_changes)


def _plan_with_one_schema(
    store: LogStore, source: Source, first_version: int, last_version: int, commits: Mapping[int, StoredFile]
) -> ChangePlan:
    """Plan the rows of a range. If the schema changes in the range, plan the versions before the change.

    The next run then begins with the change, so a change of the schema stops no flow.
    """
    try:
        if source.reads_changes:
            return plan_changes(store, first_version, last_version)
        skips_changes = source.on_change is OnChange.SKIP
        return plan_appends(store, first_version, last_version, commits, skips_changes=skips_changes)
    except ChangeFeedUnavailableError as error:
        readable_version = error.last_readable_version
        if readable_version is None or not first_version <= readable_version < last_version:
            raise
    _log.info(
        "Loading %s only up to version %s: version %s changes the schema. The next run continues there.",
        store.root,
        readable_version,
        readable_version + 1,
    )
    return _plan_with_one_schema(store, source, first_version, readable_version, commits)


def _check_feed(source: Source, snapshot: Snapshot) -> None:
    """Check that a source of changes records its changes, so that the next run can load them."""
    if source.reads_changes and not is_in_force("changeDataFeed", snapshot.protocol, snapshot.metadata):
        raise ChangeFeedUnavailableError(
            f"read='changes' needs the change data feed, which is off in {snapshot.store.root}.",
            remedy="Set delta.enableChangeDataFeed in the source, or set read='appends'.",
        )

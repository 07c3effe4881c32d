"""Row ids for the files of a table that gets row tracking.

Every row of a table with row tracking has a row id, so the files without ids get them first:

1. One commit adds the feature to the protocol, and ends a suspension of row ids if the request does. From then on all
   writers assign row ids to new files.
2. Each further commit adds up to `FILES_PER_COMMIT` files again, with row ids and without a change of data.

If the task stops in between, the table is correct, and the next attempt continues with the remaining files. Protocol:
Row Tracking; delta-spark: RowTrackingBackfillCommand.
"""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from deltalite.commands.common.committing import commit_proposal
from deltalite.commands.common.replanning import Rebase, replan_on_conflict
from deltalite.commands.common.run_identity import user_metadata
from deltalite.commands.table.plan import declared_properties
from deltalite.log.file_table import adds_of, file_key
from deltalite.protocol.actions import to_json
from deltalite.protocol.feature_enabling import RequestedProtocol, protocol_for
from deltalite.protocol.properties import ROW_TRACKING_SUSPENDED
from deltalite.protocol.row_tracking import FEATURE, assigns_row_ids, check_not_suspended
from deltalite.requests import TableRequest
from deltalite.sizes import counted
from deltalite.snapshot import Snapshot
from deltalite.txn.proposal import BaseState, Operation, Proposal, ReadSet

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from deltalite.storage.log_store import LogStore

FILES_PER_COMMIT = 100_000
_log = logging.getLogger(__name__)


def backfill_row_ids(spark: SparkSession, request: TableRequest, store: LogStore) -> tuple[int, Snapshot]:
    """Give row ids to the files without row ids. Return the number of these files, and a snapshot without such files.

    Raises:
        InvalidRequestError: the statistics of a file lack its number of records, or the table suspends row ids.
        DeltaLiteError: as `commit_proposal`.
    """
    total = 0
    while True:
        file_count, base = replan_on_conflict(
            lambda: _commit_next(spark, request, store),
            rebase=Rebase.REPLAN,
            retries=request.conflict_retries,
            seconds=request.conflict_seconds,
        )
        if not file_count:
            return total, base
        total += file_count
        _log.info("Assigned row ids to %s of %s so far.", counted(total, "file"), store.root)


def _commit_next(spark: SparkSession, request: TableRequest, store: LogStore) -> tuple[int, Snapshot]:
    """Commit the next step. Return the number of its files, and the snapshot that it is based on."""
    base = Snapshot.load(store)
    if not assigns_row_ids(base.protocol, base.metadata):
        _start_assigning(spark, request, store, base)
        base = Snapshot.load(store)
    all_files = base.files_with()
    files = all_files.filter(pc.is_null(all_files["baseRowId"])).slice(0, FILES_PER_COMMIT)
    file_count: int = files.num_rows
    if file_count:
        commit_proposal(spark, request, store, _backfill_proposal(request, base, files))
    return file_count, base


def _start_assigning(spark: SparkSession, request: TableRequest, store: LogStore, base: Snapshot) -> None:
    """Commit the protocol with the feature, and the metadata without a suspension."""
    check_not_suspended(declared_properties(request, base.configuration))
    configuration = {key: text for key, text in base.configuration.items() if key != ROW_TRACKING_SUSPENDED.key}
    metadata = replace(base.metadata, configuration=configuration)
    protocol = protocol_for(metadata, base.protocol, RequestedProtocol(features=frozenset({FEATURE})))
    operation = Operation(
        name="UPGRADE PROTOCOL",
        parameters={"newProtocol": json.dumps(to_json(protocol))},
        user_metadata=user_metadata(request.identity, request.user_metadata),
    )
    proposal = Proposal(
        base=BaseState.of(base),
        operation=operation,
        protocol=None if protocol == base.protocol else protocol,
        metadata=None if metadata == base.metadata else metadata,
    )
    commit_proposal(spark, request, store, proposal)


def _backfill_proposal(request: TableRequest, base: Snapshot, files: pa.Table) -> Proposal:
    paths_and_vectors = files.select(["path", "deletionVector"]).to_pylist()
    keys = (file_key(row["path"], row["deletionVector"]) for row in paths_and_vectors)
    return Proposal(
        base=BaseState.of(base),
        operation=Operation(
            name="ROW TRACKING BACKFILL",
            metrics={"numBackfilledFiles": files.num_rows},
            user_metadata=user_metadata(request.identity, request.user_metadata),
        ),
        adds=tuple(adds_of(files, data_change=False)),
        reads=ReadSet(keys=frozenset(keys)),
    )

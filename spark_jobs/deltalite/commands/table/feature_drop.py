"""The steps before a table drops type widening, so that no data file and no newer checkpoint needs the feature.

1. One commit unsets the property, so that no writer widens another column.
2. Each narrower file is written again, in bounded commits (`rewrite_files`). A narrower file stores a column with a
   narrower type than the table has.
3. `BARRIER_COUNT` empty commits get a checkpoint each. A client without the feature reads the table from one of these
   checkpoints. There are several, because some clients try an earlier checkpoint if one is unreadable.

The commit that drops the feature follows. If the task stops in between, the table is correct, and the next attempt
continues. delta-spark: AlterTableDropFeatureDeltaCommand (executeDropFeatureWithCheckpointProtection).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from deltalite.columnar.parquet.files import read_footers
from deltalite.columnar.parquet.narrower_columns import NarrowerColumns
from deltalite.commands.common.committing import commit_proposal, now_ms
from deltalite.commands.common.replanning import Rebase, replan_on_conflict
from deltalite.commands.common.run_identity import user_metadata
from deltalite.commands.optimize.command import rewrite_files
from deltalite.commands.optimize.table_plan import OptimizePlan, plan_in_place
from deltalite.errors import ConcurrentDeleteReadException
from deltalite.log.file_table import ADD_TYPES
from deltalite.protocol.feature_dropping import enabling_properties
from deltalite.protocol.paths import decode_path
from deltalite.protocol.type_changes import TYPE_CHANGES
from deltalite.requests import OptimizeRequest, TableRequest
from deltalite.sizes import counted
from deltalite.snapshot import Snapshot
from deltalite.spark.large_tables.large_checkpoint import write_any_checkpoint
from deltalite.txn.proposal import BaseState, Operation, Proposal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltalite.results import OperationResult
    from deltalite.storage.log_store import LogStore

BARRIER_COUNT = 3
_FOOTERS_PER_BATCH = 4_096
_T = TypeVar("_T")
_log = logging.getLogger(__name__)


def prepare_drop(
    spark: SparkSession, request: TableRequest, store: LogStore, features: Collection[str]
) -> tuple[int, Snapshot]:
    """Do the steps before the drop. Return the number of files that were written again, and the newest snapshot.

    Raises:
        ConcurrentDeleteReadException: narrower files remain, because other writers changed files or types meanwhile.
        DeltaLiteError: as `optimize`, or a checkpoint cannot be written.
    """
    steps = _Steps(spark=spark, request=request, store=store)
    steps.unset_properties(enabling_properties(features))
    rewritten_files = steps.rewrite_narrower_files()
    for _ in range(BARRIER_COUNT):
        steps.commit_barrier()
    base = Snapshot.load(store)
    steps.check_has_no_narrower_file(base)  # meanwhile another writer may have widened a column, or restored files
    return rewritten_files, base


@dataclass(slots=True, kw_only=True)
class _Steps:
    """The steps of one task attempt.

    `wide_files` has the paths of the files whose footers have no column that is narrower than in `schema_string`.
    """

    spark: SparkSession
    request: TableRequest
    store: LogStore
    wide_files: set[str] = field(default_factory=set)
    schema_string: str = ""

    def unset_properties(self, keys: Collection[str]) -> None:
        """If the metadata has any of the properties, commit it without them."""

        def attempt() -> None:
            base = Snapshot.load(self.store)
            configuration = {key: text for key, text in base.configuration.items() if key not in keys}
            if configuration == base.configuration:
                return
            unset_keys = sorted(base.configuration.keys() - configuration.keys())
            parameters = {"properties": json.dumps(unset_keys), "ifExists": True}
            metadata = replace(base.metadata, configuration=configuration)
            self._commit(base, Operation(name="UNSET TBLPROPERTIES", parameters=parameters), metadata=metadata)

        self._replan(attempt)

    def rewrite_narrower_files(self) -> int:
        """Write each narrower file again. Return the number of these files."""
        optimize_request = OptimizeRequest(
            table=self.request.table,
            single_writer=self.request.single_writer,
            user_metadata=user_metadata(self.request.identity, self.request.user_metadata),
            conflict_retries=self.request.conflict_retries,
            conflict_seconds=self.request.conflict_seconds,
        )
        plan = partial(self._plan, max_bytes=optimize_request.max_commit_bytes)
        return rewrite_files(self.spark, optimize_request, self.store, plan).metrics.get("numRemovedFiles", 0)

    def check_has_no_narrower_file(self, base: Snapshot) -> None:
        """Check that no file of the snapshot has a narrower column.

        Raises:
            ConcurrentDeleteReadException: a file has a narrower column.
        """
        narrower_count = self._narrower_files(base).num_rows
        if narrower_count:
            raise ConcurrentDeleteReadException(
                f"Could not drop the feature: {self.store.root} has {counted(narrower_count, 'file')} with a column of "
                "a narrower type, because another writer changed files or types meanwhile.",
                remedy="Run the task again when fewer writers change the table.",
            )

    def commit_barrier(self) -> None:
        """Commit an empty version, and write its checkpoint."""
        result = self._replan(lambda: self._commit(Snapshot.load(self.store), Operation(name="Empty Commit")))
        write_any_checkpoint(self.spark, Snapshot.load(self.store, result.version), now_ms())

    def _plan(self, base: Snapshot, *, max_bytes: int) -> OptimizePlan:
        files = self._narrower_files(base)
        if files.num_rows:
            _log.info("Rewriting %s of %s with narrower types.", counted(files.num_rows, "file"), base.store.root)
        return plan_in_place(base, files, max_bytes=max_bytes)

    def _narrower_files(self, base: Snapshot) -> pa.Table:
        """Return the files with a narrower column, with all columns of `ADD_TYPES`."""
        files = base.files_with(tuple(ADD_TYPES))
        if TYPE_CHANGES not in base.metadata.schema_string:
            return files.slice(0, 0)
        if base.metadata.schema_string != self.schema_string:
            self.wide_files, self.schema_string = set(), base.metadata.schema_string
        narrower = NarrowerColumns(base.table_schema)
        paths = files["path"].to_pylist()
        unread_paths = [path for path in paths if path not in self.wide_files]
        for start in range(0, len(unread_paths), _FOOTERS_PER_BATCH):
            batch = unread_paths[start : start + _FOOTERS_PER_BATCH]
            names = [decode_path(path) for path in batch]
            for path, name, footer in zip(batch, names, read_footers(self.store, names), strict=True):
                if not narrower.are_in(footer, name):
                    self.wide_files.add(path)
        return files.filter(pa.array([path not in self.wide_files for path in paths], pa.bool_()))

    def _commit(self, base: Snapshot, operation: Operation, **changes: Any) -> OperationResult:
        operation = replace(operation, user_metadata=user_metadata(self.request.identity, self.request.user_metadata))
        proposal = replace(Proposal(base=BaseState.of(base), operation=operation), **changes)
        return commit_proposal(self.spark, self.request, self.store, proposal)

    def _replan(self, attempt: Callable[[], _T]) -> _T:
        return replan_on_conflict(
            attempt,
            rebase=Rebase.REPLAN,
            retries=self.request.conflict_retries,
            seconds=self.request.conflict_seconds,
        )

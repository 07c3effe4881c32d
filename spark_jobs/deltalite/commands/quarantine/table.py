"""The commit of a run's rows to its quarantine table.

The guarantees:

- A run commits its rows here before it commits to its target. So a kill between the two commits loses no row.
- The rows have the app id and the transaction version of the later commit to the target. Each commit here replaces
  those rows of this app id whose version the target does not have: the rows of failed attempts. The rows of a run that
  has committed to its target stay, even if the run is cleared and writes again.
- An overwrite, or a write with `on_rerun="replace"`, removes the rows that the run has written to the target before.
  The commit to the quarantine then replaces all rows of this app id. So no row of a cleared run is in the table twice.
- The commit sets a transaction with the version of its rows. The app id of this transaction names the run and the
  target. If the transaction shows no rows to replace, the commit is an append that reads nothing. So runs with one
  quarantine table do not conflict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from deltalite.commands.common.committing import now_ms
from deltalite.commands.common.existing_table import existing_table
from deltalite.commands.common.load_plan import LoadPlanner
from deltalite.commands.common.replanning import Rebase, replan_on_conflict
from deltalite.commands.common.run_identity import user_metadata
from deltalite.commands.quarantine.layout import AT, COLUMNS, RUN, TARGET, TXN_VERSION, check_quarantine
from deltalite.errors import ConcurrentFlowException, ConcurrentTransactionException, DeltaLiteError
from deltalite.protocol.actions import SetTransaction
from deltalite.requests import CommitRequest, Source, WriteMode, WriteRequest
from deltalite.results import OperationResult, QuarantineResult
from deltalite.snapshot import Snapshot
from deltalite.spark.hadoop.opening import writable_store
from deltalite.spark.reader.quarantined_rows import quarantined_rows
from deltalite.spark.reader.sources import QueryRows
from deltalite.storage.locations import canonical_address, parse_location
from deltalite.storage.versioned_path import refuse_version
from deltalite.txn.find_run import earlier_result, newest_snapshot
from deltalite.txn.quarantine import quarantine_app_id, transaction_version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from deltalite.storage.log_store import LogStore
    from deltalite.txn.proposal import ReadSet

_LEAST_RETRIES = 10
_NO_VERSION = -1


class TableWriter(Protocol):
    """The write command (`commands.write.write`), which itself uses this package."""

    def __call__(self, spark: SparkSession, request: WriteRequest, *, plan: LoadPlanner) -> OperationResult:
        """Write the rows of a plan."""


class QuarantineTable:
    """The quarantine table of one request.

    `target` is the store of the table to which the request commits. `write` commits the rows.
    """

    def __init__(
        self, spark: SparkSession, address: str, request: CommitRequest, target: LogStore, write: TableWriter
    ) -> None:
        self._spark = spark
        self._write_command = write
        self.address = address
        self._request = request
        self._target = target
        self._target_address = canonical_address(parse_location(request.table))

    def check(self) -> None:
        """Check that the rows of this run can be stored. Write nothing.

        Raises:
            DeltaLiteError: as `check_quarantine` and `existing_table`. The error names the quarantine.
        """
        with _naming_quarantine(self.address):
            self._load()

    def replace_rows(
        self,
        rows: DataFrame | None,
        txn: SetTransaction,
        target_base: Snapshot | None,
        *,
        replaces_committed: bool = False,
    ) -> QuarantineResult:
        """Replace the rows of this run by `rows` in one commit.

        If `rows` is None, remove the rows of this run, and commit only if there are such rows. If another attempt of
        this run has committed to the target, commit nothing, and return the quarantine result of that attempt.

        Args:
            rows: the rows with some of the columns of a quarantine. They must be the same in each computation.
            txn: the transaction that the commit to the target sets. Without a run identity, its app id is random.
            target_base: the snapshot of the target on which the commit to the target is based.
            replaces_committed: whether to replace the rows of earlier commits to the target too. Otherwise replace only
                the rows of attempts that have not committed to the target.

        Raises:
            ConcurrentTransactionException: another run with the same app id has committed to the target.
            DeltaLiteError: as `check`, and as `write`.
        """
        committed_version = transaction_version(target_base, txn.app_id)
        kept_version = _NO_VERSION if replaces_committed else committed_version
        return replan_on_conflict(
            partial(self._replace_rows, rows, txn, committed_version, kept_version),
            rebase=Rebase.REPLAN,
            retries=max(self._request.conflict_retries, _LEAST_RETRIES),
            seconds=self._request.conflict_seconds,
        )

    def _replace_rows(
        self, rows: DataFrame | None, txn: SetTransaction, committed_version: int, kept_version: int
    ) -> QuarantineResult:
        """Replace those rows of this run whose transaction version is above `kept_version`."""
        # Case 1: the run has stored no rows, and has none to store.
        with _naming_quarantine(self.address):
            has_stored_rows = transaction_version(self._load(), self._app_id(txn)) > kept_version
        if rows is None and not has_stored_rows:
            return QuarantineResult(table=self.address, version=None, rows=0)
        # Case 2: another attempt of the run is done, so its rows must stay.
        target_commit = self._find_newer_commit(txn, committed_version)
        if target_commit is not None:
            return target_commit.quarantine or QuarantineResult(table=self.address, version=None, rows=0)
        # Case 3: the run stores its rows.
        with _naming_quarantine(self.address):
            return self._write(rows, txn, kept_version, has_stored_rows=has_stored_rows)

    def _find_newer_commit(self, txn: SetTransaction, committed_version: int) -> OperationResult | None:
        """Return the result of another attempt of this run, if it has committed to the target meanwhile.

        Raises:
            ConcurrentTransactionException: another run with the same app id has committed to the target.
        """
        identity, newest = self._request.identity, newest_snapshot(self._target)
        if newest is None or identity is None or transaction_version(newest, txn.app_id) <= committed_version:
            return None
        result = earlier_result(newest, self._target.root, identity)
        if result is None:
            raise ConcurrentTransactionException(
                f"Another run with the app id '{txn.app_id}' has committed to {self._target.root} while this task was "
                "running. This task has stored no rejected row.",
                remedy="Run the task again. It then loads what the other run has not loaded.",
            )
        return result

    def _write(
        self, rows: DataFrame | None, txn: SetTransaction, kept_version: int, *, has_stored_rows: bool
    ) -> QuarantineResult:
        constants: dict[str, str | int] = {
            TARGET: self._target_address,
            RUN: txn.app_id,
            TXN_VERSION: txn.version,
            AT: now_ms(),
        }
        frame = quarantined_rows(self._spark, rows, constants, COLUMNS)

        def plan(base: Snapshot | None) -> _RowsOfRun:
            if (transaction_version(base, self._app_id(txn)) > kept_version) != has_stored_rows:
                raise ConcurrentFlowException(
                    f"Another attempt of this run stored rows in {self.address} meanwhile.",
                    remedy="Run the task again.",
                )
            return _RowsOfRun(rows_of_run=frame, txn=replace(txn, app_id=self._app_id(txn)), base=base)

        condition = (
            f"{TARGET} = {_sql_text(self._target_address)} AND {RUN} = {_sql_text(txn.app_id)} "
            f"AND {TXN_VERSION} > {kept_version}"
        )
        result = self._write_command(
            self._spark, self._write_request(condition if has_stored_rows else None), plan=plan
        )
        return QuarantineResult(table=self.address, version=result.version, rows=result.metrics.get("numOutputRows", 0))

    def _app_id(self, txn: SetTransaction) -> str:
        return quarantine_app_id(txn.app_id, self._target_address)

    def _write_request(self, replace_where: str | None) -> WriteRequest:
        """Return the request of an append, or of a write that replaces the rows for which `replace_where` is true."""
        request = self._request
        return WriteRequest(
            table=self.address,
            single_writer=request.single_writer,
            sources={"source": Source(format="quarantine")},  # the plan of the write has the rows
            mode=WriteMode.APPEND if replace_where is None else WriteMode.OVERWRITE,
            replace_where=replace_where,
            optimize_write=True,  # each of many source files may have only a few bad records
            user_metadata=user_metadata(request.identity, request.user_metadata),
            conflict_retries=0,  # `replace_rows` replans, because the mode depends on the snapshot
        )

    def _load(self) -> Snapshot | None:
        """Load the newest snapshot and check it. Return None if there is no table yet."""
        refuse_version(self.address)
        store = writable_store(self._spark, self.address, single_writer=self._request.single_writer)
        base = existing_table(self._spark, store)
        if base is not None:
            base.check_log()
            check_quarantine(base)
        return base


@dataclass(frozen=True, slots=True, kw_only=True)
class _RowsOfRun:
    """The rows of one run; a `LoadPlan`. `base` is the snapshot on which the commit is based."""

    rows_of_run: DataFrame
    txn: SetTransaction
    base: Snapshot | None

    @property
    def loaded(self) -> object:
        """Nothing: each attempt writes the rows again."""
        return None

    @property
    def parameters(self) -> Mapping[str, str]:
        """No parameters in addition to those of the write."""
        return {}

    @property
    def metrics(self) -> Mapping[str, int]:
        """No metrics in addition to those of the write."""
        return {}

    def result_if_nothing_new(self, _request: WriteRequest, _base: Snapshot | None) -> OperationResult | None:
        """Return None, because the rows are always written."""
        return None

    @contextmanager
    def rows(self, _spark: SparkSession, _sources: Mapping[str, Source], _request: WriteRequest) -> Iterator[QueryRows]:
        """Yield the rows."""
        yield QueryRows(frame=self.rows_of_run, source_versions={})

    def record(self) -> tuple[SetTransaction, ...]:
        """Return the transaction of the run. Its version never decreases."""
        return (replace(self.txn, version=max(self.txn.version, transaction_version(self.base, self.txn.app_id))),)

    def extended_reads(self, reads: ReadSet) -> ReadSet:
        """Return the read set with the transaction of the run."""
        return replace(reads, app_id_prefixes=(*reads.app_id_prefixes, self.txn.app_id))


def _sql_text(text: str) -> str:
    """Return a text as a literal of Spark SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


@contextmanager
def _naming_quarantine(address: str) -> Iterator[None]:
    """Name the quarantine in the errors of a block, because other errors of the task are about its target."""
    try:
        yield
    except DeltaLiteError as error:
        raise type(error)(f"The quarantine {address}: {error.problem}", remedy=error.remedy) from error

"""The quarantine of one command: the rows that its attempts leave out, committed before the rows of the target.

One `Quarantine` serves all attempts of a command. An attempt that computes its rows calls `begin`. If an attempt
commits the data files of an earlier attempt, it also keeps the rejected rows and the quarantine commit of the earlier
attempt.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from deltalite.commands.common.committing import now_ms
from deltalite.commands.common.run_identity import transaction
from deltalite.commands.quarantine.table import QuarantineTable, TableWriter
from deltalite.errors import DeltaLiteError, InvalidRequestError
from deltalite.protocol.actions import SetTransaction
from deltalite.requests import CommitRequest, MergeRequest, ScdRequest, WriteRequest
from deltalite.requests.source_paths import split_address
from deltalite.results import QuarantineResult
from deltalite.sizes import counted
from deltalite.spark.hadoop.opening import writable_store
from deltalite.storage.locations import canonical_address, contain_one_another, parse_location
from deltalite.storage.versioned_path import parse_versioned_path
from deltalite.txn.proposal import Operation
from deltalite.txn.quarantine import QUARANTINED_ROWS, quarantine_parameters

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from deltalite.snapshot import Snapshot
    from deltalite.storage.log_store import LogStore

RequestWithQuarantine = WriteRequest | MergeRequest | ScdRequest
_log = logging.getLogger(__name__)


class Quarantine:
    """The quarantine of one command. `target` is the store of the table to which the command commits."""

    def __init__(
        self, spark: SparkSession, request: CommitRequest, address: str, target: LogStore, write: TableWriter
    ) -> None:
        self._spark = spark
        self._request = request
        self._table = QuarantineTable(spark, address, request, target, write)
        self._result: QuarantineResult | None = None
        self._random_app_id = f"deltalite-quarantine/{uuid.uuid4()}"

    @property
    def result(self) -> QuarantineResult:
        """The result of `commit`. Before the commit, the result has no rows."""
        return self._result or QuarantineResult(table=self._table.address, version=None, rows=0)

    def extended_operation(self, operation: Operation) -> Operation:
        """Return the operation of the commit to the target, with the parameters and metrics of the quarantine."""
        return replace(
            operation,
            parameters={**operation.parameters, **quarantine_parameters(self.result)},
            metrics={**operation.metrics, QUARANTINED_ROWS: self.result.rows},
        )

    def begin(self) -> None:
        """Begin an attempt that computes its rows: check the quarantine table, and forget the result of `commit`.

        Raises:
            DeltaLiteError: as `QuarantineTable.check`.
        """
        self._table.check()
        self._result = None

    def commit(
        self, rejected_rows: DataFrame | None, base: Snapshot | None, *, replaces_committed: bool = False
    ) -> None:
        """Commit the rows to the quarantine, unless an earlier attempt of this command has committed them.

        Args:
            rejected_rows: rows with some of the columns of a quarantine; None for no row.
            base: the snapshot of the target on which the commit to the target is based.
            replaces_committed: whether the commit to the target removes the rows that the run has committed before. The
                commit to the quarantine then replaces their rejected rows too.

        Raises:
            DeltaLiteError: as `QuarantineTable.replace_rows`.
        """
        if self._result is None:
            self._result = self._store(rejected_rows, base, replaces_committed=replaces_committed)

    def withdraw(self, base: Snapshot | None) -> None:
        """Remove the rows that earlier attempts of the run have stored, because the run loads nothing.

        Another run may have loaded the rows after an attempt of this run stored the rejected ones. If no attempt has
        stored rows, commit nothing.

        Raises:
            DeltaLiteError: as `QuarantineTable.replace_rows`.
        """
        self._table.replace_rows(None, self._transaction(base), base)

    def _store(
        self, rejected_rows: DataFrame | None, base: Snapshot | None, *, replaces_committed: bool
    ) -> QuarantineResult:
        result = self._table.replace_rows(
            rejected_rows, self._transaction(base), base, replaces_committed=replaces_committed
        )
        if result.rows:
            _log.info("Quarantined %s in version %s of %s.", counted(result.rows, "row"), result.version, result.table)
        return result

    def _transaction(self, base: Snapshot | None) -> SetTransaction:
        """Return the transaction that the commit to the target sets. Without a run identity, use a random app id."""
        txn = transaction(self._request.identity, base, now_ms=now_ms())
        return txn or SetTransaction(app_id=self._random_app_id, version=0, last_updated_ms=now_ms())


def open_quarantine(spark: SparkSession, request: RequestWithQuarantine, write: TableWriter) -> Quarantine | None:
    """Return the quarantine of a request, or None if the request does not name one.

    Raises:
        InvalidRequestError: as `check_separate`, or the table cannot be written (`writable_store`).
    """
    if request.quarantine is None:
        return None
    check_separate(request.quarantine, _addresses_by_role(request))
    target = writable_store(spark, request.table, single_writer=request.single_writer)
    return Quarantine(spark, request, request.quarantine, target, write)


def _addresses_by_role(request: RequestWithQuarantine) -> dict[str, str]:
    """Return the canonical addresses of the table and of the sources. The quarantine must not be one of them."""
    addresses = {"table": canonical_address(parse_location(request.table))}
    for name, source in request.sources.items():
        with suppress(DeltaLiteError):  # the reader reports an invalid address
            folder, _ = split_address(parse_versioned_path(source.path or "").path)
            addresses[f"source '{name}'"] = canonical_address(parse_location(folder))
    return addresses


def check_separate(quarantine: str | None, addresses: Mapping[str, str]) -> None:
    """Check that the quarantine neither contains the table or a source, nor lies in one of them.

    `addresses` maps words for the error, such as "table", to canonical addresses.

    Raises:
        InvalidRequestError: the quarantine contains one of the addresses, or lies in one.
    """
    if quarantine is None:
        return
    quarantine = canonical_address(parse_location(quarantine))
    for role, address in addresses.items():
        if contain_one_another(quarantine, address):
            raise InvalidRequestError(
                f"The quarantine {quarantine} contains the {role} {address}, or lies in it.",
                remedy="Give the address of a separate folder as `quarantine`.",
            )

"""The bad records of a copy: which records the attempts leave out, and their commit to the quarantine table.

One value serves all attempts of a run. An attempt that reads files begins a new separation. An attempt that commits the
files of an earlier attempt keeps its separation, and its commit to the quarantine.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from deltalite.commands.common.committing import now_ms
from deltalite.commands.common.run_identity import transaction
from deltalite.commands.quarantine import QuarantineTable
from deltalite.errors import InvalidRequestError, SourceError
from deltalite.protocol.actions import SetTransaction
from deltalite.requests import CopyRequest
from deltalite.requests.quarantine import DEFAULT_MAX_BAD_SHARE
from deltalite.results import QuarantineResult
from deltalite.spark.reader.bad_records import RecordCounts, RecordSeparation
from deltalite.storage.locations import canonical_address, contain_one_another, parse_location
from deltalite.txn.quarantine import QUARANTINED_ROWS, quarantine_parameters

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

    from deltalite.snapshot import Snapshot
    from deltalite.storage.log_store import LogStore

_log = logging.getLogger(__name__)
_SHOWN_RECORDS = 3


class BadRecords:
    """The bad records of one copy command."""

    def __init__(self, spark: SparkSession, request: CopyRequest, address: str, target: LogStore) -> None:
        self._spark = spark
        self._request = request
        self._table = QuarantineTable(spark, address, request, target)
        self._separation = RecordSeparation()
        self._result: QuarantineResult | None = None
        self._random_app_id = f"deltalite-quarantine/{uuid.uuid4()}"

    @property
    def result(self) -> QuarantineResult:
        """The result of `commit`; without rows before it."""
        return self._result or QuarantineResult(table=self._table.address, version=None, rows=0)

    @property
    def parameters(self) -> Mapping[str, str]:
        """The operation parameters of the commit to the target."""
        return quarantine_parameters(self.result)

    @property
    def metrics(self) -> Mapping[str, int]:
        """The operation metrics of the commit to the target."""
        return {QUARANTINED_ROWS: self.result.rows}

    def begin(self, *, has_schema: bool) -> RecordSeparation:
        """Check the quarantine table, and return the separation for an attempt that reads files.

        Raises:
            InvalidRequestError: the schema of the files is unknown.
            DeltaLiteError: as `QuarantineTable.check`.
        """
        if not has_schema:
            raise InvalidRequestError(
                f"Could not decide which records are bad: {self._request.table} does not exist yet, and the source has "
                "no schema. Bad records must not decide the types of the columns.",
                remedy="Give `schema` in the source, or create the table before with DeltaTableOperator.",
            )
        self._table.check()
        self._separation, self._result = RecordSeparation(), None
        return self._separation

    def commit(self, base: Snapshot | None) -> None:
        """Commit the bad records to the quarantine, unless an earlier attempt of this command has committed them.

        `base` is the snapshot of the target on which the commit to the target is based.

        Raises:
            SourceError: more records are bad than `max_bad_share` allows.
            DeltaLiteError: as `QuarantineTable.replace_rows`.
        """
        if self._result is not None:
            return
        # A query may have read only some of the records, or have observed them several times.
        counts = self._separation.counts() if self._request.query is None else self._separation.count_all()
        self._check_share(counts)
        if not counts.bad_records:
            self._result = self._table.replace_rows(None, self._transaction(base), base)
            return
        rows = self._separation.bad_records(self._spark)
        self._result = self._table.replace_rows(rows, self._transaction(base), base)
        _log.warning(
            "Quarantined %s bad records in version %s of %s: %s",
            self._result.rows,
            self._result.version,
            self._result.table,
            "; ".join(_texts(rows.limit(_SHOWN_RECORDS).collect())),
        )

    def withdraw(self, base: Snapshot | None) -> None:
        """Remove the rows that earlier attempts of the run have stored, because the run loads no file.

        A rival may have loaded the files after an attempt stored their bad records. Without such rows, commit nothing.

        Raises: as `QuarantineTable.replace_rows`.
        """
        self._table.replace_rows(None, self._transaction(base), base)

    def preview(self, row_count: int) -> int:
        """Read all new files, log up to `row_count` bad records, and return the number of all. Write nothing.

        Raises:
            SourceError: as `commit`.
        """
        counts = self._separation.count_all()
        self._check_share(counts)
        if not counts.bad_records:
            return 0
        rows = self._separation.bad_records(self._spark)
        for text in _texts(rows.limit(row_count).collect()):
            _log.warning("A load would quarantine a record: %s", text)
        return rows.count()

    def _transaction(self, base: Snapshot | None) -> SetTransaction:
        """Return the transaction that the commit to the target sets, or that of a random app id without a run."""
        txn = transaction(self._request.identity, base, now_ms=now_ms())
        return txn or SetTransaction(app_id=self._random_app_id, version=0, last_updated_ms=now_ms())

    def _check_share(self, counts: RecordCounts) -> None:
        limit = self._request.max_bad_share
        limit = DEFAULT_MAX_BAD_SHARE if limit is None else limit
        if counts.bad_records > limit * counts.records:
            examples = _texts(self._separation.examples(self._spark, _SHOWN_RECORDS))
            raise SourceError(
                f"Nothing was loaded into {self._request.table}: {counts.bad_records} of {counts.records} records do "
                f"not fit the schema, and max_bad_share={limit} allows fewer. {'; '.join(examples)}",
                remedy="Check the delimiter, the header and the schema of the source. To quarantine so many records, "
                "set max_bad_share=1.",
            )


def check_separate(request: CopyRequest, folder: str) -> None:
    """Check that the quarantine neither contains the table or the source, nor lies in one of them.

    Raises:
        InvalidRequestError: two of them lie in one another.
    """
    if request.quarantine is None:
        return
    quarantine = canonical_address(parse_location(request.quarantine))
    addresses = {"table": canonical_address(parse_location(request.table)), "source": folder.rstrip("/")}
    for role, address in addresses.items():
        if contain_one_another(quarantine, address):
            raise InvalidRequestError(
                f"The quarantine {quarantine} and the {role} {address} lie in one another.",
                remedy="Give the address of a separate folder as `quarantine`.",
            )


def _texts(records: Iterable[Row]) -> list[str]:
    """Return the place and the reason of each bad record."""
    return [f"{row['file']}{'' if row['line'] is None else ':' + str(row['line'])}: {row['reason']}" for row in records]

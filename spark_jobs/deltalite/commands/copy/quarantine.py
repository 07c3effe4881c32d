"""The quarantine of a copy: the bad records and unreadable files that its attempts leave out, and rejected rows.

A `RecordSeparation` separates the bad records of one read from the good records. An attempt that reads files begins a
new separation. If an attempt commits the data files of an earlier attempt, it also keeps the separation and the
quarantine commit of the earlier attempt.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from deltalite.commands.copy.unreadable_files import UnreadableFiles, text_of_reasons
from deltalite.commands.quarantine import Quarantine, TableWriter
from deltalite.commands.quarantine.layout import FILE, REASON
from deltalite.errors import InvalidRequestError, SourceError
from deltalite.requests import CopyRequest
from deltalite.requests.quarantine import FORMATS_WITH_BAD_RECORDS, max_bad_count
from deltalite.results import QuarantineResult
from deltalite.sizes import counted
from deltalite.spark.reader.bad_records import RecordCounts, RecordSeparation
from deltalite.spark.reader.quarantined_rows import all_rejected
from deltalite.spark.runtime.errors import SPARK_ERRORS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    from deltalite.snapshot import Snapshot
    from deltalite.storage.log_store import LogStore

_log = logging.getLogger(__name__)
_SHOWN_RECORDS = 3


class FilesOfAttempt(Protocol):
    """The files that an attempt reads."""

    @property
    def unreadable(self) -> Mapping[str, str]:
        """The unreadable files that the attempt leaves out, with the reasons."""
        ...

    def replan_without_unreadable(self, spark: SparkSession, error: Exception) -> None:
        """Make the command replan if a read failed because of unreadable files."""

    def check_readable(self, spark: SparkSession) -> None:
        """Read all files, and make the command replan if some are unreadable."""


class CopyQuarantine(Quarantine):
    """The quarantine of one copy command."""

    def __init__(
        self, spark: SparkSession, request: CopyRequest, address: str, target: LogStore, write: TableWriter
    ) -> None:
        super().__init__(spark, request, address, target, write)
        self._copy_request = request
        self._separation = RecordSeparation()
        self._files: FilesOfAttempt | None = None
        self.unreadable_files = UnreadableFiles(request)

    def start_separation(self, files: FilesOfAttempt, *, has_schema: bool) -> RecordSeparation | None:
        """Return a new separation for an attempt that reads files, or None if the format has no bad records.

        Raises:
            InvalidRequestError: the schema of the files is unknown.
        """
        self._files = files
        if self._copy_request.source.format not in FORMATS_WITH_BAD_RECORDS:
            return None
        if not has_schema:
            raise InvalidRequestError(
                f"Could not decide which records are bad: {self._copy_request.table} does not exist yet, and the "
                "source has no schema. Bad records must not decide the types of the columns.",
                remedy="Give `schema` in the source, or first create the table with DeltaTableOperator.",
            )
        self._separation = RecordSeparation()
        return self._separation

    def _store(
        self, rejected_rows: DataFrame | None, base: Snapshot | None, *, replaces_committed: bool
    ) -> QuarantineResult:
        """Commit the bad records, the unreadable files and the rejected rows.

        Raises:
            SourceError: more records are bad than `max_bad_share` allows.
            NewPlanNeeded: some files are unreadable, and the query did not read far enough to fail.
        """
        with self._replan_if_unreadable():
            # A query may have read some records several times, or not at all.
            has_query = self._copy_request.query is not None
            counts = self._separation.count_all() if has_query else self._separation.counts()
            self._check_share(counts)
            rows = rejected_rows
            if counts.bad_records:
                bad_records = self._separation.bad_records(self._spark)
                _log.warning(
                    "Leaving out %s: %s",
                    counted(counts.bad_records, "bad record"),
                    "; ".join(_texts(bad_records.limit(_SHOWN_RECORDS).collect())),
                )
                rows = all_rejected(bad_records, rows)
        if self._unreadable:
            unreadable_count = counted(len(self._unreadable), "unreadable file")
            _log.warning("Leaving out %s. %s", unreadable_count, text_of_reasons(self._unreadable))
            rows = all_rejected(self._unreadable_rows(), rows)
        return super()._store(rows, base, replaces_committed=replaces_committed)

    def preview(self, row_count: int) -> int:
        """Read all new files, log up to `row_count` bad records, and return the number of bad records. Write nothing.

        An unreadable file counts as one record.

        Raises:
            SourceError: more records are bad than `max_bad_share` allows.
            NewPlanNeeded: some files are unreadable.
        """
        with self._replan_if_unreadable():
            counts = self._separation.count_all()
        self._check_share(counts)
        if self._files is not None and self._copy_request.source.format not in FORMATS_WITH_BAD_RECORDS:
            self._files.check_readable(self._spark)
        for address, reason in self._unreadable.items():
            _log.warning("A load would quarantine a file: %s: %s", address, reason)
        if not counts.bad_records:
            return len(self._unreadable)
        rows = self._separation.bad_records(self._spark)
        for text in _texts(rows.limit(row_count).collect()):
            _log.warning("A load would quarantine a record: %s", text)
        return rows.count() + len(self._unreadable)

    @property
    def _unreadable(self) -> Mapping[str, str]:
        return {} if self._files is None else self._files.unreadable

    def _unreadable_rows(self) -> DataFrame:
        columns = {FILE: list(self._unreadable), REASON: list(self._unreadable.values())}
        return self._spark.createDataFrame(pa.table({name: pa.array(v, pa.string()) for name, v in columns.items()}))

    @contextmanager
    def _replan_if_unreadable(self) -> Iterator[None]:
        """Make the command replan if the `with` block fails because of unreadable files."""
        try:
            yield
        except (SourceError, *SPARK_ERRORS) as error:
            if self._files is not None:
                self._files.replan_without_unreadable(self._spark, error)
            raise

    def _check_share(self, counts: RecordCounts) -> None:
        max_count = max_bad_count(self._copy_request, counts.records)
        if counts.bad_records > max_count:
            examples = _texts(self._separation.examples(self._spark, _SHOWN_RECORDS))
            raise SourceError(
                f"Nothing was loaded into {self._copy_request.table}: {counts.bad_records} of "
                f"{counted(counts.records, 'record')} did not fit the schema, and the limit is {max_count}. "
                f"{'; '.join(examples)}",
                remedy="Check the delimiter, the header and the schema of the source. If the files have new columns, "
                "set merge_schema=True to add them. To quarantine so many records, set max_bad_share=1.",
            )


def _texts(records: Iterable[Row]) -> list[str]:
    """Return the file, the line and the reason of each bad record as a text."""
    return [f"{row['file']}{'' if row['line'] is None else ':' + str(row['line'])}: {row['reason']}" for row in records]

"""The separation of bad records from good ones, for CSV and JSON files.

A record is bad if it does not fit the schema with which the files are read. The separation has two steps:

1. The query that writes the good records leaves the bad ones out. Spark observes which files have bad records.
2. A second query reads only these files, and returns their bad records with line numbers and reasons. If there are very
   many files, it also reads a few files without bad records (`observed_files.py`).

Both steps parse whole records, even if the query needs only some columns.

The first query uses Spark's readers, which parse bytes. The second uses Spark's functions, which parse texts. Their
results can differ, for example for invalid UTF-8. If the numbers of bad records differ, Spark's reader returns the bad
records, without line numbers.

If Spark reports no observation, because it has optimized the step away, a separate query observes all files.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.errors import SourceError
from deltalite.sizes import counted
from deltalite.spark.columns.names import column_named
from deltalite.spark.reader.bad_record_lines import (
    FILE,
    LINE,
    TEXT,
    TEXT_SETTINGS,
    address_of,
    addresses_by_path,
    numbered_lines,
)
from deltalite.spark.reader.bad_record_reasons import CORRUPT, as_texts, parsed_record, reason_of
from deltalite.spark.reader.json_records import COUNT, RECORD, SUBJECT, bad_json_records
from deltalite.spark.reader.observed_files import observed_files, observed_key, observes_paths
from deltalite.spark.reader.record_schema import RecordSchema
from deltalite.spark.runtime.computed_once import compute_once
from deltalite.spark.runtime.errors import SPARK_ERRORS, computing_rows
from deltalite.spark.runtime.session import settings

_log = logging.getLogger(__name__)
REASON = "reason"
PATH, _TEXTS, _PARSED = "_deltalite_path", "texts", "parsed"
_WRITER_OPTIONS = ("sep", "delimiter", "quote", "escape")
_OBSERVATION_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordCounts:
    """The numbers of records and of bad records that a step has read."""

    records: int = 0
    bad_records: int = 0

    def __add__(self, other: RecordCounts) -> RecordCounts:
        return RecordCounts(
            records=self.records + other.records,
            bad_records=self.bad_records + other.bad_records,
        )


class _Part:
    """The records of some files, and what Spark observes while it reads them."""

    def __init__(self, schema: RecordSchema, read: Callable[[Sequence[str]], DataFrame]) -> None:
        self.schema = schema
        self.read = read
        self.candidates: Sequence[str] = ()  # the addresses of the files with bad records, and perhaps of a few others
        self.bad_count = 0
        self._observe()

    def counts(self) -> RecordCounts:
        """Return the observed numbers; runs a separate query if Spark reports none."""
        values = _get_observed(self._observation, _OBSERVATION_TIMEOUT_S)
        if values is None:
            _log.info("Reading the files once more: Spark reported no observation of their records.")
            self.observe_all()
            values = self._observation.get
        self.candidates = observed_files(json.loads(values["files"]), self.schema.addresses)
        self.bad_count = values["bad_records"]
        return RecordCounts(records=values["records"], bad_records=self.bad_count)

    def observe_all(self) -> None:
        """Read all records in a new observation, and drop them."""
        self._observe()
        with computing_rows():
            self.good_rows.write.format("noop").mode("overwrite").save()

    def _observe(self) -> None:
        """Begin a new observation of the records."""
        self._observation = Observation()
        names = self.schema.columns.names
        is_bad = F.col(CORRUPT).isNotNull() | self.schema.is_unfit(column_named)
        key = observed_key(F.col(PATH), len(self.schema.addresses))
        # The last metric reads all columns. Otherwise Spark would not parse the columns that the query does not need.
        is_null = F.array(*(column_named(name).isNull() for name in names))
        observed = self.read(self.schema.addresses).observe(
            self._observation,
            F.count(F.lit(1)).alias("records"),
            F.count(F.when(is_bad, F.lit(1))).alias("bad_records"),
            # A text, because PySpark 4.0 does not convert an array.
            F.to_json(F.collect_set(F.when(is_bad, key))).alias("files"),
            F.max(F.array_contains(is_null, F.lit(True))).alias("columns"),
        )
        self.good_rows = self.schema.without_unknown_columns(observed.where(~is_bad).drop(CORRUPT, PATH))


class RecordSeparation:
    """Separates the bad records of one read from the good ones."""

    def __init__(self) -> None:
        self._parts: list[_Part] = []

    def good_rows(self, schema: RecordSchema, read: Callable[[Sequence[str]], DataFrame]) -> DataFrame:
        """Return the rows of the good records.

        `read` returns the rows of files. They have the columns of `schema`, `CORRUPT`, `PATH` (the path of the file in
        Spark's spelling) and perhaps more columns.
        """
        part = _Part(schema, read)
        self._parts.append(part)
        return part.good_rows

    def counts(self) -> RecordCounts:
        """Return the numbers of the records. Call this after the query over the good rows has run."""
        return sum((part.counts() for part in self._parts), RecordCounts())

    def count_all(self) -> RecordCounts:
        """Read all files, and return the numbers of their records, whatever an earlier query has read."""
        for part in self._parts:
            part.observe_all()
        return self.counts()

    def bad_records(self, spark: SparkSession) -> DataFrame:
        """Return the bad records as rows of `FILE`, `LINE`, `REASON` and `RECORD`, computed once.

        Call `counts` or `count_all` first. It must have counted at least one bad record.

        Raises:
            SourceError: a file changed after the count, or cannot be read.
        """
        with settings(spark, TEXT_SETTINGS), computing_rows():
            return reduce(
                DataFrame.unionByName, [_counted_bad_records(spark, part) for part in self._parts if part.bad_count]
            )

    def examples(self, spark: SparkSession, count: int) -> list[Any]:
        """Return at most `count` rows of the bad records of one part.

        If Spark observed paths, the query reads one file with bad records. Otherwise it reads all candidates.
        """
        part = next(part for part in self._parts if part.bad_count)
        addresses = [min(part.candidates)] if observes_paths(len(part.schema.addresses)) else part.candidates
        with settings(spark, TEXT_SETTINGS), computing_rows():
            return _bad_records(spark, part, addresses).limit(count).collect()


def _counted_bad_records(spark: SparkSession, part: _Part) -> DataFrame:
    """Return the bad records of a part, computed once. They are as many as the first query has counted."""
    addresses = part.candidates
    rows = compute_once(_bad_records(spark, part, addresses))
    if _count(rows) != part.bad_count:  # Spark observes the records of a repeated stage twice
        part.observe_all()
        part.counts()
    if _count(rows) != part.bad_count:
        _log.info("The bad records get no line numbers, because Spark's reader parses some of them differently.")
        if not observes_paths(len(part.schema.addresses)):
            addresses = part.schema.addresses  # perhaps Spark spells a path in an unexpected way
        rows = compute_once(_with_reasons(part.schema, _records_of_reader(spark, part, addresses)))
    if _count(rows) == part.bad_count:
        return rows.drop(COUNT)
    raise SourceError(
        f"Nothing was written: one read of files such as {part.schema.addresses[0]} returned "
        f"{counted(part.bad_count, 'bad record')}, and another read returned {_count(rows)}.",
        remedy="Run the task again if a file was replaced during the read.",
    )


def _count(rows: DataFrame) -> int:
    """Return the number of rows that Spark's reader makes of the bad records."""
    (count,) = rows.agg(F.sum(COUNT)).collect()[0]
    return count or 0


def _bad_records(spark: SparkSession, part: _Part, addresses: Sequence[str]) -> DataFrame:
    schema = part.schema
    line_format = schema.line_format
    if line_format is None:
        records = _records_of_reader(spark, part, addresses)
    else:
        lines = numbered_lines(spark, addresses, line_format)
        records = bad_json_records(schema, lines) if schema.source.format == "json" else _csv_records(schema, lines)
    return _with_reasons(schema, records)


def _with_reasons(schema: RecordSchema, records: DataFrame) -> DataFrame:
    """Return `FILE`, `LINE`, `REASON`, `RECORD` and `COUNT` for rows with a record and its `SUBJECT`.

    `SUBJECT` is the part of the record that does not fit. The texts are valid UTF-8.
    """
    subject, file_format, options = F.col(SUBJECT), schema.source.format, schema.options
    parsed = records.withColumns(
        {
            _TEXTS: parsed_record(subject, file_format, as_texts(schema.columns), options),
            _PARSED: parsed_record(subject, file_format, schema.columns, options),
        }
    )
    reason = reason_of(
        subject,
        file_format,
        schema.columns,
        options,
        schema.types,
        texts=F.col(_TEXTS),
        typed=F.col(_PARSED),
        other=schema.other_reason(subject, F.col(_PARSED).getField),
    )
    valid_texts = [
        F.make_valid_utf8(column).alias(name) for name, column in ((REASON, reason), (RECORD, F.col(RECORD)))
    ]
    return parsed.select(FILE, LINE, *valid_texts, COUNT)


def _csv_records(schema: RecordSchema, lines: DataFrame) -> DataFrame:
    parsed = parsed_record(F.col(TEXT), "csv", schema.columns, schema.options)
    is_bad = F.col(_PARSED)[CORRUPT].isNotNull() | schema.is_unfit(F.col(_PARSED).getField)
    bad_lines = lines.withColumn(_PARSED, parsed).where(is_bad)
    return bad_lines.select(FILE, LINE, F.col(TEXT).alias(RECORD), F.col(TEXT).alias(SUBJECT), F.lit(1).alias(COUNT))


def _records_of_reader(spark: SparkSession, part: _Part, addresses: Sequence[str]) -> DataFrame:
    """Return the bad records as Spark's reader returns them, without line numbers.

    If a record can be parsed but does not fit, its text is made from its columns.
    """
    schema = part.schema
    if schema.source.format == "json":
        text = F.to_json(F.struct(*map(column_named, schema.columns.names)))
    else:
        values = [column_named(name).cast("string").alias(name) for name in schema.columns.names]
        written_options = {name: schema.options[name] for name in _WRITER_OPTIONS if name in schema.options}
        text = F.to_csv(F.struct(*values), written_options)
    record = F.coalesce(F.col(CORRUPT), text)
    rows = part.read(addresses).where(F.col(CORRUPT).isNotNull() | schema.is_unfit(column_named))
    rows = compute_once(rows)
    by_path = addresses_by_path(addresses)
    paths = [row[0] for row in rows.select(PATH).distinct().collect()]
    file_addresses = [address_of(path, by_path) for path in paths]
    files = pa.table({PATH: pa.array(paths, pa.string()), FILE: pa.array(file_addresses, pa.string())})
    return rows.join(F.broadcast(spark.createDataFrame(files)), PATH).select(
        FILE,
        F.lit(None).cast("bigint").alias(LINE),
        record.alias(RECORD),
        record.alias(SUBJECT),
        F.lit(1).alias(COUNT),
    )


def _get_observed(observation: Observation, timeout_s: float) -> dict[str, Any] | None:
    """Return the observed values, or None if Spark does not report them in time.

    If Spark has optimized the observation away, `Observation.get` fails. In Spark 4.0, it waits forever instead.
    """
    results: list[dict[str, Any]] = []

    def get() -> None:
        with suppress(*SPARK_ERRORS):
            results.append(observation.get)

    thread = threading.Thread(target=get, name="observation", daemon=True)
    thread.start()
    thread.join(timeout_s)
    return results[0] if results and results[0] else None

"""The files with rows for which a condition is true, and the number or the positions of these rows.

If a condition reads only partition columns, Spark evaluates it on the distinct partition values. So any expression
works, no file is read, and all or none of a file's rows match. For any other condition, files are skipped by their
statistics. Only the columns that the condition names are read from the remaining files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows
from pyspark.sql.types import CharType, IntegerType

from deltalite.columnar.skipping.files import FileTest, prune
from deltalite.columnar.skipping.record_counts import num_records
from deltalite.errors import CorruptLogError, UnsupportedFeatureError
from deltalite.protocol.partition_values import parse_partition_value, partition_text, with_location
from deltalite.protocol.schema import StructField, StructType
from deltalite.snapshot import Snapshot
from deltalite.spark.columns.names import TARGET, column_named, unused_name
from deltalite.spark.columns.types import bounded_type, spark_type, to_spark, with_char_types
from deltalite.spark.expressions.predicates import parse_predicate, reads_only
from deltalite.spark.row_changes.row_actions import RowAction, action_number
from deltalite.spark.row_changes.touched_rows import ChangedRows, RowColumns
from deltalite.spark.runtime.errors import computing, reading_table
from deltalite.spark.scan.frame import AddressedRows, scan_addressed
from deltalite.spark.scan.row_positions import has_few_rows, positions_by_file
from deltalite.txn.proposal import RowTest

# The driver holds up to this number of positions, which take 32 MB.
MAX_POSITIONS = 4_000_000
# In SQL, NaN equals NaN. Python treats two NaN values in a key as equal only if they are the same object.
_NAN = float("nan")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Files that may hold matching rows.

    - `test`: tells for each file, also for a new one, whether it may hold matching rows.
    - `all_rows_match`: whether all rows of `files` match.
    """

    files: pa.Table
    test: RowTest
    all_rows_match: bool


def selection(spark: SparkSession, snapshot: Snapshot, condition: str, *, parameter: str) -> Selection:
    """Return the files that may hold rows for which a condition (SQL) is true.

    Raises:
        InvalidRequestError: the condition is wrong, or fails for a partition value. The message names `parameter`.
        CorruptLogError, UnsupportedFeatureError: see `PartitionKeys.key`.
    """
    predicate = parse_predicate(spark, condition, snapshot.schema, parameter=parameter)
    test = FileTest(predicate, snapshot.table_schema)
    if reads_only(predicate, snapshot.partition_columns):
        files = _files_of_partitions(spark, snapshot, condition, parameter)
        return Selection(files=files, test=test, all_rows_match=True)
    return Selection(files=prune(snapshot.files, predicate, snapshot.table_schema), test=test, all_rows_match=False)


def matching_rows_by_file(
    spark: SparkSession,
    snapshot: Snapshot,
    candidates: Selection,
    condition: str,
    columns: RowColumns,
    *,
    parameter: str,
) -> dict[int, int]:
    """Count the matching rows of each file. Return the counts by the position of the file in `candidates.files`.

    Files without matching rows are left out.

    Raises:
        InvalidRequestError: the condition cannot be computed for a row.
        CorruptDataFileError, UnsupportedFeatureError: a file cannot be read (`reading_table`).
        CorruptDataFileError, CorruptLogError, StorageError, UnsupportedStorageError: see `scan`.
    """
    if has_few_rows(num_records(candidates.files["stats"])):
        # The positions of few rows need no shuffle, but counts do.
        return matching_positions_by_file(spark, snapshot, candidates, condition, columns, parameter=parameter).counts
    rows = _matching_rows(spark, snapshot, candidates, condition, columns)
    matches = rows.frame.groupBy(column_named(columns.file)).count()
    with reading_table(snapshot.store.root), computing(parameter, condition):
        return {rows.numbers[row[0]]: row[1] for row in matches.collect()}


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchingRows:
    """The matching rows of each file, by the position of the file in `Selection.files`.

    Files without matching rows are left out.

    - `counts`: the number of matching rows.
    - `positions`: the positions of these rows in the file, strictly increasing. None if all files together have more
      than `MAX_POSITIONS` of them.
    """

    counts: dict[int, int]
    positions: dict[int, pa.Int64Array] | None


def matching_positions_by_file(
    spark: SparkSession,
    snapshot: Snapshot,
    candidates: Selection,
    condition: str,
    columns: RowColumns,
    *,
    parameter: str,
) -> MatchingRows:
    """Count the matching rows of each file, and find their positions. Raises the errors of `matching_rows_by_file`."""
    rows = _matching_rows(spark, snapshot, candidates, condition, columns)
    row_counts = num_records(candidates.files["stats"])
    counts: dict[int, int] = {}
    positions: dict[int, pa.Int64Array] | None = {}
    position_count = 0
    with reading_table(snapshot.store.root), computing(parameter, condition):
        for number, positions_in_file in positions_by_file(
            rows.frame, file=columns.file, row=columns.row, row_counts=row_counts
        ):
            counts[rows.numbers[number]] = len(positions_in_file)
            position_count += len(positions_in_file)
            if position_count > MAX_POSITIONS:
                positions = None
            if positions is not None:
                positions[rows.numbers[number]] = positions_in_file
    return MatchingRows(counts=counts, positions=positions)


def _matching_rows(
    spark: SparkSession, snapshot: Snapshot, candidates: Selection, condition: str, columns: RowColumns
) -> AddressedRows:
    rows = scan_addressed(spark, snapshot, candidates.files, file=columns.file, row=columns.row)
    return replace(rows, frame=rows.frame.alias(TARGET).where(condition))


def rows_changed_by(
    spark: SparkSession,
    snapshot: Snapshot,
    files: pa.Table,
    columns: RowColumns,
    action: RowAction,
    schema: StructType,
) -> tuple[ChangedRows, Mapping[int, int]]:
    """Apply one action, with the number 0, to the rows of `files`. Return the rows and `AddressedRows.numbers`."""
    rows = scan_addressed(spark, snapshot, files, file=columns.file, row=columns.row, with_row_ids=True)
    with_actions = rows.frame.alias(TARGET).withColumn(columns.action, action_number({0: action}))
    changed_rows = ChangedRows.of(
        with_actions, columns, base_schema=snapshot.schema, schema=schema, actions={0: action}, row_ids=snapshot.row_ids
    )
    return changed_rows, rows.numbers


def _files_of_partitions(spark: SparkSession, snapshot: Snapshot, condition: str, parameter: str) -> pa.Table:
    """Return the files of the partitions for which a condition on partition columns is true."""
    keys = PartitionKeys(snapshot)
    values_of_files = snapshot.files["partitionValues"].to_pylist(maps_as_pydicts="strict")
    # The files are grouped by the texts of the values, because 0.0 and -0.0 are one value in Python.
    positions: dict[tuple[str | None, ...], list[int]] = {}
    for position, texts in enumerate(map(keys.texts, values_of_files)):
        positions.setdefault(texts, []).append(position)
    partitions = list(positions)
    number_column = unused_name(snapshot.schema, "number")
    partition_schema = StructType((*keys.fields,))
    schema = with_char_types(to_spark(partition_schema), partition_schema).add(number_column, IntegerType())
    first_files = [positions[texts][0] for texts in partitions]
    paths = snapshot.files["path"].take(pa.array(first_files, pa.int64())).to_pylist()
    typed_values = [
        keys.key(values_of_files[position], path) for position, path in zip(first_files, paths, strict=True)
    ]
    frame = spark.createDataFrame([(*values, number) for number, values in enumerate(typed_values)], schema)
    # The condition may still name a data column, as in `day = 1 AND (id > 0 OR TRUE)`. Its value does not matter.
    partition_names = {f.name for f in keys.fields}
    data_fields = [f for f in snapshot.schema if f.name not in partition_names]
    frame = frame.select("*", *[F.lit(None).cast(spark_type(f.type)).alias(f.name) for f in data_fields])
    with computing(parameter, condition):
        matching_rows = frame.alias(TARGET).where(condition).select(column_named(number_column)).collect()
    matching_partitions = [partitions[row[0]] for row in matching_rows]
    matching_positions = sorted(position for partition in matching_partitions for position in positions[partition])
    return snapshot.files.take(pa.array(matching_positions, pa.int64()))


class PartitionKeys:
    """Converts partition values to tuples of typed values, which compare by value. `fields` have logical names.

    Texts of the type char(n) are padded with blanks, as in the rows.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        table = snapshot.table_schema
        logical_fields = {stored.name: f for stored, f in zip(table.physical, table.logical, strict=True)}
        self.fields = [logical_fields[name] for name in table.partition_keys]
        self._keys = tuple(zip(table.partition_keys.values(), self.fields, strict=True))
        self._char_lengths = {field.name: _char_length(field) for field in self.fields}

    def key(self, values: Mapping[str, str | None], path: str | None = None) -> tuple[Any, ...]:
        """Return the typed partition values of a file. `path` names the file in an error.

        Raises:
            CorruptLogError: a text does not fit the type of its column.
            UnsupportedFeatureError: a date or time is outside the years 1 to 9999.
        """
        return tuple(self._value(partition_text(values, key), f, path) for key, f in self._keys)

    def texts(self, values: Mapping[str, str | None]) -> tuple[str | None, ...]:
        """Return the values as the log spells them."""
        return tuple(partition_text(values, key) for key, _ in self._keys)

    def _value(self, text: str | None, field: StructField, path: str | None) -> Any:
        try:
            value = parse_partition_value(text, field.type)
        except (CorruptLogError, UnsupportedFeatureError) as error:
            raise with_location(error, field.name, path) from error
        if isinstance(value, str):
            return value.ljust(self._char_lengths[field.name])
        return _NAN if value != value else value  # noqa: PLR0124  only NaN differs from itself


def _char_length(field: StructField) -> int:
    """Return the length of a column of the type char(n), or 0 for any other type."""
    try:
        bounded = bounded_type(field)
    except UnsupportedFeatureError:
        return 0
    return bounded.length if isinstance(bounded, CharType) else 0

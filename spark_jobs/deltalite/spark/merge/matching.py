"""The matches of target rows and source rows in a merge, and the clause that applies to each pair.

The executors keep the pairs: the address of the target row, the source row with its key, and the number of the action.
The pairs give three results: the touched files, the source rows without a match, and the target rows with several
matches. If there are few pairs, the driver gets their addresses, otherwise only counts for each file. For an error, it
also gets a few rows.

delta-spark: ClassicMergeExecutor.findTouchedFiles.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.errors import MultipleMatchesError
from deltalite.log.file_table import bytes_of
from deltalite.protocol.row_tracking import RowIdColumns
from deltalite.protocol.schema import StructType
from deltalite.sizes import counted
from deltalite.spark.columns.names import SOURCE, TARGET, column_named, quoted
from deltalite.spark.merge.clauses import MergeActions
from deltalite.spark.merge.join_condition import JoinCondition
from deltalite.spark.row_changes.joining import Size, broadcast_if_small, is_small
from deltalite.spark.row_changes.row_actions import action_number
from deltalite.spark.row_changes.touched_rows import RowColumns
from deltalite.spark.runtime.errors import computing, reading_table
from deltalite.spark.runtime.termination import collect_to_arrow
from deltalite.spark.scan.row_positions import MAX_FEW_POSITIONS

_MAX_SHOWN_CHARACTERS = 200
_MAX_SHOWN_ROWS = 3
# Spark's defaults for `spark.sql.files.maxPartitionBytes` and `spark.sql.files.openCostInBytes`.
_TASK_BYTES = 128 * 1024 * 1024
_FILE_OPEN_BYTES = 4 * 1024 * 1024
# The lower 33 bits of `monotonically_increasing_id` count the rows of a task from 0.
_NUMBER_IN_TASK = 2**33 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRows:
    """The rows of a merge's source, computed once, with a unique number in the column `RowColumns.key`."""

    frame: DataFrame
    size: Size

    @classmethod
    def of(cls, rows: DataFrame, size: Size, key: str) -> SourceRows:
        """Return the rows with numbers in the column `key`. `rows` must be the result of `compute_once`."""
        return cls(frame=rows.withColumn(key, F.monotonically_increasing_id()), size=size)

    @property
    def columns(self) -> list[str]:
        """All columns of `frame`: the columns of the source, and the column with the number."""
        return self.frame.columns


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedMerge:
    """One merge with its clauses resolved: the source rows, the actions, and the columns of the frames.

    - `base_schema`, `schema`: the table's columns before and after the merge.
    - `columns`: the names of the helper columns.
    - `row_ids`: the columns that preserve row ids, None without row tracking.
    """

    source: SourceRows
    actions: MergeActions
    base_schema: StructType
    schema: StructType
    columns: RowColumns
    row_ids: RowIdColumns | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMatches:
    """The counts of one file: pairs, target rows with several matches, and matched target rows by action."""

    pair_count: int
    rows_with_several_matches: int
    by_action: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Matches:
    """All pairs of matching rows, their number, and the counts of each file by file number.

    A pair has the columns of `SourceRows.frame`, `pair_file`, `pair_row` and `pair_action`. `addresses` has the columns
    `file` (int64), `row` (int64) and `action` (int32, may be null) of all pairs; it is None if there are many pairs.
    """

    pairs: DataFrame
    count: int
    by_file: Mapping[int, FileMatches]
    addresses: pa.Table | None

    def changing_pairs(self, columns: RowColumns) -> DataFrame:
        """Return the pairs to which an action applies."""
        return self.pairs.where(column_named(columns.pair_action).isNotNull())

    def changed_addresses(self) -> pa.Table | None:
        """Return the addresses of the rows to which an action applies, each once; None if there are many pairs."""
        if self.addresses is None:
            return None
        return self.addresses.filter(pc.field("action").is_valid()).group_by(["file", "row"]).aggregate([])

    def one_for_each_row(self, columns: RowColumns) -> Matches:
        """Return the matches with only one, arbitrary pair for each target row.

        `count`, `by_file` and `addresses` are still those of all pairs.
        """
        if not any(counts.rows_with_several_matches for counts in self.by_file.values()):
            return self
        return replace(self, pairs=self.pairs.dropDuplicates([columns.pair_file, columns.pair_row]))


@contextmanager
def find_matches(
    target: DataFrame, files: pa.Table, merge: ResolvedMerge, on: JoinCondition, *, on_text: str, root: str
) -> Iterator[Matches]:
    """Match addressed target rows with source rows, and yield the matches.

    Args:
        target: rows of the table, with the columns `file` and `row`.
        files: the files of `target`.
        merge: the merge, with the source rows.
        on: the condition ON.
        on_text: the SQL of `on`, for errors.
        root: the address of the table, for errors.

    Raises:
        InvalidRequestError: ON, or the condition of a clause, cannot be computed for a row.
        CorruptDataFileError, UnsupportedFeatureError: a file of the table cannot be read (`reading_table`).
    """
    source, columns = merge.source, merge.columns
    source_frame = broadcast_if_small(source.frame, source.size).alias(SOURCE)
    joined = target.alias(TARGET).join(source_frame, on.column, "inner")
    pairs = joined.select(
        *[F.col(f"{SOURCE}.{quoted(name)}") for name in source.columns],
        column_named(columns.file).alias(columns.pair_file),
        column_named(columns.row).alias(columns.pair_row),
        action_number(merge.actions.matched).alias(columns.pair_action),
    ).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        with reading_table(root), computing("on", on_text):
            addresses = None
            if source.size.count <= MAX_FEW_POSITIONS:
                addresses = _few_addresses(pairs, columns, task_count=_task_count(pairs.sparkSession, files, source))
            action_numbers = list(merge.actions.matched)
            if addresses is None:
                by_file = _count_by_file(pairs, action_numbers, columns)
            else:
                by_file = _counts_of_addresses(addresses, action_numbers)
        pair_count = sum(counts.pair_count for counts in by_file.values())
        yield Matches(pairs=pairs, count=pair_count, by_file=by_file, addresses=addresses)
    finally:
        pairs.unpersist()


def _task_count(spark: SparkSession, files: pa.Table, source: SourceRows) -> int:
    """Estimate the number of tasks that compute the pairs of `files` and a source.

    A small source is broadcast, so the tasks are those of the scan (Spark: FilePartition.maxSplitBytes). The tasks of
    other joins are those of a shuffle.
    """
    scan_bytes: int = max(0, bytes_of(files)) + files.num_rows * _FILE_OPEN_BYTES
    bytes_for_each_core = math.ceil(scan_bytes / spark.sparkContext.defaultParallelism)
    scan_count = math.ceil(scan_bytes / min(max(bytes_for_each_core, _FILE_OPEN_BYTES), _TASK_BYTES))
    if is_small(source.size):
        return max(scan_count, 1)
    return max(scan_count, int(spark.conf.get("spark.sql.shuffle.partitions") or 1))


def _few_addresses(pairs: DataFrame, columns: RowColumns, *, task_count: int) -> pa.Table | None:
    """Compute and return `Matches.addresses` in one Spark job; None if there are many pairs.

    Each Spark task sends the addresses of a limited number of pairs to the driver. If a task reaches this limit, the
    result is None. `pairs` are persisted, so they are computed only once.
    """
    max_pairs_of_task = max(1, MAX_FEW_POSITIONS // task_count)
    numbered_pairs = pairs.select(
        column_named(columns.pair_file).alias("file"),
        column_named(columns.pair_row).alias("row"),
        column_named(columns.pair_action).alias("action"),
        F.monotonically_increasing_id().bitwiseAND(_NUMBER_IN_TASK).alias("number"),
    )
    addresses = collect_to_arrow(numbered_pairs.where(F.col("number") < max_pairs_of_task))
    if pc.max(addresses["number"]).as_py() == max_pairs_of_task - 1:
        return None
    return addresses.drop_columns("number")


def _counts_of_addresses(addresses: pa.Table, action_numbers: Sequence[int]) -> dict[int, FileMatches]:
    """Return the counts of all files from the addresses of all pairs."""
    rows = addresses.group_by(["file", "row"]).aggregate([([], "count_all"), ("action", "min")])
    rows = rows.append_column("several", pc.greater(rows["count_all"], 1))
    files = rows.group_by("file").aggregate([("count_all", "sum"), ("several", "sum")])
    counts_of_actions = rows.group_by(["file", "action_min"]).aggregate([([], "count_all")])
    by_action = {
        (counts["file"], counts["action_min"]): counts["count_all"] for counts in counts_of_actions.to_pylist()
    }
    return {
        counts["file"]: FileMatches(
            pair_count=counts["count_all_sum"],
            rows_with_several_matches=counts["several_sum"],
            by_action={number: by_action.get((counts["file"], number), 0) for number in action_numbers},
        )
        for counts in files.to_pylist()
    }


def _count_by_file(pairs: DataFrame, action_numbers: Sequence[int], columns: RowColumns) -> dict[int, FileMatches]:
    """Compute the counts of all files in one Spark job."""
    address = [column_named(columns.pair_file).alias("file"), column_named(columns.pair_row).alias("row")]
    rows = pairs.groupBy(*address).agg(
        F.count(F.lit(1)).alias("pairs"), F.first(column_named(columns.pair_action)).alias("action")
    )
    counts = rows.groupBy("file").agg(
        F.sum("pairs"),
        F.count_if(F.col("pairs") > 1),
        *[F.count_if(F.col("action") == number) for number in action_numbers],
    )
    return {
        file: FileMatches(
            pair_count=pair_count,
            rows_with_several_matches=several_count,
            by_action=dict(zip(action_numbers, counts_of_actions, strict=True)),
        )
        for file, pair_count, several_count, *counts_of_actions in counts.collect()
    }


def check_single_matches(all_matches: Matches, on: JoinCondition, columns: RowColumns) -> None:
    """Refuse a merge in which several source rows match one target row.

    Raises:
        MultipleMatchesError: there is such a target row. The message says how many there are, and shows examples of
            the source rows that match one of them.
    """
    row_count = sum(counts.rows_with_several_matches for counts in all_matches.by_file.values())
    if row_count == 0:
        return
    address = [columns.pair_file, columns.pair_row]
    target_row = (
        all_matches.pairs.groupBy(*map(column_named, address)).count().where("count > 1").limit(1).drop("count")
    )
    shown_columns = [column_named(name) for name in on.source_columns] or [F.lit("no column of the source is in ON")]
    source_json = F.to_json(F.struct(*shown_columns), {"ignoreNullFields": "false"})
    source_texts = all_matches.pairs.join(target_row, address).select(
        F.substring(source_json, 1, _MAX_SHOWN_CHARACTERS)
    )
    examples = [row[0] for row in source_texts.limit(_MAX_SHOWN_ROWS).collect()]
    raise MultipleMatchesError(
        f"Nothing was written: for {counted(row_count, 'row')} of the table, more than one row of the source matches. "
        f"The matches of one such row: {' and '.join(examples)}.",
        remedy="Let the source have one row for each key, such as the newest, with `deduplicate`. Or make `on` "
        "tell the rows apart.",
    )

"""A DataFrame over the files of a snapshot, never over a directory listing.

- Files with deleted rows form a separate relation, which is joined with the deleted rows. All other files are
  scanned directly. `relation_files` makes the rows of one relation.
- The sizes of local files come from the file system, because Spark cuts off a file that is longer than the given size.
  The sizes of other files come from the log (`listed_files`).

Protocol: Add File and Remove File (directories have no meaning); Deletion Vectors; Column Mapping.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types

from deltalite.protocol.column_mapping import TableSchema
from deltalite.snapshot import Snapshot
from deltalite.spark.columns.names import quoted, unused_name
from deltalite.spark.columns.types import to_spark, with_char_types
from deltalite.spark.scan.relation_files import RelationFiles
from deltalite.spark.scan.row_selection import RowSelection, live_rows

_T = TypeVar("_T")


def scan(
    spark: SparkSession, snapshot: Snapshot, files: pa.Table | None = None, *, disables_float_pushdown: bool = False
) -> DataFrame:
    """Return the rows of `files` (by default all active files) with the columns of the table, in their order.

    See `scan_rows` for `disables_float_pushdown`.

    Raises:
        CorruptDataFileError: a deletion vector is missing or damaged, or Spark cannot use the path of a data file.
        StorageError: the storage does not deliver a deletion vector.
        CorruptLogError: a partition value does not fit the type of its column.
        UnsupportedStorageError: a file lies on a storage that Spark does not reach.
    """
    files = snapshot.files if files is None else files
    rows = live_rows(snapshot.store, files)
    return scan_rows(
        spark,
        snapshot.store.root,
        snapshot.table_schema,
        files,
        rows=rows,
        disables_float_pushdown=disables_float_pushdown,
    )


def scan_with_row_ids(
    spark: SparkSession,
    snapshot: Snapshot,
    files: pa.Table,
    *,
    by_file: Mapping[str, pa.Array | pa.ChunkedArray] | None = None,
    disables_float_pushdown: bool = False,
) -> DataFrame:
    """Return the live rows of `files`, with the columns `snapshot.row_ids` after those of the table.

    Without row tracking there are only the table's columns. The columns of `by_file` come last. See `scan_rows` for
    `by_file` and `disables_float_pushdown`. `files` has the columns of `snapshot.files`.

    Raises:
        CorruptDataFileError, CorruptLogError, StorageError, UnsupportedStorageError: see `scan`.
    """
    return _scan_live(
        spark, snapshot, files, by_file=by_file, disables_float_pushdown=disables_float_pushdown, with_row_ids=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressedRows:
    """Rows with their addresses: after the table's columns, the number of the file and the row's position.

    The number of a file is its position in the files of the snapshot, so all scans of the snapshot use the same number.
    `numbers` maps this number to the position of the file in `files`.
    """

    frame: DataFrame
    files: pa.Table
    numbers: Mapping[int, int]

    def by_path(self, values: Mapping[int, _T]) -> dict[str, _T]:
        """Return the values by the path of each file in the log, from values by the number of the file."""
        paths = self.files["path"]
        return {paths[self.numbers[number]].as_py(): value for number, value in values.items()}


def scan_addressed(
    spark: SparkSession, snapshot: Snapshot, files: pa.Table, *, file: str, row: str, with_row_ids: bool = False
) -> AddressedRows:
    """Return the live rows of `files` with their addresses in the columns `file` and `row` (both bigint).

    With `with_row_ids`, the columns of `scan_with_row_ids` come before the addresses. The caller must not list a file
    twice. Spark pushes no filter on floating-point columns down, because such a filter could miss rows that the caller
    changes.

    Raises:
        CorruptDataFileError, CorruptLogError, StorageError, UnsupportedStorageError: see `scan`.
    """
    numbers = file_numbers(snapshot, files)
    frame = _scan_live(
        spark,
        snapshot,
        files,
        by_file={file: pa.array(list(numbers), pa.int64())},
        position=row,
        disables_float_pushdown=True,
        with_row_ids=with_row_ids,
    )
    return AddressedRows(frame=frame, files=files, numbers=numbers)


def file_numbers(snapshot: Snapshot, files: pa.Table) -> dict[int, int]:
    """Return the position of each file in `files`, by the number of the file (see `AddressedRows`)."""
    all_paths = snapshot.files["path"].combine_chunks()
    numbers = pc.index_in(files["path"], value_set=all_paths).to_pylist()
    return {number: n for n, number in enumerate(numbers)}


def _scan_live(
    spark: SparkSession,
    snapshot: Snapshot,
    files: pa.Table,
    *,
    by_file: Mapping[str, pa.Array | pa.ChunkedArray] | None = None,
    position: str | None = None,
    disables_float_pushdown: bool,
    with_row_ids: bool,
) -> DataFrame:
    """Return the live rows. A row id is the id in the file or, without it, the base row id plus the row's position."""
    columns, table, by_file = snapshot.row_ids if with_row_ids else None, snapshot.table_schema, by_file or {}
    rows = live_rows(snapshot.store, files)
    if columns is None:
        return scan_rows(
            spark,
            snapshot.store.root,
            table,
            files,
            rows=rows,
            by_file=by_file,
            position=position,
            disables_float_pushdown=disables_float_pushdown,
        )
    table = table.with_fields(columns.fields)
    base_id_name, version_name, row_name = (unused_name(table.physical, stem) for stem in ("base", "version", "id_row"))
    position_name = position or row_name
    frame = scan_rows(
        spark,
        snapshot.store.root,
        table,
        files,
        rows=rows,
        by_file={**by_file, base_id_name: files["baseRowId"], version_name: files["defaultRowCommitVersion"]},
        position=position_name,
        disables_float_pushdown=disables_float_pushdown,
    )
    # The default values are SQL text, because each column object costs several calls to the JVM.
    defaults = {
        columns.row_id: f"{quoted(base_id_name)} + {quoted(position_name)}",
        columns.commit_version: quoted(version_name),
    }
    last_columns = [*by_file] if position is None else [*by_file, position]
    return frame.selectExpr(
        *map(quoted, snapshot.table_schema.logical.names),
        *(f"coalesce({quoted(name)}, {default}) AS {quoted(name)}" for name, default in defaults.items()),
        *map(quoted, last_columns),
    )


def scan_rows(
    spark: SparkSession,
    root: str,
    table: TableSchema,
    files: pa.Table,
    *,
    rows: Mapping[int, RowSelection],
    by_file: Mapping[str, pa.Array | pa.ChunkedArray] | None = None,
    position: str | None = None,
    disables_float_pushdown: bool = False,
) -> DataFrame:
    """Return the selected rows of `files` with the columns of the table, in their order.

    Args:
        spark: the session.
        root: the table's address.
        table: the schema to read the files with.
        files: a table with the columns `path`, `partitionValues`, `size` and `modificationTime`, as in the log.
        rows: the selected rows of files, by the position of the file in `files`. All rows of other files are selected.
        by_file: columns to add after the table's columns, with one value for each file.
        position: the name of a column to add at the end, with the row's position in its file (bigint, from 0).
        disables_float_pushdown: whether Spark must not push down filters on floating-point columns, because such
            filters can miss matching rows.

    Raises:
        CorruptDataFileError, CorruptLogError, UnsupportedStorageError: see `scan`.
    """
    by_file = by_file or {}
    numbers_by_selection: dict[bool | None, list[int]] = {None: [], False: [], True: []}  # None: all rows of the file
    for number in range(files.num_rows):
        numbers_by_selection[rows[number].only_these if number in rows else None].append(number)
    frames = []
    for only_these, numbers in numbers_by_selection.items():
        # If a file is listed twice, with other rows or other values, each listing goes into a separate relation.
        for group in _groups_without_repetition(files["path"], numbers):
            indices = pa.array(group, pa.int64())
            values_of_group = {name: values.take(indices) for name, values in by_file.items()}
            group_files = files if len(group) == files.num_rows else files.take(indices)
            relation_files = RelationFiles(
                spark, root, table, group_files, values_of_group, disables_float_pushdown=disables_float_pushdown
            )
            selected = None if only_these is None else [rows[number].positions for number in group]
            frames.append(relation_files.rows(selected, only_these=bool(only_these), position=position))
    if not frames:
        return _empty_frame(spark, table, by_file, position)
    result = frames[0]
    for frame in frames[1:]:
        result = result.unionAll(frame)
    return result


def _groups_without_repetition(paths: pa.ChunkedArray, numbers: Sequence[int]) -> list[list[int]]:
    """Split the files with these numbers into groups without a repeated path. There is nearly always one group."""
    if not numbers:
        return []
    group_paths = paths.take(pa.array(numbers, pa.int64()))
    if pc.count_distinct(group_paths).as_py() == len(numbers):
        return [list(numbers)]
    groups: list[list[int]] = []
    occurrences: Counter[str] = Counter()
    for number, path in zip(numbers, group_paths.to_pylist(), strict=True):
        if occurrences[path] == len(groups):
            groups.append([])
        groups[occurrences[path]].append(number)
        occurrences[path] += 1
    return groups


def _empty_frame(
    spark: SparkSession,
    table: TableSchema,
    by_file: Mapping[str, pa.Array | pa.ChunkedArray],
    position: str | None,
) -> DataFrame:
    schema = with_char_types(to_spark(table.logical), table.logical)
    if by_file:
        no_values = spark.createDataFrame(pa.table({name: values.slice(0, 0) for name, values in by_file.items()}))
        schema = spark_types.StructType([*schema.fields, *no_values.schema.fields])
    if position is not None:
        schema = schema.add(position, spark_types.LongType())
    return spark.createDataFrame([], schema)

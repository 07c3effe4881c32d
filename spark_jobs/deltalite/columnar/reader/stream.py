"""The reader of data files without Spark: a stream of record batches, or one table.

`read_files` opens one file at a time. It holds the current batch, the next batch, and one page and dictionary per
column. The pages usually take less than a megabyte per column, so a table with thousands of columns takes gigabytes. A
batch has at most about 16 MB, or one row (see `batch_sizes`). `read_table` reads several files at a time and returns
one table.

Batches have the table's Arrow types. Partition columns come from the log, even if a file has a column of that name. A
column that a file lacks is null. The reader omits rows that a deletion vector or an equality delete removes, and rows
for which the predicate is not TRUE. The caller selects the files first, with `columnar.skipping.files.prune`.
Protocol: Reader Requirements; Deletion Vectors; Column Mapping.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pyarrow as pa

from deltalite.columnar.predicates.predicate import Predicate
from deltalite.columnar.reader.batch_sizes import BatchLimits
from deltalite.columnar.reader.data_file import DataFile
from deltalite.columnar.reader.equality_deletes import EqualityDeletes
from deltalite.columnar.reader.one_file import read_file
from deltalite.columnar.reader.plan import DEFAULT_BATCH_SIZE, ReadPlan, plan_reading
from deltalite.protocol.column_mapping import TableSchema
from deltalite.protocol.row_tracking import RowIdColumns

if TYPE_CHECKING:
    from deltalite.storage.log_store import LogStore

_BATCH_BYTES = 16 * 1024 * 1024
# A table holds all rows anyway, and larger batches cost less, above all with thousands of columns.
_TABLE_LIMITS = BatchLimits(rows=131_072, bytes=128 * 1024 * 1024)


def read_files(
    store: LogStore,
    files: Iterable[DataFile],
    table: TableSchema,
    *,
    columns: Sequence[str] | None = None,
    predicate: Predicate | None = None,
    equality_deletes: Sequence[EqualityDeletes] = (),
    row_ids: RowIdColumns | None = None,
    batch_size: int = DEFAULT_BATCH_SIZE,
    use_threads: bool = True,
) -> Iterator[pa.RecordBatch]:
    """Return an iterator over the rows of the files, in order, without empty batches.

    Args:
        store: the table's storage.
        files: data files or parts of them, such as `data_files(snapshot.files)`.
        table: the table's schema.
        columns: the columns of the result: names, paths such as `address.city`, and `MetadataColumn`s. None means the
            table's columns. With `MetadataColumn.IS_DELETED` the result includes deleted rows and marks them.
        predicate: selects rows, by logical column names; None selects all.
        equality_deletes: keys of deleted rows.
        row_ids: the columns of the files that preserve row ids; needed if `columns` has row ids.
        batch_size: the maximum number of rows of a batch.
        use_threads: whether Arrow decodes columns in parallel, in its thread pool.

    Raises:
        InvalidRequestError: at once, if `columns` or `batch_size` is invalid, the reader cannot evaluate the predicate,
            a key does not fit its column, or the table has no row ids. While reading, if a comparison of the predicate
            needs more than 76 digits.
        CorruptDataFileError: while reading, for a file or deletion vector that is missing or damaged, or for a file
            with types that do not fit the table.
        CorruptLogError: while reading, for an invalid partition value.
        UnsupportedFeatureError: while reading, for timestamps before 1900 that an old Spark wrote in a local time zone.
        StorageError: while reading, if storage does not answer.
    """
    plan = plan_reading(
        table,
        columns=columns,
        predicate=predicate,
        equality_deletes=equality_deletes,
        row_ids=row_ids,
        limits=BatchLimits(rows=batch_size, bytes=_BATCH_BYTES),
        use_threads=use_threads,
    )
    return _read(store, files, plan)


def read_table(
    store: LogStore,
    files: Iterable[DataFile],
    table: TableSchema,
    *,
    columns: Sequence[str] | None = None,
    predicate: Predicate | None = None,
    equality_deletes: Sequence[EqualityDeletes] = (),
    row_ids: RowIdColumns | None = None,
) -> pa.Table:
    """Return the rows of the files as one table, in order; arguments and errors as for `read_files`.

    The function reads as many files at a time as there are processors, in threads. Pyarrow releases Python's GIL, so
    the threads run in parallel.
    """
    all_files = list(files)
    workers = min(pa.cpu_count(), len(all_files))
    plan = plan_reading(
        table,
        columns=columns,
        predicate=predicate,
        equality_deletes=equality_deletes,
        row_ids=row_ids,
        limits=_TABLE_LIMITS,
        # With a file for each processor, parallel decoding of columns would only add thread switches.
        use_threads=workers < pa.cpu_count(),
    )

    def batches_of(file: DataFile) -> list[pa.RecordBatch]:
        return list(read_file(store, file, plan))

    if workers > 1:
        with ThreadPoolExecutor(max_workers=workers, thread_name_prefix="read") as pool:
            batches_by_file = list(pool.map(batches_of, all_files))
    else:
        batches_by_file = [batches_of(file) for file in all_files]
    return pa.Table.from_batches([batch for batches in batches_by_file for batch in batches], schema=plan.result)


def _read(store: LogStore, files: Iterable[DataFile], plan: ReadPlan) -> Iterator[pa.RecordBatch]:
    for file in files:
        yield from read_file(store, file, plan)

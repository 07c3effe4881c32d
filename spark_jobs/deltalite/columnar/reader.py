"""The rows of data files as a stream of record batches, without Spark.

`read_files` opens one file at a time, whatever the size of the table, of a file or of a row group. It holds the batch
that it gives, the next one while that is made, and for each column an open page and a dictionary (mostly below a
megabyte, as writers make them: thousands of columns take gigabytes). Batches have about 16 MB, or one row; the one in
which texts become longer all at once may have more. Batches have the table's Arrow types; partition columns come from
the log, also where a file has a column of that name; what a file does not have is null. Rows that a deletion vector or
an equality delete marks are left out, and those for which the predicate is not TRUE. Which files to open at all is
`skipping.prune`'s decision, taken before.
`read_table` gathers the same rows as one table and reads several files at a time.
Protocol: Reader Requirements; Deletion Vectors; Column Mapping.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pyarrow as pa

from deltalite.columnar.batch_sizes import BatchLimits
from deltalite.columnar.data_file import DataFile
from deltalite.columnar.equality_deletes import EqualityDeletes
from deltalite.columnar.one_file import read_file
from deltalite.columnar.predicate import Predicate
from deltalite.columnar.reading import DEFAULT_BATCH_SIZE, Reading, plan_reading
from deltalite.protocol.column_mapping import TableSchema

if TYPE_CHECKING:
    from deltalite.storage.log_store import LogStore

_BATCH_BYTES = 16 * 1024 * 1024
# What is kept anyway may come in larger pieces, which cost less each, above all in tables of thousands of columns.
_TABLE_LIMITS = BatchLimits(rows=131_072, bytes=128 * 1024 * 1024)


def read_files(
    store: LogStore,
    files: Iterable[DataFile],
    table: TableSchema,
    *,
    columns: Sequence[str] | None = None,
    predicate: Predicate | None = None,
    equality_deletes: Sequence[EqualityDeletes] = (),
    batch_size: int = DEFAULT_BATCH_SIZE,
    use_threads: bool = True,
) -> Iterator[pa.RecordBatch]:
    """The rows of the files, in their order; no batch is empty.

    Args:
        store: the table's storage.
        files: data files or parts of them, such as `data_files(snapshot.files)` gives.
        table: the table's schema.
        columns: names, paths such as `address.city`, and `MetadataColumn`s, in the order wanted; the table's columns
            where None. With `MetadataColumn.IS_DELETED` deleted rows are given too, and marked.
        predicate: which rows; all where None. It names columns as users do.
        equality_deletes: keys of rows that are deleted.
        batch_size: the most rows that a batch has.
        use_threads: decode columns in parallel, in Arrow's own pool.

    Raises:
        InvalidRequestError: at once, for a column that the table does not have, a predicate that it cannot evaluate,
            or keys that do not fit.
        CorruptDataFileError: while reading, for a file or a deletion vector that is missing, damaged or of other types
            than the table.
        CorruptLogError: while reading, for a partition value that is no value of its column.
        UnsupportedFeatureError: while reading, for old times of a foreign clock.
        StorageError: while reading, when storage does not answer.
    """
    reading = plan_reading(
        table,
        columns=columns,
        predicate=predicate,
        equality_deletes=equality_deletes,
        limits=BatchLimits(rows=batch_size, bytes=_BATCH_BYTES),
        use_threads=use_threads,
    )
    return _read(store, files, reading)


def read_table(
    store: LogStore,
    files: Iterable[DataFile],
    table: TableSchema,
    *,
    columns: Sequence[str] | None = None,
    predicate: Predicate | None = None,
    equality_deletes: Sequence[EqualityDeletes] = (),
) -> pa.Table:
    """The rows of the files as one table, in their order; arguments and errors are those of `read_files`.

    As many files are read at a time as there are processors, in threads: pyarrow works without the interpreter's lock.
    """
    several = list(files)
    workers = min(pa.cpu_count(), len(several))
    reading = plan_reading(
        table,
        columns=columns,
        predicate=predicate,
        equality_deletes=equality_deletes,
        limits=_TABLE_LIMITS,
        # Where there is a file for each processor, decoding columns in parallel as well only adds switches.
        use_threads=workers < pa.cpu_count(),
    )

    def batches_of(file: DataFile) -> list[pa.RecordBatch]:
        return list(read_file(store, file, reading))

    if workers > 1:
        with ThreadPoolExecutor(max_workers=workers, thread_name_prefix="read") as pool:
            found = list(pool.map(batches_of, several))
    else:
        found = [batches_of(file) for file in several]
    return pa.Table.from_batches([batch for batches in found for batch in batches], schema=reading.result)


def _read(store: LogStore, files: Iterable[DataFile], reading: Reading) -> Iterator[pa.RecordBatch]:
    for file in files:
        yield from read_file(store, file, reading)

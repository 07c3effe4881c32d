"""Row positions, collected to the driver, one file after the other.

The numbers of rows in the files decide how `positions_by_file` collects the positions:

1. Few rows: Spark transfers the address of each row, in one job without a shuffle.
2. More rows: Spark builds bitmaps of 32,768 positions (4 KiB) each, and the driver collects all bitmaps at once.
3. Very many rows or files, or unknown numbers: as case 2, but the driver holds the bitmaps of one Spark partition at a
   time.

Executors run no Python. Protocol: Deletion Vectors.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.spark.columns.names import column_named
from deltalite.spark.runtime.termination import collect_to_arrow

MAX_FEW_POSITIONS = 250_000
"""The limit of case 1. The addresses take 4 MB of `spark.driver.maxResultSize`."""

# The limit of case 2. The bitmaps take 16 MB of `spark.driver.maxResultSize`.
_MAX_BITMAPS_IN_ONE_COLLECTION = 4_000
# The limit of Spark partitions in case 3. Each takes a job, also if few rows match or the numbers of rows are wrong.
_MAX_PARTITIONS = 64
# The bucket size of `bitmap_construct_agg`, which counts buckets and positions from 1.
_POSITIONS_PER_BUCKET = 32_768


def positions_by_file(
    rows: DataFrame, *, file: str, row: str, row_counts: pa.ChunkedArray | None = None
) -> Iterator[tuple[int, pa.Int64Array]]:
    """Yield each file number with the positions (from 0, strictly increasing) of its rows.

    The columns `file` and `row` have the type bigint, and no null. `rows` has no address twice. `row_counts` has the
    number of all rows of each file (int64, null if it is unknown). It is None if the files are unknown. If the numbers
    are too small, the driver may need more memory.
    """
    if has_few_rows(row_counts):
        yield from few_positions_by_file(rows, file=file, row=row)
        return
    position_from_1 = column_named(row) + 1
    bitmaps = rows.groupBy(
        column_named(file).alias("file"), F.bitmap_bucket_number(position_from_1).alias("bucket")
    ).agg(F.bitmap_construct_agg(F.bitmap_bit_position(position_from_1)).alias("bits"))
    sorted_bitmaps: Iterable[Row]
    max_bitmaps = _max_bitmaps(row_counts)
    if max_bitmaps <= _MAX_BITMAPS_IN_ONE_COLLECTION:
        sorted_bitmaps = sorted(bitmaps.collect(), key=itemgetter("file", "bucket"))
    else:
        partitions = bitmaps.repartition("file")
        if max_bitmaps < math.inf:
            # With a fixed number, Spark does not merge partitions. It would merge them by their compressed size, which
            # is small for bitmaps with few rows.
            partition_count = math.ceil(max_bitmaps / _MAX_BITMAPS_IN_ONE_COLLECTION)
            partitions = bitmaps.repartition(min(partition_count, _MAX_PARTITIONS), "file")
        sorted_bitmaps = partitions.sortWithinPartitions("file", "bucket").toLocalIterator()
    for number, buckets in groupby(sorted_bitmaps, key=itemgetter("file")):
        yield (
            number,
            pa.concat_arrays([_positions(b["bits"], (b["bucket"] - 1) * _POSITIONS_PER_BUCKET) for b in buckets]),
        )


def few_positions_by_file(rows: DataFrame, *, file: str, row: str) -> Iterator[tuple[int, pa.Int64Array]]:
    """Yield the same as `positions_by_file` for at most `MAX_FEW_POSITIONS` rows, in one job without a shuffle.

    `rows` has no address twice.
    """
    addresses = rows.select(column_named(file).alias("file"), column_named(row).alias("row"))
    yield from positions_of_addresses(collect_to_arrow(addresses))


def has_few_rows(row_counts: pa.ChunkedArray | None) -> bool:
    """Whether files with these numbers of rows have at most `MAX_FEW_POSITIONS` rows; False if a number is unknown."""
    return _row_count(row_counts) <= MAX_FEW_POSITIONS


def _max_bitmaps(row_counts: pa.ChunkedArray | None) -> float:
    """Return the largest possible number of bitmaps, infinite if a number of rows is unknown."""
    file_count = 0 if row_counts is None else len(row_counts)  # each file may have a bitmap that is not full
    return _row_count(row_counts) / _POSITIONS_PER_BUCKET + file_count


def _row_count(row_counts: pa.ChunkedArray | None) -> float:
    """Return the sum of the numbers, infinite if one is unknown."""
    if row_counts is None or row_counts.null_count:
        return math.inf
    # The sum of wrong numbers may not fit into 64 bits.
    row_count: float = pc.sum(row_counts.cast(pa.float64(), safe=False), min_count=0).as_py()
    return row_count


def positions_of_addresses(addresses: pa.Table) -> Iterator[tuple[int, pa.Int64Array]]:
    """Yield each file number with the positions of its rows, strictly increasing.

    `addresses` has the columns `file` and `row` (both int64), without nulls, and no address twice.
    """
    addresses = addresses.sort_by([("file", "ascending"), ("row", "ascending")]).combine_chunks()
    counts = pc.value_counts(addresses["file"])  # in the order of the files, because the addresses are sorted
    first = 0
    for number, count in zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True):
        yield number, addresses["row"].slice(first, count).combine_chunks()
        first += count


def _positions(bits: bytearray, first: int) -> pa.Int64Array:
    """Return the positions of the set bits. The lowest bit of the first byte has the position `first`."""
    flags = pa.Array.from_buffers(pa.bool_(), _POSITIONS_PER_BUCKET, [None, pa.py_buffer(bytes(bits))])
    return pc.add(pc.indices_nonzero(flags).cast(pa.int64()), first)

"""Row positions, collected to the driver, one file after the other.

For any number of rows, `positions_by_file` lets Spark build bitmaps of 32,768 positions each. So Spark transfers at
most an eighth of a byte per row of a file, and the driver holds the bitmaps of one Spark partition at a time. For few
rows, `few_positions_by_file` collects their addresses in one job without a shuffle. Executors run no Python.
Protocol: Deletion Vectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.spark.columns.names import column_named

MAX_FEW_POSITIONS = 250_000
"""The limit of `few_positions_by_file`. The addresses take 4 MB of `spark.driver.maxResultSize`."""

# The bucket size of `bitmap_construct_agg`, which counts buckets and positions from 1.
_POSITIONS_PER_BUCKET = 32_768


def positions_by_file(rows: DataFrame, *, file: str, row: str) -> Iterator[tuple[int, pa.Int64Array]]:
    """Yield each file number with the positions (from 0, strictly increasing) of its rows. Repeated rows count once."""
    position_from_1 = column_named(row) + 1
    bitmaps = (
        rows.groupBy(column_named(file).alias("file"), F.bitmap_bucket_number(position_from_1).alias("bucket"))
        .agg(F.bitmap_construct_agg(F.bitmap_bit_position(position_from_1)).alias("bits"))
        .repartition("file")
        .sortWithinPartitions("file", "bucket")
    )
    for number, buckets in groupby(bitmaps.toLocalIterator(), key=lambda bitmap: bitmap["file"]):
        yield (
            number,
            pa.concat_arrays([_positions(b["bits"], (b["bucket"] - 1) * _POSITIONS_PER_BUCKET) for b in buckets]),
        )


def few_positions_by_file(rows: DataFrame, *, file: str, row: str) -> Iterator[tuple[int, pa.Int64Array]]:
    """Yield the same as `positions_by_file` for at most `MAX_FEW_POSITIONS` rows without duplicates, in one Spark job.

    The columns `file` and `row` must have the type bigint, and no null.
    """
    addresses = rows.select(column_named(file).alias("file"), column_named(row).alias("row")).toArrow()
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

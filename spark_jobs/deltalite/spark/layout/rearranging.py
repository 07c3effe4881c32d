"""A frame that gathers the rows of files in bins: its partition `n` holds the rows of bin `n`.

The writer of the frame gets a file for each partition, and the task number identifies the bin. A large bin is read by
one task, in a union of scans: no row is shuffled, and rows keep their order. Each branch of a union costs some tens of
milliseconds before Spark reads a row. Therefore one scan reads many small bins together, and Spark shuffles their rows
by the number of the bin. Executors run no Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from deltalite.snapshot import Snapshot
from deltalite.spark.columns.names import column_named, unused_name
from deltalite.spark.scan.frame import scan_with_row_ids

UNION_SETTINGS = {"spark.sql.unionOutputPartitioning": "false"}
"""The settings for writing bins. Without them Spark 4.1 and later merge the partitions of a union's branches."""

# A smaller bin becomes a file with one row group. The order of rows in such a file does not help readers.
_LARGE_BIN_BYTES = 16 * 1024 * 1024
# Up to this number, small bins are scanned separately, like large bins.
_MAX_SEPARATE_SMALL_BINS = 8
_MAX_BRANCHES = 100
_SEED = 42
_MASK_OF_32_BITS = 0xFFFFFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class BinJob:
    """The numbers of the bins that one Spark job writes, and whether their rows are shuffled."""

    bins: tuple[int, ...]
    shuffles: bool


def jobs_for(sizes: Sequence[int]) -> list[BinJob]:
    """Return the jobs for bins of these sizes (bytes)."""
    small_bins = [number for number, size in enumerate(sizes) if size < _LARGE_BIN_BYTES]
    if len(small_bins) <= _MAX_SEPARATE_SMALL_BINS:
        small_bins = []
    large_bins = sorted(set(range(len(sizes))) - set(small_bins))
    groups = (tuple(large_bins[start : start + _MAX_BRANCHES]) for start in range(0, len(large_bins), _MAX_BRANCHES))
    jobs = [BinJob(bins=group, shuffles=False) for group in groups]
    return [*jobs, BinJob(bins=tuple(small_bins), shuffles=True)] if small_bins else jobs


def gathered_bins(
    spark: SparkSession, snapshot: Snapshot, files: pa.Table, bins: Sequence[Sequence[int]], *, shuffles: bool
) -> DataFrame:
    """Return the live rows of `files`. Partition `n` of the result has the rows of bin `n`.

    Each bin names its files by their positions in `files`. The result has the columns of `scan_with_row_ids`.

    Raises:
        CorruptDataFileError, CorruptLogError, StorageError, UnsupportedStorageError: see `scan`.
    """
    if shuffles:
        return _shuffled_bins(spark, snapshot, files, bins)
    groups = [files.take(pa.array(numbers, pa.int64())) for numbers in bins]
    branches = [scan_with_row_ids(spark, snapshot, group).coalesce(1) for group in groups]
    result = branches[0]
    for branch in branches[1:]:
        result = result.unionAll(branch)
    return result


def _shuffled_bins(
    spark: SparkSession, snapshot: Snapshot, files: pa.Table, bins: Sequence[Sequence[int]]
) -> DataFrame:
    bin_files = files.take(pa.array([number for numbers in bins for number in numbers], pa.int64()))
    keys = keys_of_partitions(len(bins))
    keys_of_files = pa.array([keys[n] for n, numbers in enumerate(bins) for _ in numbers], pa.int32())
    name = unused_name(snapshot.schema, "bin")
    rows = scan_with_row_ids(spark, snapshot, bin_files, by_file={name: keys_of_files})
    return rows.repartition(len(bins), column_named(name)).drop(name)


def keys_of_partitions(count: int) -> list[int]:
    """Return an integer key for each of `count` partitions.

    Spark's `repartition(count, key)` sends rows with a key to its partition. Spark uses Murmur3 of the key (x86, 32
    bits, seed 42) modulo the count.
    """
    keys: dict[int, int] = {}
    key = 0
    while len(keys) < count:
        keys.setdefault(_murmur3(key) % count, key)
        key += 1
    return [keys[partition] for partition in range(count)]


def _murmur3(key: int) -> int:
    """Return the Murmur3 hash of a 32-bit integer as a signed value."""
    mixed = key * 0xCC9E2D51 & _MASK_OF_32_BITS
    mixed = _rotate_left(mixed, 15) * 0x1B873593 & _MASK_OF_32_BITS
    state = _rotate_left(_SEED ^ mixed, 13) * 5 + 0xE6546B64 & _MASK_OF_32_BITS
    state ^= 4  # the length of the key in bytes
    state = (state ^ state >> 16) * 0x85EBCA6B & _MASK_OF_32_BITS
    state = (state ^ state >> 13) * 0xC2B2AE35 & _MASK_OF_32_BITS
    state ^= state >> 16
    return state - (state >> 31 << 32)


def _rotate_left(word: int, places: int) -> int:
    return (word << places | word >> 32 - places) & _MASK_OF_32_BITS

"""The rows of a data file that a scan returns: all, all but some, or only some.

Rows are identified by their position in the file. For a join, Spark gets the positions as blocks of bits. Block `n` of
a file has one bit for each of the positions `4096 * n` to `4096 * n + 4095`, in 64 words. If the positions are so
sparse that there are very many blocks, a block has only 64 positions, in one word. A block without a set bit is left
out. A row looks up its block by one 64-bit number: the file's number in the high 32 bits, and `n` in the low 32 bits.
Spark's fastest hash table has such a key, and adjacent rows use the same block, so the processor caches it. The blocks
are computed in columnar form and sent to the JVM in one piece. Executors run no Python. Protocol: Deletion Vectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.columnar.deletion_vectors.reading import positions_of_vectors
from deltalite.spark.columns.names import quoted
from deltalite.storage.log_store import LogStore

# For blocks of 4,096 and of 64 positions: the number of bits of a position in its block, and the largest number of
# blocks that Spark broadcasts. They take about 120 MB in each executor. For more blocks, Spark may choose a join that
# does not hold them in memory.
_LARGE_BLOCK_BITS, MAX_LARGE_BLOCKS = 12, 200_000
_SMALL_BLOCK_BITS, MAX_SMALL_BLOCKS = 6, 500_000
_POSITIONS_PER_BATCH = 4_000_000
_BLOCK_SCHEMA = pa.schema([("block", pa.int64()), ("words", pa.list_(pa.int64()))])
# The number of a block in its file has this many bits.
_BLOCK_NUMBER_BITS = 32
_MAX_POSITIONS = 1 << _SMALL_BLOCK_BITS + _BLOCK_NUMBER_BITS


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSelection:
    """The selected rows of a file: with `only_these` the rows at `positions` (increasing, from 0), else all others."""

    positions: pa.Int64Array
    only_these: bool = False


def live_rows(store: LogStore, files: pa.Table) -> dict[int, RowSelection]:
    """Return, for each file with deleted rows, the selection of its live rows, by file number.

    Raises:
        CorruptDataFileError: a vector is missing or damaged.
        StorageError: the storage does not deliver a vector.
    """
    vectors = files["deletionVector"]
    numbers = pc.indices_nonzero(pc.is_valid(vectors)).to_pylist()
    if not numbers:
        return {}
    deleted_positions = positions_of_vectors(store, vectors.take(pa.array(numbers, pa.int64())).to_pylist())
    return {
        number: RowSelection(positions=positions)
        for number, positions in zip(numbers, deleted_positions, strict=True)
        if len(positions)
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """Positions as bits: a table with the columns `block` (int64) and `words` (list of int64).

    Bit 0 of the first word is the first row of the block. A block has `2**position_bits` positions.
    """

    table: pa.Table
    position_bits: int

    @property
    def words_per_block(self) -> int:
        """The number of words in each block."""
        return 1 << self.position_bits - _SMALL_BLOCK_BITS

    @property
    def is_small(self) -> bool:
        """Whether executors can hold all blocks in memory."""
        max_blocks = MAX_LARGE_BLOCKS if self.position_bits == _LARGE_BLOCK_BITS else MAX_SMALL_BLOCKS
        return int(self.table.num_rows) <= max_blocks


def blocks_of(positions_by_file: Sequence[pa.Int64Array]) -> Blocks:
    """Convert the positions in each file to blocks. The positions of a file increase.

    The number of a file is its position in `positions_by_file`. Positions that no file can have, such as those of a
    damaged vector, are left out.
    """
    block_count = sum(_count_large_blocks(positions) for positions in positions_by_file)
    position_bits = _LARGE_BLOCK_BITS if block_count <= MAX_LARGE_BLOCKS else _SMALL_BLOCK_BITS
    tables = [_BLOCK_SCHEMA.empty_table()]
    batch: list[tuple[int, pa.Int64Array]] = []
    position_count = 0
    for number, positions in enumerate(positions_by_file):
        batch.append((number, positions))
        position_count += len(positions)
        if position_count >= _POSITIONS_PER_BATCH:
            tables.append(_blocks_of_batch(batch, position_bits))
            batch, position_count = [], 0
    tables.append(_blocks_of_batch(batch, position_bits))
    return Blocks(table=pa.concat_tables(tables), position_bits=position_bits)


def _count_large_blocks(positions: pa.Int64Array) -> int:
    numbers = positions.to_numpy(zero_copy_only=False) >> _LARGE_BLOCK_BITS
    return int(np.count_nonzero(np.diff(numbers))) + 1 if len(numbers) else 0


def _blocks_of_batch(batch: Sequence[tuple[int, pa.Int64Array]], position_bits: int) -> pa.Table:
    if not batch:
        return _BLOCK_SCHEMA.empty_table()
    words_per_block = 1 << position_bits - _SMALL_BLOCK_BITS
    position = np.concatenate([positions.to_numpy(zero_copy_only=False) for _, positions in batch])
    number = np.repeat([number for number, _ in batch], [len(positions) for _, positions in batch])
    is_possible = position < _MAX_POSITIONS
    position, number = position[is_possible], number[is_possible]
    block = number << _BLOCK_NUMBER_BITS | position >> position_bits
    distinct_blocks, row = np.unique(block, return_inverse=True)
    words = np.zeros((len(distinct_blocks), words_per_block), np.int64)
    np.bitwise_or.at(words, (row, position >> 6 & words_per_block - 1), np.int64(1) << (position & 63))
    offsets = np.arange(len(distinct_blocks) + 1, dtype=np.int32) * words_per_block
    lists = pa.ListArray.from_arrays(pa.array(offsets), pa.array(words.ravel()))
    return pa.table([pa.array(distinct_blocks), lists], _BLOCK_SCHEMA)


def select_rows(
    rows: DataFrame, *, number: str, position: str, blocks: Blocks, only_these: bool, names: Mapping[str, str]
) -> DataFrame:
    """Return the rows whose bit in `blocks` is clear. With `only_these`, return the rows whose bit is set.

    `number` and `position` are the columns of the file's number and of the row's position. `names` has unused names for
    the columns `block` and `words`, which stay in the result.
    """
    table = blocks.table.rename_columns([names[name] for name in _BLOCK_SCHEMA.names])
    frame = rows.sparkSession.createDataFrame(table)
    if blocks.is_small:
        frame = F.broadcast(frame)
    number, position, block, words = map(quoted, (number, position, names["block"], names["words"]))
    # The conditions are SQL text, because each column object costs several calls to the JVM. They use only operators,
    # because in Spark 4.0 a temporary function of the user hides a built-in function with the same name.
    high_bits, low_bits = f"CAST({number} AS BIGINT) << {_BLOCK_NUMBER_BITS}", f"{position} >> {blocks.position_bits}"
    has_same_block = F.expr(f"(({high_bits}) | ({low_bits})) = {block}")
    word = f"{words}[CAST(({position} >> 6) & {blocks.words_per_block - 1} AS INT)]"
    bit = f"(({word} >> CAST({position} & 63 AS INT)) & 1)"
    joined = rows.join(frame, has_same_block, "inner" if only_these else "left_outer")
    return joined.where(f"{bit} = 1" if only_these else f"{block} IS NULL OR {bit} = 0")

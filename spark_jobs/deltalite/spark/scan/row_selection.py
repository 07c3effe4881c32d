"""The rows of a data file that a scan returns: all, all but some, or only some.

Rows are identified by their position in the file. For a join Spark gets 64 positions in one word: word `n` of a file
holds the positions `64 * n` to `64 * n + 63`. A row looks up its word by one 64-bit number: the file's number in the
high 32 bits, and `n` in the low 32 bits. Spark's fastest hash table has such a key. The words are computed in columnar
form and sent to the JVM in one piece. Executors run no Python. Protocol: Deletion Vectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.columnar.deletion_vectors.reading import vector_positions
from deltalite.storage.log_store import LogStore

# About 100 MB in each executor. For more words, Spark may choose a join that does not hold them in memory.
MAX_BROADCAST_WORDS = 500_000
_MAX_THREADS = 16
_POSITIONS_PER_BATCH = 4_000_000
_WORD_SCHEMA = pa.schema([("word", pa.int64()), ("bits", pa.int64())])
# The number of a word in its file has this many bits.
_WORD_NUMBER_BITS = 32
_MAX_POSITIONS = 64 << _WORD_NUMBER_BITS


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSelection:
    """The selected rows of a file: with `only_these` the rows at `positions` (increasing, from 0), else all others."""

    positions: pa.Int64Array
    only_these: bool = False


def live_rows(store: LogStore, files: pa.Table) -> dict[int, RowSelection]:
    """Return, for each file with deleted rows, the selection of its live rows, by file number.

    Vectors are read in parallel, because each may be a request to an object store.

    Raises:
        CorruptDataFileError: a vector is missing or damaged.
        StorageError: the storage does not deliver a vector.
    """
    vectors = files["deletionVector"]
    numbers = pc.indices_nonzero(pc.is_valid(vectors)).to_pylist()
    if not numbers:
        return {}
    with ThreadPoolExecutor(max_workers=min(_MAX_THREADS, len(numbers)), thread_name_prefix="vector") as pool:
        deleted_positions = list(pool.map(lambda number: vector_positions(store, vectors[number].as_py()), numbers))
    return {
        number: RowSelection(positions=positions)
        for number, positions in zip(numbers, deleted_positions, strict=True)
        if len(positions)
    }


def words_of(positions_by_file: Sequence[pa.Int64Array]) -> pa.Table:
    """Convert the positions in each file to words: `word` (int64), `bits` (int64, bit 0 is the first row).

    The number of a file is its position in `positions_by_file`. Positions that no file can have, such as those of a
    damaged vector, are left out.
    """
    tables = [_WORD_SCHEMA.empty_table()]
    batch: list[tuple[int, pa.Int64Array]] = []
    position_count = 0
    for number, positions in enumerate(positions_by_file):
        batch.append((number, positions))
        position_count += len(positions)
        if position_count >= _POSITIONS_PER_BATCH:
            tables.append(_words_of_batch(batch))
            batch, position_count = [], 0
    return pa.concat_tables([*tables, _words_of_batch(batch)])


def _words_of_batch(batch: Sequence[tuple[int, pa.Int64Array]]) -> pa.Table:
    if not batch:
        return _WORD_SCHEMA.empty_table()
    positions = pa.concat_arrays([positions for _, positions in batch])
    number = pa.concat_arrays([pa.repeat(pa.scalar(n, pa.int64()), len(array)) for n, array in batch])
    is_possible = pc.less(positions, _MAX_POSITIONS)
    positions, number = positions.filter(is_possible), number.filter(is_possible)
    # Unsigned, because Arrow does not shift into the sign bit. The sum of different bits is their union.
    bits = pc.shift_left(pa.scalar(1, pa.uint64()), pc.bit_wise_and(positions, 63).cast(pa.uint64()))
    word = pc.bit_wise_or(pc.shift_left(number, _WORD_NUMBER_BITS), pc.shift_right(positions, 6))
    words = pa.table({"word": word, "bits": bits}).group_by("word").aggregate([("bits", "sum")])
    signed = pa.chunked_array([chunk.view(pa.int64()) for chunk in words["bits_sum"].chunks], pa.int64())
    return pa.table([words["word"], signed], _WORD_SCHEMA)


def select_rows(
    rows: DataFrame, number: Column, position: Column, words: pa.Table, *, only_these: bool, names: Mapping[str, str]
) -> DataFrame:
    """Return the rows with a clear bit (with `only_these`: a set bit) in the word for their file and position.

    `number` is the file's number. `names` has unused names for the columns `word` and `bits`, which stay in the result.
    """
    spark = rows.sparkSession
    frame = spark.createDataFrame(words.rename_columns([names[name] for name in _WORD_SCHEMA.names]))
    if words.num_rows <= MAX_BROADCAST_WORDS:
        frame = F.broadcast(frame)
    word = F.shiftleft(number.cast("bigint"), _WORD_NUMBER_BITS).bitwiseOR(F.shiftright(position, 6))
    has_same_word = word == frame[names["word"]]
    bit = F.getbit(frame[names["bits"]], position.bitwiseAND(63).cast("int"))
    if only_these:
        return rows.join(frame, has_same_word, "inner").where(bit == 1)
    return rows.join(frame, has_same_word, "left_outer").where(frame[names["bits"]].isNull() | (bit == 0))

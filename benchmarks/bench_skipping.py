"""Data skipping in the log of a table with a million files: a range, and lists of a thousand values.

There is no peer: each line has an absolute target in seconds, and shows the time to parse the statistics separately.
The statistics are those of a feed with a key, a UUID, a time and a price, in the form of Delta, with truncated UUIDs.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from uuid import UUID

import pyarrow as pa

from deltalite.columnar.predicates.predicate import And, Comparison, In, Operator, Predicate
from deltalite.columnar.skipping.files import FILES_AT_A_TIME, prune
from deltalite.columnar.skipping.stats_columns import facts_of_files
from deltalite.protocol.column_mapping import TableSchema
from deltalite.protocol.schema import PrimitiveType, StructField, StructType

FILES = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
VALUES = 1_000
ROWS = 1_000
ROUNDS = 5
TARGET_S = 2.0
TYPES = {"id": "long", "uuid": "string", "at": "timestamp", "price": "double"}
SCHEMA = StructType(tuple(StructField(name, PrimitiveType(kind)) for name, kind in TYPES.items()))
STEP = (1 << 128) // FILES


def uuid_of(number: int) -> str:
    """Return the text of a UUID."""
    return str(UUID(int=number % (1 << 128)))


def stats_of(file: int) -> str:
    """Return Delta's statistics of one file: a thousand keys, and the file's part of the range of UUIDs."""
    low, high = uuid_of(file * STEP)[:32], uuid_of((file + 1) * STEP - 1)[:32] + "\\u007f"
    at = f"2026-01-01T{file % 24:02}:{file // 24 % 60:02}:00.000Z"
    smallest = f'{{"id":{file * ROWS},"uuid":"{low}","at":"{at}","price":0.5}}'
    largest = f'{{"id":{file * ROWS + ROWS - 1},"uuid":"{high}","at":"{at}","price":99.95}}'
    return (
        f'{{"numRecords":{ROWS},"minValues":{smallest},"maxValues":{largest},'
        '"nullCount":{"id":0,"uuid":0,"at":0,"price":0}}'
    )


def files_of_table() -> pa.Table:
    """Return the files of a snapshot, with the columns that data skipping reads."""
    return pa.table(
        {
            "path": pa.array([f"part-{number:08}.parquet" for number in range(FILES)]),
            "partitionValues": pa.nulls(FILES, pa.map_(pa.string(), pa.string())),
            "stats": pa.array(map(stats_of, range(FILES)), pa.string()),
        }
    )


def median_s(call: Callable[[], object]) -> float:
    """Return the median seconds of a call, after one call that is not counted."""
    seconds = []
    for _ in range(ROUNDS + 1):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds[1:])


def parse(files: pa.Table, column: str) -> None:
    """Parse the statistics of one column of all files, as skipping does."""
    for batch in files.select(["stats"]).to_batches(max_chunksize=FILES_AT_A_TIME):
        facts_of_files(batch.column(0), {(column,): PrimitiveType(TYPES[column])})


def cases() -> list[tuple[str, str, Predicate, int]]:
    """Return the name of each line, the column that it reads, the predicate, and the number of files that may match."""
    start, end = FILES // 2, FILES // 2 + 9
    at_least = Comparison(column=("id",), operator=Operator.GT_EQ, literal=start * ROWS)
    below = Comparison(column=("id",), operator=Operator.LT, literal=end * ROWS)
    listed_files = range(0, FILES, FILES // VALUES)
    keys = tuple(file * ROWS for file in listed_files)
    uuids = tuple(uuid_of(file * STEP + STEP // 2) for file in listed_files)
    return [
        ("a range of keys", "id", And((at_least, below)), end - start),
        (f"IN of {len(keys):,} keys", "id", In(("id",), keys), len(listed_files)),
        (f"IN of {len(uuids):,} UUIDs", "uuid", In(("uuid",), uuids), len(listed_files)),
    ]


def main() -> None:
    """Time each predicate, check the number of remaining files, and print the table."""
    files, table = files_of_table(), TableSchema(logical=SCHEMA)
    print(f"{f'skipping among {FILES:,} files':<44} {'ours':>8} {'parsing':>8} {'target':>7}")
    for name, column, predicate, expected in cases():
        num_files = prune(files, predicate, table).num_rows
        if num_files != expected:
            raise SystemExit(f"{name}: {num_files} files remain instead of {expected}.")
        total, parsing = median_s(partial(prune, files, predicate, table)), median_s(partial(parse, files, column))
        print(f"{name:<44} {total:>7.2f}s {parsing:>7.2f}s {TARGET_S:>6.2f}s{'' if total <= TARGET_S else '  OVER'}")


if __name__ == "__main__":
    main()

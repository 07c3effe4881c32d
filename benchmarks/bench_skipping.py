"""Data skipping in the log of a table with a million files: a range, and lists of a thousand values.

The benchmark measures no other library, so each line has a target in seconds. A line also has the time to parse the
statistics alone. The statistics are those of a feed with a key, a UUID, a time and a price. They have Delta's JSON
form, with truncated UUIDs.
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
VALUES_PER_LIST = 1_000
ROWS_PER_FILE = 1_000
ROUNDS = 5
TARGET_S = 2.0
TYPES = {"id": "long", "uuid": "string", "at": "timestamp", "price": "double"}
SCHEMA = StructType(tuple(StructField(name, PrimitiveType(kind)) for name, kind in TYPES.items()))
UUIDS_PER_FILE = (1 << 128) // FILES


def uuid_text(number: int) -> str:
    """Return the text of the UUID with this number."""
    return str(UUID(int=number % (1 << 128)))


def stats_of_file(file: int) -> str:
    """Return Delta's statistics of one file: a thousand keys, and the file's part of the range of UUIDs."""
    min_uuid = uuid_text(file * UUIDS_PER_FILE)[:32]
    max_uuid = uuid_text((file + 1) * UUIDS_PER_FILE - 1)[:32] + "\\u007f"
    timestamp = f"2026-01-01T{file % 24:02}:{file // 24 % 60:02}:00.000Z"
    first_key, last_key = file * ROWS_PER_FILE, (file + 1) * ROWS_PER_FILE - 1
    min_values = f'{{"id":{first_key},"uuid":"{min_uuid}","at":"{timestamp}","price":0.5}}'
    max_values = f'{{"id":{last_key},"uuid":"{max_uuid}","at":"{timestamp}","price":99.95}}'
    return (
        f'{{"numRecords":{ROWS_PER_FILE},"minValues":{min_values},"maxValues":{max_values},'
        '"nullCount":{"id":0,"uuid":0,"at":0,"price":0}}'
    )


def files_of_table() -> pa.Table:
    """Return the files of a snapshot, with the columns that data skipping reads."""
    return pa.table(
        {
            "path": pa.array([f"part-{number:08}.parquet" for number in range(FILES)]),
            "partitionValues": pa.nulls(FILES, pa.map_(pa.string(), pa.string())),
            "stats": pa.array(map(stats_of_file, range(FILES)), pa.string()),
        }
    )


def median_s(call: Callable[[], object]) -> float:
    """Return the median seconds of a call, after one call that does not count."""
    seconds = []
    for _ in range(ROUNDS + 1):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds[1:])


def parse_stats(files: pa.Table, column: str) -> None:
    """Parse the statistics of one column of all files, as data skipping does."""
    for batch in files.select(["stats"]).to_batches(max_chunksize=FILES_AT_A_TIME):
        facts_of_files(batch.column(0), {(column,): PrimitiveType(TYPES[column])})


def cases() -> list[tuple[str, str, Predicate, int]]:
    """Return the name of each line, the column that it reads, the predicate, and the number of files that may match."""
    first_file, end_file = FILES // 2, FILES // 2 + 9
    lower_bound = Comparison(column=("id",), operator=Operator.GT_EQ, literal=first_file * ROWS_PER_FILE)
    upper_bound = Comparison(column=("id",), operator=Operator.LT, literal=end_file * ROWS_PER_FILE)
    matching_files = range(0, FILES, FILES // VALUES_PER_LIST)
    keys = tuple(file * ROWS_PER_FILE for file in matching_files)
    uuids = tuple(uuid_text(file * UUIDS_PER_FILE + UUIDS_PER_FILE // 2) for file in matching_files)
    return [
        ("a range of keys", "id", And((lower_bound, upper_bound)), end_file - first_file),
        (f"IN of {len(keys):,} keys", "id", In(("id",), keys), len(matching_files)),
        (f"IN of {len(uuids):,} UUIDs", "uuid", In(("uuid",), uuids), len(matching_files)),
    ]


def main() -> None:
    """Time each predicate, check the number of remaining files, and print the table."""
    files, table = files_of_table(), TableSchema(logical=SCHEMA)
    print(f"{f'skipping among {FILES:,} files':<44} {'total':>8} {'parsing':>8} {'target':>7}")
    for name, column, predicate, expected in cases():
        num_files = prune(files, predicate, table).num_rows
        if num_files != expected:
            raise SystemExit(f"{name}: {num_files} files remain instead of {expected}.")
        total_s = median_s(partial(prune, files, predicate, table))
        parsing_s = median_s(partial(parse_stats, files, column))
        verdict = "" if total_s <= TARGET_S else "  OVER"
        print(f"{name:<44} {total_s:>7.2f}s {parsing_s:>7.2f}s {TARGET_S:>6.2f}s{verdict}")


if __name__ == "__main__":
    main()

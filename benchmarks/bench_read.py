"""A read of eight million rows into Arrow, compared with delta-rs. `--memory` measures the memory of a 2 GB stream.

delta-rs writes the table in several files, and has two functions that return Arrow: `to_pyarrow_table`, and the SQL
engine of `QueryBuilder`. The benchmark compares with both. With `--memory`, a separate process reads a table of a few
large files as a stream. One of the files has a single row group. The benchmark prints the peak memory of the process.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from measuring import TimedPair, print_table

from deltalite import DeltaTable

ROWS = 8_000_000
ROWS_PER_FILE = 1_000_000
ROUNDS = 11
FOLDER = Path(".benchmarks").resolve()
TABLE = FOLDER / f"read-{ROWS}"
LARGE_TABLE = FOLDER / "read-large"
MAX_MEGABYTES = 300


def rows_of_file(number: int) -> pa.Table:
    """Return the rows of one file: keys, strings, amounts and times, as in a typical feed."""
    ids = pa.array(range(number * ROWS_PER_FILE, (number + 1) * ROWS_PER_FILE), pa.int64())
    remainder = pc.subtract(ids, pc.multiply(pc.divide(ids, 10_000), 10_000))
    customer = pc.binary_join_element_wise("customer-", remainder.cast(pa.string()), "")
    score = pc.multiply(ids, 0.25)
    return pa.table(
        {
            "order_id": ids,
            "customer": customer,
            "amount": remainder.cast(pa.decimal128(19, 0)).cast(pa.decimal128(12, 2)),
            "updated_at": pc.multiply(pc.add(ids, 1_700_000_000), 1_000_000).cast(pa.timestamp("us", "UTC")),
            "score": pc.if_else(pc.equal(pc.bit_wise_and(ids, 7), 0), pa.scalar(None, pa.float64()), score),
        }
    )


def make_table() -> None:
    """Write the table with one commit per file. delta-rs would choose other file sizes for a single commit."""
    shutil.rmtree(TABLE, ignore_errors=True)
    for number in range(ROWS // ROWS_PER_FILE):
        deltalake.write_deltalake(str(TABLE), rows_of_file(number), mode="append")


def read_with_query_builder(path: str) -> int:
    """Read all rows with the SQL engine of delta-rs, and return their number."""
    builder = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(path))
    return int(pa.table(builder.execute("SELECT * FROM t").read_all()).num_rows)


def compare() -> None:
    """Time complete reads and filtered reads of one column, and print a table.

    Exit if the sides return different numbers of rows.
    """
    if not (TABLE / "_delta_log" / f"{ROWS // ROWS_PER_FILE - 1:020d}.json").exists():
        make_table()
    path = str(TABLE)

    low_amounts = [("amount", "<", Decimal(100))]

    def read_all() -> int:
        return DeltaTable(path).to_arrow().num_rows

    def read_all_with_delta_rs() -> int:
        return int(deltalake.DeltaTable(path).to_pyarrow_table().num_rows)

    def query_all_with_delta_rs() -> int:
        return read_with_query_builder(path)

    def read_filtered() -> int:
        return DeltaTable(path).to_arrow(columns=["customer"], filter=low_amounts).num_rows

    def read_filtered_with_delta_rs() -> int:
        return int(deltalake.DeltaTable(path).to_pyarrow_table(columns=["customer"], filters=low_amounts).num_rows)

    counts = {read_all(), read_all_with_delta_rs(), query_all_with_delta_rs()}
    if counts != {ROWS}:
        raise SystemExit(f"{path}: the three complete reads returned {counts} rows instead of {ROWS}.")
    if read_filtered() != read_filtered_with_delta_rs():
        raise SystemExit(
            f"{path}: for amounts below 100, deltalite returned {read_filtered()} rows, "
            f"and delta-rs {read_filtered_with_delta_rs()}."
        )
    dataset_pair = TimedPair(name=f"to_arrow of {ROWS:,} rows", peer="to_pyarrow_table", target=1.0)
    dataset_pair.run(read_all, read_all_with_delta_rs, rounds=ROUNDS)
    query_pair = TimedPair(name=f"to_arrow of {ROWS:,} rows", peer="QueryBuilder", target=1.0)
    query_pair.run(read_all, query_all_with_delta_rs, rounds=ROUNDS)
    filtered_pair = TimedPair(name="one column, one row in a hundred", peer="to_pyarrow_table", target=1.0)
    filtered_pair.run(read_filtered, read_filtered_with_delta_rs, rounds=ROUNDS)
    print_table([dataset_pair, query_pair, filtered_pair])


def random_rows(count: int) -> pa.Table:
    """Return random rows, which do not compress. A row has about 200 bytes, a tenth of them in a list."""
    random_bytes = os.urandom(count * 160)
    payloads = pa.Array.from_buffers(pa.binary(80), count, [None, pa.py_buffer(random_bytes[: count * 80])])
    numbers = pa.Array.from_buffers(pa.int64(), count * 10, [None, pa.py_buffer(random_bytes[count * 80 :])])
    offsets = pa.array(range(0, count * 2 + 1, 2), pa.int32())
    return pa.table(
        {
            "id": numbers.slice(0, count),
            "payload": payloads.cast(pa.binary()),
            "tags": pa.ListArray.from_arrays(offsets, numbers.slice(count, count * 2)),
            "score": numbers.slice(count * 3, count).cast(pa.float64(), safe=False),
            "name": numbers.slice(count * 4, count).cast(pa.string()),
        }
    )


def make_large_table() -> None:
    """Write a table of 2 GB: a file of 1 GB with a single row group, and two files with normal row groups."""
    shutil.rmtree(LARGE_TABLE, ignore_errors=True)
    log = LARGE_TABLE / "_delta_log"
    log.mkdir(parents=True)
    tags = {"type": "array", "elementType": "long", "containsNull": True}
    types = {"id": "long", "payload": "binary", "tags": tags, "score": "double", "name": "string"}
    fields = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in types.items()]
    metadata = {
        "id": "5a3c9d0e-7f1b-4a52-9a53-3c1f0e6f2b7d",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [],
        "configuration": {},
        "createdTime": 0,
    }
    actions = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]
    for number, (megabytes, rows_per_group) in enumerate([(1024, 2**31 - 1), (512, 500_000), (512, 500_000)]):
        path = LARGE_TABLE / f"part-{number}.parquet"
        chunks = [random_rows(250_000)]
        while sum(chunk.nbytes for chunk in chunks) < megabytes * 1024**2:
            chunks.append(random_rows(250_000))
        pq.write_table(pa.concat_tables(chunks), path, row_group_size=rows_per_group, use_dictionary=False)
        add = {"path": path.name, "partitionValues": {}, "size": path.stat().st_size, "modificationTime": 0}
        actions.append({"add": {**add, "dataChange": True}})
    (log / f"{0:020d}.json").write_text("\n".join(map(json.dumps, actions)))


STREAM_PROGRAM = """
import sys
from deltalite import DeltaTable
def peak_kb():  # ru_maxrss would also include the peak of the parent process
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
before_kb = peak_kb()
num_rows = num_bytes = 0
for batch in DeltaTable(sys.argv[1]).to_batches():
    num_rows, num_bytes = num_rows + batch.num_rows, num_bytes + batch.nbytes
print(num_rows, num_bytes, before_kb, peak_kb())
"""


def measure_memory() -> None:
    """Read the large table as a stream in a separate process, and print its memory.

    Delete the table at the end unless `--keep` is on the command line.
    """
    make_large_table()
    stored_bytes = sum(path.stat().st_size for path in LARGE_TABLE.glob("*.parquet"))
    group_counts = [pq.ParquetFile(path).metadata.num_row_groups for path in sorted(LARGE_TABLE.glob("*.parquet"))]
    command = [sys.executable, "-c", STREAM_PROGRAM, str(LARGE_TABLE)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    num_rows, arrow_bytes, before_kb, peak_kb = map(int, output.split())
    if "--keep" not in sys.argv[1:]:
        shutil.rmtree(LARGE_TABLE)
    verdict = "" if peak_kb < MAX_MEGABYTES * 1024 else "  OVER"
    stored = f"{stored_bytes / 1e9:.2f} GB stored in files of {group_counts} row groups"
    print(f"{num_rows:,} rows, {stored}, {arrow_bytes / 1e9:.2f} GB in Arrow")
    print(f"peak memory: {peak_kb // 1024} MB, {before_kb // 1024} MB of it before reading{verdict}")


if __name__ == "__main__":
    if "--memory" in sys.argv[1:]:
        measure_memory()
    else:
        compare()
    sys.stdout.flush()
    # The file system that delta-rs gives to pyarrow's datasets can abort the process at exit.
    os._exit(0)

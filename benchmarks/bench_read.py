"""Reading of eight million rows into Arrow, compared with delta-rs; with `--memory`, the memory of a stream of 2 GB.

delta-rs writes the table in several files. The benchmark times both of its ways to Arrow: `to_pyarrow_table` and the
SQL engine of `QueryBuilder`. With `--memory`, a separate process reads a table of a few large files, one of them with a
single row group, and the benchmark prints the peak memory of the process.
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
from measuring import Pair, print_table

from deltalite import DeltaTable

ROWS = 8_000_000
ROWS_PER_FILE = 1_000_000
ROUNDS = 11
FOLDER = Path(".benchmarks").resolve()
TABLE = FOLDER / f"read-{ROWS}"
LARGE = FOLDER / "read-large"
MAX_MEGABYTES = 300


def rows_of_file(number: int) -> pa.Table:
    """Return the rows of one file: keys, strings, amounts and times, as in a typical feed."""
    ids = pa.array(range(number * ROWS_PER_FILE, (number + 1) * ROWS_PER_FILE), pa.int64())
    within = pc.subtract(ids, pc.multiply(pc.divide(ids, 10_000), 10_000))
    customer = pc.binary_join_element_wise("customer-", within.cast(pa.string()), "")
    score = pc.multiply(ids, 0.25)
    return pa.table(
        {
            "order_id": ids,
            "customer": customer,
            "amount": within.cast(pa.decimal128(19, 0)).cast(pa.decimal128(12, 2)),
            "updated_at": pc.multiply(pc.add(ids, 1_700_000_000), 1_000_000).cast(pa.timestamp("us", "UTC")),
            "score": pc.if_else(pc.equal(pc.bit_wise_and(ids, 7), 0), pa.scalar(None, pa.float64()), score),
        }
    )


def make_table() -> None:
    """Write one commit per file, so that the benchmark determines the sizes of the files."""
    shutil.rmtree(TABLE, ignore_errors=True)
    for number in range(ROWS // ROWS_PER_FILE):
        deltalake.write_deltalake(str(TABLE), rows_of_file(number), mode="append")


def by_query(path: str) -> int:
    """Read all rows with the SQL engine of delta-rs, and return their number."""
    builder = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(path))
    return int(pa.table(builder.execute("SELECT * FROM t").read_all()).num_rows)


def compare() -> None:
    """Time complete reads, and filtered reads of one column, against delta-rs."""
    if not (TABLE / "_delta_log" / f"{ROWS // ROWS_PER_FILE - 1:020d}.json").exists():
        make_table()
    path = str(TABLE)

    def ours() -> int:
        return DeltaTable(path).to_arrow().num_rows

    def dataset() -> int:
        return int(deltalake.DeltaTable(path).to_pyarrow_table().num_rows)

    def query() -> int:
        return by_query(path)

    def ours_filtered() -> int:
        return DeltaTable(path).to_arrow(columns=["customer"], filter=[("amount", "<", Decimal(100))]).num_rows

    def dataset_filtered() -> int:
        where = [("amount", "<", Decimal(100))]
        return int(deltalake.DeltaTable(path).to_pyarrow_table(columns=["customer"], filters=where).num_rows)

    counts = {ours(), dataset(), query()}
    if counts != {ROWS}:
        raise SystemExit(f"The sides disagree on the number of rows: {counts}.")
    if ours_filtered() != dataset_filtered():
        raise SystemExit(f"The sides disagree: {ours_filtered()} rows against {dataset_filtered()}.")
    whole = Pair(name=f"to_arrow of {ROWS:,} rows", peer="to_pyarrow_table", target=1.0)
    whole.run(ours, dataset, rounds=ROUNDS)
    sql = Pair(name=f"to_arrow of {ROWS:,} rows", peer="QueryBuilder", target=1.0)
    sql.run(ours, query, rounds=ROUNDS)
    filtered = Pair(name="one column, one row in a hundred", peer="to_pyarrow_table", target=1.0)
    filtered.run(ours_filtered, dataset_filtered, rounds=ROUNDS)
    print_table([whole, sql, filtered])


def large_rows(count: int) -> pa.Table:
    """Return rows without repetition that do not compress: about 200 bytes each, a tenth of them in a list."""
    random = os.urandom(count * 160)
    texts = pa.Array.from_buffers(pa.binary(80), count, [None, pa.py_buffer(random[: count * 80])])
    numbers = pa.Array.from_buffers(pa.int64(), count * 10, [None, pa.py_buffer(random[count * 80 :])])
    offsets = pa.array(range(0, count * 2 + 1, 2), pa.int32())
    return pa.table(
        {
            "id": numbers.slice(0, count),
            "payload": texts.cast(pa.binary()),
            "tags": pa.ListArray.from_arrays(offsets, numbers.slice(count, count * 2)),
            "score": numbers.slice(count * 3, count).cast(pa.float64(), safe=False),
            "name": numbers.slice(count * 4, count).cast(pa.string()),
        }
    )


def make_large_table() -> None:
    """Write three files of two gigabytes together: one with a single row group of 1 GB, two with normal row groups."""
    shutil.rmtree(LARGE, ignore_errors=True)
    log = LARGE / "_delta_log"
    log.mkdir(parents=True)
    names = {"id": "long", "payload": "binary", "tags": None, "score": "double", "name": "string"}
    tags = {"type": "array", "elementType": "long", "containsNull": True}
    fields = [{"name": n, "type": t or tags, "nullable": True, "metadata": {}} for n, t in names.items()]
    metadata = {
        "id": "5a3c9d0e-7f1b-4a52-9a53-3c1f0e6f2b7d",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [],
        "configuration": {},
        "createdTime": 0,
    }
    actions = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]
    for number, (megabytes, row_group) in enumerate([(1024, 2**31 - 1), (512, 500_000), (512, 500_000)]):
        path = LARGE / f"part-{number}.parquet"
        parts = [large_rows(250_000)]
        while sum(part.nbytes for part in parts) < megabytes * 1024**2:
            parts.append(large_rows(250_000))
        pq.write_table(pa.concat_tables(parts), path, row_group_size=row_group, use_dictionary=False)
        add = {"path": path.name, "partitionValues": {}, "size": path.stat().st_size, "modificationTime": 0}
        actions.append({"add": {**add, "dataChange": True}})
    (log / f"{0:020d}.json").write_text("\n".join(map(json.dumps, actions)))


READ_IN_A_PROCESS = """
import sys
from deltalite import DeltaTable
def peak_kb():  # not getrusage, whose maximum is inherited from the process before exec
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
before = peak_kb()
rows = size = 0
for batch in DeltaTable(sys.argv[1]).to_batches():
    rows, size = rows + batch.num_rows, size + batch.nbytes
print(rows, size, before, peak_kb())
"""


def measure_memory() -> None:
    """Read the large table as a stream in a separate process, and delete the table unless `--keep` is given."""
    make_large_table()
    stored_bytes = sum(path.stat().st_size for path in LARGE.glob("*.parquet"))
    groups = [pq.ParquetFile(path).metadata.num_row_groups for path in sorted(LARGE.glob("*.parquet"))]
    command = [sys.executable, "-c", READ_IN_A_PROCESS, str(LARGE)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows, arrow_bytes, before_kb, peak_kb = map(int, output.split())
    if "--keep" not in sys.argv[1:]:
        shutil.rmtree(LARGE)
    verdict = "" if peak_kb < MAX_MEGABYTES * 1024 else "  OVER"
    stored = f"{stored_bytes / 1e9:.2f} GB stored in files of {groups} row groups"
    print(f"{rows:,} rows, {stored}, {arrow_bytes / 1e9:.2f} GB in Arrow")
    print(f"peak memory: {peak_kb // 1024} MB, {before_kb // 1024} MB of it before reading{verdict}")


if __name__ == "__main__":
    if "--memory" in sys.argv[1:]:
        measure_memory()
    else:
        compare()
    sys.stdout.flush()
    # The file system that delta-rs gives to pyarrow's datasets can abort the process at exit.
    os._exit(0)

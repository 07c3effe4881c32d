"""Scanning a table of a thousand files through Spark, beside Spark's plain `spark.read.parquet` of the same files.

Both make their DataFrame anew in each round, ours from the log and Spark's from the folder, and compute the same sums.
For information, the same table is also read with one row in a hundred deleted by deletion vectors.
"""

from __future__ import annotations

import json
import shutil
import struct
import sys
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from measuring import Pair, print_table
from pyroaring import BitMap64
from pyspark.sql import DataFrame
from spark_session import session

import deltalite.spark as delta

FILES = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
ROWS = 8_000_000
ROUNDS = 9
FOLDER = Path(".benchmarks").resolve()
TABLE, MARKED = FOLDER / f"scan-{FILES}", FOLDER / f"scan-{FILES}-marked"
VECTORS = "deletion_vectors.bin"
SCHEMA = {"order_id": "long", "customer": "string", "score": "double"}


def make_files() -> list[str]:
    """Rows as a feed has them, the same number in each file."""
    data = TABLE / "data"
    data.mkdir(parents=True)
    each = ROWS // FILES
    for number in range(FILES):
        ids = pa.array(range(number * each, (number + 1) * each), pa.int64())
        customer = pc.binary_join_element_wise("customer-", ids.cast(pa.string()), "")
        rows = pa.table({"order_id": ids, "customer": customer, "score": pc.multiply(ids.cast(pa.float64()), 0.25)})
        pq.write_table(rows, data / f"part-{number:05}.parquet")
    return sorted(file.name for file in data.iterdir())


def make_log(table: Path, names: list[str], vectors: list[dict[str, object]] | None) -> None:
    """One commit for all files; with deletion vectors, one for each."""
    features = ["deletionVectors"]
    fields = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in SCHEMA.items()]
    metadata = {
        "id": "benchmark",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [],
        "configuration": {},
    }
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    actions: list[dict[str, object]] = [{"protocol": protocol}, {"metaData": metadata}]
    for number, name in enumerate(names):
        file = TABLE / "data" / name
        add = {"path": str(file), "partitionValues": {}, "size": file.stat().st_size, "modificationTime": 0}
        actions.append({"add": {**add, "dataChange": True} | ({"deletionVector": vectors[number]} if vectors else {})})
    log = table / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020}.json").write_text("\n".join(json.dumps(action) for action in actions))


def make_vectors(count: int) -> list[dict[str, object]]:
    """One row in a hundred of each file, in one file of vectors. Protocol: Deletion Vector File Storage Format."""
    content, found = b"\x01", []
    gone = range(7, ROWS // FILES, 100)
    for _ in range(count):
        data = struct.pack("<I", 1681511377) + BitMap64(gone).serialize()
        place = {"storageType": "p", "pathOrInlineDv": f"file:{MARKED / VECTORS}", "offset": len(content)}
        found.append({**place, "sizeInBytes": len(data), "cardinality": len(gone)})
        content += struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    MARKED.mkdir(parents=True)
    (MARKED / VECTORS).write_bytes(content)
    return found


def sums(frame: DataFrame) -> int:
    """One pass over all columns; gives the number of rows."""
    row = frame.selectExpr("count(*)", "sum(order_id)", "sum(length(customer))", "sum(score)").collect()[0]
    return int(row[0])


def checked(rows: int, expected: int) -> None:
    """Stop where a side read other rows."""
    if rows != expected:
        raise SystemExit(f"{rows} rows were read instead of {expected}.")


def main() -> None:
    """Read in turns, and print the ratios."""
    if not (MARKED / "_delta_log").exists():
        shutil.rmtree(TABLE, ignore_errors=True)
        shutil.rmtree(MARKED, ignore_errors=True)
        names = make_files()
        make_log(TABLE, names, None)
        make_log(MARKED, names, make_vectors(len(names)))
    spark = session()

    def plain() -> None:
        checked(sums(spark.read.parquet(str(TABLE / "data"))), ROWS)

    def ours() -> None:
        checked(sums(delta.read(spark, str(TABLE))), ROWS)

    def without_deleted() -> None:
        checked(sums(delta.read(spark, str(MARKED))), ROWS - FILES * len(range(7, ROWS // FILES, 100)))

    scan = Pair(name=f"scan of {FILES:,} files", peer="spark.read.parquet", target=1.05)
    scan.run(ours, plain, rounds=ROUNDS)
    marked = Pair(name="the same with deletion vectors", peer="spark.read.parquet", target=float("inf"))
    marked.run(without_deleted, plain, rounds=ROUNDS)
    print_table([scan, marked])
    spark.stop()


if __name__ == "__main__":
    main()

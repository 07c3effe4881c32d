"""A scan of a table of a thousand files in Spark, compared with `spark.read.parquet` of the same files.

Both sides create a new DataFrame in each round and compute the same sums. This library creates it from the log, and
Spark from the folder. The benchmark also reads a table with deletion vectors, which remove one row in fifty from
each file.
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
from measuring import TimedPair, print_table
from pyroaring import BitMap64
from pyspark.sql import DataFrame
from spark_session import session

import deltalite.spark as delta

FILES = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
ROWS = 8_000_000
ROUNDS = 9
FOLDER = Path(".benchmarks").resolve()
TABLE, TABLE_WITH_VECTORS = FOLDER / f"scan-{FILES}", FOLDER / f"scan-{FILES}-with-vectors"
VECTORS_FILE = "deletion_vectors.bin"
SCHEMA = {"order_id": "long", "customer": "string", "score": "double"}
# The positions of the removed rows in each file.
REMOVED_ROWS = range(7, ROWS // FILES, 50)


def make_files() -> list[str]:
    """Write the files, with the same number of rows in each, and return their names."""
    folder = TABLE / "data"
    folder.mkdir(parents=True)
    rows_per_file = ROWS // FILES
    for number in range(FILES):
        ids = pa.array(range(number * rows_per_file, (number + 1) * rows_per_file), pa.int64())
        customer = pc.binary_join_element_wise("customer-", ids.cast(pa.string()), "")
        rows = pa.table({"order_id": ids, "customer": customer, "score": pc.multiply(ids.cast(pa.float64()), 0.25)})
        pq.write_table(rows, folder / f"part-{number:05}.parquet")
    return sorted(file.name for file in folder.iterdir())


def make_log(table: Path, names: list[str], descriptors: list[dict[str, object]] | None) -> None:
    """Write one commit with all files. `descriptors` has the deletion vector of each file; None means no vectors."""
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
        actions.append(
            {"add": {**add, "dataChange": True} | ({"deletionVector": descriptors[number]} if descriptors else {})}
        )
    log = table / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020}.json").write_text("\n".join(json.dumps(action) for action in actions))


def write_vectors(count: int) -> list[dict[str, object]]:
    """Write a deletion vector of `REMOVED_ROWS` for each of `count` files, and return their descriptors.

    Protocol: Deletion Vector File Storage Format.
    """
    content, descriptors = b"\x01", []
    vector = struct.pack("<I", 1681511377) + BitMap64(REMOVED_ROWS).serialize()
    for _ in range(count):
        location = {
            "storageType": "p",
            "pathOrInlineDv": f"file:{TABLE_WITH_VECTORS / VECTORS_FILE}",
            "offset": len(content),
        }
        descriptors.append({**location, "sizeInBytes": len(vector), "cardinality": len(REMOVED_ROWS)})
        content += struct.pack(">I", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))
    TABLE_WITH_VECTORS.mkdir(parents=True)
    (TABLE_WITH_VECTORS / VECTORS_FILE).write_bytes(content)
    return descriptors


def compute_sums(frame: DataFrame) -> int:
    """Compute a sum of each column in one pass, so that Spark reads all columns. Return the number of rows."""
    row = frame.selectExpr("count(*)", "sum(order_id)", "sum(length(customer))", "sum(score)").collect()[0]
    return int(row[0])


def check_row_count(name: str, row_count: int, expected: int) -> None:
    """Exit if a scan returned another number of rows."""
    if row_count != expected:
        raise SystemExit(f"The scan of {name} returned {row_count} rows instead of {expected}.")


def main() -> None:
    """Measure the scans, and print the ratios."""
    if not (TABLE_WITH_VECTORS / "_delta_log").exists():
        shutil.rmtree(TABLE, ignore_errors=True)
        shutil.rmtree(TABLE_WITH_VECTORS, ignore_errors=True)
        names = make_files()
        make_log(TABLE, names, None)
        make_log(TABLE_WITH_VECTORS, names, write_vectors(len(names)))
    spark = session()

    def scan_parquet() -> None:
        check_row_count("the Parquet files", compute_sums(spark.read.parquet(str(TABLE / "data"))), ROWS)

    def scan_table() -> None:
        check_row_count("the table", compute_sums(delta.read(spark, str(TABLE))), ROWS)

    def scan_table_with_vectors() -> None:
        expected = ROWS - FILES * len(REMOVED_ROWS)
        check_row_count("the table with vectors", compute_sums(delta.read(spark, str(TABLE_WITH_VECTORS))), expected)

    scan_pair = TimedPair(name=f"scan of {FILES:,} files", peer="spark.read.parquet", target=1.05)
    scan_pair.run(scan_table, scan_parquet, rounds=ROUNDS)
    vectors_pair = TimedPair(name="the same with deletion vectors", peer="spark.read.parquet", target=1.25)
    vectors_pair.run(scan_table_with_vectors, scan_parquet, rounds=ROUNDS)
    print_table([scan_pair, vectors_pair])
    spark.stop()


if __name__ == "__main__":
    main()

"""A snapshot of a log with a million files, from opening the table to the list of its files, compared with delta-rs.

The log is synthetic: a checkpoint and ten commits after it. Each commit adds and removes files. The log stays in
`.benchmarks/`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
from measuring import TimedPair, print_table

from deltalite import DeltaTable
from deltalite.log.file_table import STRING_MAP

FILES = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
COMMITS = 10
ADDED_BY_COMMIT = 100
FILES_PER_DAY = 1_000
ROUNDS = 3
TABLE = Path(".benchmarks") / f"snapshot-{FILES}"
SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in (("id", "long"), ("amount", "double"), ("customer", "string"), ("day", "string"))
    ],
}


PROTOCOL: dict[str, object] = {"minReaderVersion": 1, "minWriterVersion": 2}
METADATA: dict[str, object] = {
    "id": "5a3c9d0e-7f1b-4a52-9a53-3c1f0e6f2b7d",
    "format": {"provider": "parquet", "options": {}},
    "schemaString": json.dumps(SCHEMA),
    "partitionColumns": ["day"],
    "configuration": {},
    "createdTime": 1_700_000_000_000,
}
CHECKPOINT_SCHEMA = pa.schema(
    {
        "protocol": pa.struct({"minReaderVersion": pa.int32(), "minWriterVersion": pa.int32()}),
        "metaData": pa.struct(
            {
                "id": pa.string(),
                "format": pa.struct({"provider": pa.string(), "options": STRING_MAP}),
                "schemaString": pa.string(),
                "partitionColumns": pa.list_(pa.string()),
                "configuration": STRING_MAP,
                "createdTime": pa.int64(),
            }
        ),
        "add": pa.struct(
            {
                "path": pa.string(),
                "partitionValues": STRING_MAP,
                "size": pa.int64(),
                "modificationTime": pa.int64(),
                "dataChange": pa.bool_(),
                "stats": pa.string(),
            }
        ),
    }
)


def fields_of_add(number: int) -> dict[str, object]:
    """Return the fields of the `add` action of a file, with statistics of three data columns."""
    day = f"d{number // FILES_PER_DAY:06d}"
    stats = {
        "numRecords": 1000,
        "minValues": {"id": number * 1000, "amount": 0.5, "customer": "aaron"},
        "maxValues": {"id": number * 1000 + 999, "amount": 99.5, "customer": "zoe"},
        "nullCount": {"id": 0, "amount": 3, "customer": 0},
    }
    return {
        "path": f"day={day}/part-{number:08d}-5a3c9d0e-7f1b-4a52-9a53-3c1f0e6f2b7d.c000.snappy.parquet",
        "partitionValues": {"day": day},
        "size": 1_000_000 + number,
        "modificationTime": 1_700_000_000_000 + number,
        "dataChange": True,
        "stats": json.dumps(stats, separators=(",", ":")),
    }


def checkpoint_of(numbers: Iterable[int], *, with_first_actions: bool = True) -> pa.Table:
    """Return a checkpoint, or a part of one, with the files of these numbers."""
    first_actions = [{"protocol": PROTOCOL}, {"metaData": METADATA}] if with_first_actions else []
    rows = [*first_actions, *({"add": fields_of_add(number)} for number in numbers)]
    return pa.Table.from_pylist(rows, CHECKPOINT_SCHEMA)


def write_commits(log: Path, files: int) -> None:
    """Write version 0, which has no files, and the commits after the checkpoint of version 0 with `files` files."""
    write_commit(log, 0, [{"protocol": PROTOCOL}, {"metaData": METADATA}])
    for version in range(1, COMMITS + 1):
        added = [{"add": fields_of_add(files + version * ADDED_BY_COMMIT + n)} for n in range(ADDED_BY_COMMIT)]
        removed_path = fields_of_add(version)["path"]
        info = {"timestamp": 1_700_000_000_000 + version, "operation": "WRITE"}
        remove = {"path": removed_path, "deletionTimestamp": 1_700_000_000_000, "dataChange": True}
        write_commit(log, version, [{"commitInfo": info}, {"remove": remove}, *added])


def write_commit(log: Path, version: int, actions: list[dict[str, dict[str, object]]]) -> None:
    """Write the actions of a version."""
    (log / f"{version:020d}.json").write_text("\n".join(map(json.dumps, actions)))


def make_table() -> None:
    """Write the log: the checkpoint of version 0, and then the ten commits."""
    log = TABLE / "_delta_log"
    log.mkdir(parents=True)
    checkpoint = checkpoint_of(range(FILES))
    pq.write_table(checkpoint, log / f"{0:020d}.checkpoint.parquet", compression="snappy")
    (log / "_last_checkpoint").write_text(json.dumps({"version": 0, "size": checkpoint.num_rows}))
    write_commits(log, FILES)


def main() -> None:
    """Make the table unless it exists, time both sides, and print a table.

    Exit if the sides list different numbers of files.
    """
    if not (TABLE / "_delta_log" / f"{COMMITS:020d}.json").exists():
        make_table()
    path = str(TABLE.resolve())

    def count_with_deltalite() -> int:
        return DeltaTable(path).files().num_rows

    def count_with_delta_rs() -> int:
        return deltalake.DeltaTable(path).get_add_actions().num_rows

    if count_with_deltalite() != count_with_delta_rs():
        raise SystemExit(
            f"{path}: deltalite lists {count_with_deltalite()} files, and delta-rs {count_with_delta_rs()}."
        )
    pair = TimedPair(name=f"snapshot and list of {FILES:,} files", peer="delta-rs", target=0.5)
    pair.run(count_with_deltalite, count_with_delta_rs, rounds=ROUNDS)
    print_table([pair])


if __name__ == "__main__":
    main()

"""Logs of tables without data files: commits and checkpoints that list files with statistics."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from deltalite.log.file_table import STRING_MAP

COMMITS = 10
ADDED_BY_COMMIT = 100
FILES_PER_DAY = 1_000
SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in (("id", "long"), ("amount", "double"), ("customer", "string"), ("day", "string"))
    ],
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


def first_actions() -> list[dict[str, object]]:
    """Return the protocol action and the metadata action of version 0."""
    metadata = {
        "id": "5a3c9d0e-7f1b-4a52-9a53-3c1f0e6f2b7d",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(SCHEMA),
        "partitionColumns": ["day"],
        "configuration": {},
        "createdTime": 1_700_000_000_000,
    }
    return [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]


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
    rows = [*(first_actions() if with_first_actions else ()), *({"add": fields_of_add(number)} for number in numbers)]
    return pa.Table.from_pylist(rows, CHECKPOINT_SCHEMA)


def write_commits(log: Path, files: int) -> None:
    """Write the commit of version 0, which adds no file, and the `COMMITS` commits after it.

    `files` is the number of files in the checkpoint of version 0.
    """
    write_commit(log, 0, first_actions())
    for version in range(1, COMMITS + 1):
        added = [{"add": fields_of_add(files + version * ADDED_BY_COMMIT + n)} for n in range(ADDED_BY_COMMIT)]
        removed_path = fields_of_add(version)["path"]
        info = {"timestamp": 1_700_000_000_000 + version, "operation": "WRITE"}
        remove = {"path": removed_path, "deletionTimestamp": 1_700_000_000_000, "dataChange": True}
        write_commit(log, version, [{"commitInfo": info}, {"remove": remove}, *added])


def write_commit(log: Path, version: int, actions: Iterable[object]) -> None:
    """Write the actions of a version."""
    (log / f"{version:020d}.json").write_text("\n".join(map(json.dumps, actions)))

"""`deltalite files`: the data files of a version.

JSON has one object per file: `path` (decoded), `partitionValues` (with physical names if the table has column mapping),
`sizeInBytes`, `modificationTime`, `numRecords`, `stats` (an object; null if the log contains none) and
`deletionVector`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from deltalite.cli.command import Arguments, Command, add_limit, limit_note, limit_of, open_table
from deltalite.cli.output import Column, Output
from deltalite.cli.values import time_cell
from deltalite.log.file_table import total
from deltalite.sizes import counted, format_bytes
from deltalite.table import utc_datetime

_DEFAULT_LIMIT = 100
_ROWS_IN_A_BATCH = 1_024
_COLUMNS = (
    Column("path", folds=True),
    Column("size", is_number=True),
    Column("records", is_number=True),
    Column("deleted", is_number=True),
    Column("modified"),
)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_limit(parser, "files", _DEFAULT_LIMIT)


def _run(args: Arguments, out: Output) -> int:
    files = open_table(args).files()
    limit = limit_of(args)
    shown_files = files if limit is None else files.slice(0, limit)
    if out.as_json:
        out.records(_records(shown_files))
        return 0
    out.table(_COLUMNS, map(_row, _records(shown_files)))
    size_bytes = total(files["size_bytes"])
    note = limit_note(shown_files.num_rows, files.num_rows)
    out.line()
    out.line(f"{counted(files.num_rows, 'file')} of {format_bytes(size_bytes)}{note}")
    return 0


def _records(files: pa.Table) -> Iterator[dict[str, Any]]:
    for batch in files.to_batches(max_chunksize=_ROWS_IN_A_BATCH):
        for row in batch.to_pylist(maps_as_pydicts="strict"):
            yield {
                "path": row["path"],
                "partitionValues": row["partition_values"] or {},
                "sizeInBytes": row["size_bytes"],
                "modificationTime": utc_datetime(row["modification_time_ms"]),
                "numRecords": row["num_records"],
                "stats": _parse_stats(row["stats"]),
                "deletionVector": row["deletion_vector"],
            }


def _row(record: dict[str, Any]) -> tuple[Any, ...]:
    vector = record["deletionVector"]
    return (
        record["path"],
        format_bytes(record["sizeInBytes"]),
        "?" if record["numRecords"] is None else record["numRecords"],
        "" if vector is None else vector["cardinality"],
        time_cell(record["modificationTime"]),
    )


def _parse_stats(stats: str | None) -> Any:
    """Parse the statistics; return None if they are missing or not JSON."""
    try:
        return json.loads(stats) if stats else None
    except (ValueError, RecursionError):
        return None


COMMAND = Command(
    name="files",
    summary="the data files, their sizes and statistics",
    description=__doc__,
    takes_version=True,
    add_arguments=_add_arguments,
    run=_run,
)

"""`deltalite loaded`: the files that `DeltaCopyOperator` has loaded into the table.

Files with newer modification times come first, but the order is not exact. `--since` and `--until` select files by
their modification times.

JSON has one object per file: `address`, `sizeInBytes`, `modificationTime`, `etag` (null if the storage has none) and
`loadedTime`, the time of the load.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import islice
from typing import Any

from deltalite.cli.command import Arguments, Command, add_limit, limit_of, open_table
from deltalite.cli.output import Column, Output
from deltalite.cli.values import time_cell
from deltalite.requests.moments import parse_moment_ms
from deltalite.sizes import counted, format_bytes
from deltalite.table import DeltaTable, utc_datetime

_DEFAULT_LIMIT = 100
_ROWS_IN_A_BATCH = 1_024
_COLUMNS = (
    Column("address", folds=True),
    Column("size", is_number=True),
    Column("modified"),
    Column("loaded"),
)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_limit(parser, "files", _DEFAULT_LIMIT)
    parser.add_argument("--since", metavar="TIME", help="only files that were modified at this time or later")
    parser.add_argument("--until", metavar="TIME", help="only files that were modified before this time")


def _run(args: Arguments, out: Output) -> int:
    table = open_table(args)
    records = islice(_records(table, args), limit_of(args))
    if out.as_json:
        out.records(records)
        return 0
    out.table(_COLUMNS, map(_row, records))
    out.line()
    out.line(f"The table has loaded {counted(table.loaded_file_count(), 'file')}.")
    return 0


def _records(table: DeltaTable, args: Arguments) -> Iterator[dict[str, Any]]:
    since_ms, until_ms = (None if time is None else parse_moment_ms(time) for time in (args.since, args.until))
    for files in table.loaded_files(since_ms=since_ms, until_ms=until_ms):
        for batch in files.to_batches(max_chunksize=_ROWS_IN_A_BATCH):
            for row in batch.to_pylist():
                yield {
                    "address": row["address"],
                    "sizeInBytes": row["size_bytes"],
                    "modificationTime": utc_datetime(row["modified_ms"]),
                    "etag": row["etag"],
                    "loadedTime": utc_datetime(row["loaded_ms"]),
                }


def _row(record: dict[str, Any]) -> tuple[Any, ...]:
    times = (record["modificationTime"], record["loadedTime"])
    return (record["address"], format_bytes(record["sizeInBytes"]), *map(time_cell, times))


COMMAND = Command(
    name="loaded",
    summary="the files that DeltaCopyOperator has loaded into the table",
    description=__doc__,
    takes_version=True,
    add_arguments=_add_arguments,
    run=_run,
)

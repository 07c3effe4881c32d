"""`deltalite health`: measures many tables by their logs, and shows the maintenance that each table needs.

`TABLES` are addresses or patterns. `*`, `?`, `[ab]` and `{a,b}` match inside one part of an address, and `**` matches
any number of folders outside of tables: `/lake/*` are the tables in a folder, and `/lake/**` are all tables below it.
Folders that match a pattern and contain no table are left out. A table has one row, even if several addresses name it.

The thresholds are the defaults of `DeltaLakeMaintenanceOperator`. The exit code is 3 if a table cannot be read, and
otherwise 0. JSON has one object per table, the most urgent first:

- `table`, and `status`: `failed` (the table cannot be read), `due` or `healthy`
- `before`: `version`, `numFiles`, `sizeInBytes`, `numSmallFiles`, `smallFileBytes`, `numFilesToRewrite`,
  `bytesToRewrite` (by an optimize), `deletedRowsRatio`, `commitsSinceCheckpoint`, `deadBytes` (removed files that a
  vacuum deletes; a lower limit), `retainedBytes` (removed files inside the retention) and `daysSinceVacuum`
- `steps`: for `optimize`, `checkpoint` and `vacuum` the `outcome` (`due` or `not needed`) and its `reason`
- `error`: `kind` and `message`, if the table cannot be read
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain

from deltalite.cli.command import Arguments, Command, storage_options
from deltalite.cli.exit_codes import FOUND_ERRORS
from deltalite.cli.output import Column, Output
from deltalite.errors import InvalidRequestError, TableNotFoundError
from deltalite.inspection.lake_health import health_rows
from deltalite.inspection.table_rows import Outcome, TableRow, by_importance
from deltalite.requests import DEFAULT_THRESHOLDS
from deltalite.requests.source_paths import has_pattern
from deltalite.sizes import format_bytes
from deltalite.storage.log_store import LogStore
from deltalite.storage.opening import listed_tree, open_store
from deltalite.storage.patterns import matching_folders
from deltalite.storage.versioned_path import refuse_version

_COLUMNS = (
    Column("table", folds=True),
    Column("files", is_number=True),
    Column("size", is_number=True),
    Column("small", is_number=True),
    Column("deleted rows", is_number=True),
    Column("commits", is_number=True),
    Column("dead", is_number=True),
    Column("vacuum"),
    Column("due", folds=True),
)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--parallelism",
        type=int,
        default=8,
        metavar="N",
        help="how many tables are read at the same time (%(default)s)",
    )


def _run(args: Arguments, out: Output) -> int:
    if args.parallelism < 1:
        raise InvalidRequestError(f"--parallelism is {args.parallelism}.", remedy="Give 1 or more.")
    open_log = partial(open_store, storage_options=storage_options(args) or None)
    rows = by_importance(_rows(args, open_log))
    if not rows:
        raise TableNotFoundError(
            f"No Delta table matches {', '.join(args.tables)}.", remedy="Check the pattern and the folder."
        )
    if out.as_json:
        out.records(row.as_dict() for row in rows)
    else:
        out.table(_COLUMNS, map(_cells, rows))
    return FOUND_ERRORS if any(row.error for row in rows) else 0


def _rows(args: Arguments, open_log: Callable[[str], LogStore]) -> Iterator[TableRow]:
    for address in args.tables:
        refuse_version(address, operation="measure", participle="measured")
    tables = [address for address in args.tables if not has_pattern(address)]
    patterns = [address for address in args.tables if has_pattern(address)]
    folders = [matching_folders(pattern, lambda root: listed_tree(open_log(root))) for pattern in patterns]
    return health_rows(
        tables,
        list(chain.from_iterable(folders)),
        open_log,
        DEFAULT_THRESHOLDS,
        now_ms=time.time_ns() // 1_000_000,
        parallelism=args.parallelism,
    )


def _cells(row: TableRow) -> Sequence[object]:
    health = row.before
    if health is None:
        return (row.table, *[""] * 7, row.summary)
    days = health.days_since_vacuum
    due = "; ".join(f"{step.step}: {step.reason}" for step in row.steps if step.outcome is Outcome.DUE)
    return (
        row.table,
        health.files,
        format_bytes(health.size_bytes),
        health.small_files,
        f"{health.deleted_rows_ratio:.1%}",
        health.commits_since_checkpoint,
        format_bytes(health.dead_bytes),
        "none" if days is None else f"{days:.1f} days ago",
        due or row.status.value,
    )


COMMAND = Command(
    name="health",
    summary="the maintenance that each of many tables needs",
    description=__doc__,
    takes_version=False,
    add_arguments=_add_arguments,
    run=_run,
    takes_several_tables=True,
)

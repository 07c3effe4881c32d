"""`deltalite changes`: the change data feed from one version to another, both inclusive.

JSON has one object per changed row: the table's columns, `_change_type`, `_commit_version` and `_commit_timestamp`.
"""

from __future__ import annotations

import argparse

from deltalite.change_feed import plan_changes, read_changes
from deltalite.cli.command import Arguments, Command, add_limit, limit_of, open_table_store
from deltalite.cli.output import Output
from deltalite.cli.rows import show_rows

_DEFAULT_LIMIT = 100


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("from_version", type=int, metavar="FROM", help="the first version to show changes of")
    parser.add_argument("to_version", type=int, metavar="TO", nargs="?", help="the last version (default: the newest)")
    add_limit(parser, "rows", _DEFAULT_LIMIT)


def _run(args: Arguments, out: Output) -> int:
    plan = plan_changes(open_table_store(args), args.from_version, args.to_version)
    show_rows(out, plan.arrow_schema, read_changes(plan), limit_of(args))
    return 0


COMMAND = Command(
    name="changes",
    summary="the rows that versions inserted, updated and deleted (change data feed)",
    description=__doc__,
    takes_version=False,
    add_arguments=_add_arguments,
    run=_run,
)

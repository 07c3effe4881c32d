"""`deltalite head`: rows of a version, 20 by default. JSON has one object per row."""

from __future__ import annotations

import argparse

from deltalite.cli.command import Arguments, Command, add_limit, limit_of, open_table
from deltalite.cli.output import Output
from deltalite.cli.rows import show_rows
from deltalite.columnar.predicates.where import parse_where
from deltalite.columnar.reader.projection import project
from deltalite.protocol.schema import parse_schema

_DEFAULT_LIMIT = 20


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_limit(parser, "rows", _DEFAULT_LIMIT, all_as_json=False)
    parser.add_argument("--columns", metavar="A,B", help="columns, separated by commas; a.b for a field of a struct")
    parser.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="CONDITION",
        help='show only rows for which the condition is true, such as "day >= 2026-01-01"; repeatable',
    )


def _run(args: Arguments, out: Output) -> int:
    table = open_table(args)
    schema = parse_schema(table.metadata.schema_string)
    columns = None if args.columns is None else [name.strip() for name in args.columns.split(",")]
    batches = table.to_batches(columns=columns, filter=parse_where(args.where, schema))
    show_rows(out, project(columns, schema).arrow, batches, limit_of(args))
    return 0


COMMAND = Command(
    name="head",
    summary="the first rows",
    description=__doc__,
    takes_version=True,
    add_arguments=_add_arguments,
    run=_run,
)

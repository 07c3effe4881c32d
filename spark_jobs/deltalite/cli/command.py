"""The description of a command (name, arguments, function), and the arguments that commands share.

Each command has a module in this package, and `main.py` lists the commands. The function `run` takes the parsed
arguments and an `Output`, and returns the exit code; it raises a `DeltaLiteError` for a failure. Commands take a
table's address and its storage options. Commands that read one version also take the version. Three commands differ:
for `doctor` the table is optional, `health` takes several tables and patterns, and `warm-up` takes no table.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

from deltalite.cli.output import Output
from deltalite.errors import InvalidRequestError
from deltalite.storage.log_store import LogStore
from deltalite.storage.opening import open_store
from deltalite.storage.versioned_path import parse_versioned_path
from deltalite.table import DeltaTable

Arguments = argparse.Namespace


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command of the command line.

    - `description`: the help text. It is the module's docstring, which lists the JSON fields.
    - `takes_version`: whether the user can choose the version to read, with an option or in the address.
    - `needs_table`: False if the table is optional.
    - `takes_several_tables`: whether the command takes several tables.
    - `takes_table`: False if the command has no argument for a table.
    """

    name: str
    summary: str
    description: str
    takes_version: bool
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[Arguments, Output], int]
    needs_table: bool = True
    takes_several_tables: bool = False
    takes_table: bool = True


def add_no_arguments(_parser: argparse.ArgumentParser) -> None:
    """Add nothing: the command has only the arguments of `add_table_arguments`."""


def add_table_arguments(
    parser: argparse.ArgumentParser,
    *,
    takes_version: bool,
    needs_table: bool = True,
    takes_several_tables: bool = False,
) -> None:
    """Add the arguments of commands that read tables."""
    if takes_several_tables:
        parser.add_argument(
            "tables", nargs="+", metavar="TABLE", help="address of a table, or a pattern such as /lake/*"
        )
    else:
        parser.add_argument(
            "table",
            nargs=None if needs_table else "?",
            help="address of the table: a path or a URI"
            + (", optionally with a version such as @v3" if takes_version else ""),
        )
    if takes_version:
        parser.add_argument("--version", type=int, metavar="N", help="the version to read (default: the newest)")
        parser.add_argument(
            "--timestamp", metavar="TIME", help="read the newest version at this time, such as 2026-01-01T00:00:00Z"
        )
    add_json_argument(parser)
    parser.add_argument(
        "--storage-option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an option of the storage client; repeatable",
    )


def add_json_argument(parser: argparse.ArgumentParser) -> None:
    """Add `--json`, which all commands have."""
    parser.add_argument("--json", action="store_true", help="write JSON, one object per line")


def add_limit(parser: argparse.ArgumentParser, noun: str, default: int, *, all_as_json: bool = True) -> None:
    """Add `--limit`. Without this option, the command shows `default` lines, or all lines with `--json`.

    If `all_as_json` is False, `default` also holds with `--json`. `noun` names the lines in the help.
    """
    default_text = f"default: {default}; with --json: all" if all_as_json else f"default: {default}"
    parser.add_argument(
        "-n", "--limit", type=int, metavar="N", help=f"the maximum number of {noun} to show ({default_text})"
    )
    parser.set_defaults(limit_for_people=default, limit_as_json=None if all_as_json else default)


def limit_of(args: Arguments) -> int | None:
    """Return the maximum number of lines; None means all lines. Raises `InvalidRequestError` for a negative number."""
    limit: int | None = args.limit
    if limit is not None and limit < 0:
        raise InvalidRequestError(f"--limit is {limit}, which is negative.", remedy="Give 0 or more, or leave it out.")
    default: int | None = args.limit_as_json if args.json else args.limit_for_people
    return default if limit is None else limit


def limit_note(shown: int, total: int) -> str:
    """Return the end of a line about `total` lines, of which `shown` are shown because of the limit."""
    return "" if shown == total else f", {shown} of them shown (--limit)"


def open_table(args: Arguments) -> DeltaTable:
    """Open the table at the version in the arguments. Raises the errors of `DeltaTable`."""
    return DeltaTable(
        args.table, version=args.version, timestamp=args.timestamp, storage_options=storage_options(args) or None
    )


def open_table_store(args: Arguments) -> LogStore:
    """Open the storage of the table. Raises `InvalidRequestError` if the address contains a version."""
    address = parse_versioned_path(args.table)
    if address.version is not None or address.timestamp_ms is not None:
        raise InvalidRequestError(
            f"The address {args.table!r} names a version, but '{args.command}' needs an address without a version.",
            remedy=f"Give {address.path!r}.",
        )
    return open_store(args.table, storage_options=storage_options(args) or None)


def storage_options(args: Arguments) -> dict[str, str]:
    """Return the `--storage-option` pairs as a dictionary. Raises `InvalidRequestError` if one is not KEY=VALUE."""
    options = {}
    for pair in args.storage_option:
        key, sign, value = pair.partition("=")
        if not (key and sign):
            raise InvalidRequestError(
                "Invalid --storage-option: it is not of the form KEY=VALUE.",
                remedy="Write it as --storage-option key=...",
            )
        options[key] = value
    return options

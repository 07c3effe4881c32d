"""The console script `deltalite`: it parses the arguments, runs one command, and reports an error in one line.

`exit_codes.py` lists the exit codes. An error goes to standard error. With `--json`, the error is an object with
`error`, `problem`, `remedy` and `exitCode`. With DELTALITE_TRACEBACK set, an unexpected error (not a `DeltaLiteError`)
also shows its traceback. Ctrl-C and a closed pipe end the program without a message, as shells expect.
"""

from __future__ import annotations

import argparse
import io
import logging
import os
import sys
import traceback
from collections.abc import Sequence

from deltalite.cli import (
    changes,
    detail,
    diff,
    doctor,
    files,
    flows,
    head,
    health,
    history,
    loaded,
    schema,
    vacuum,
    verify,
    warm_up,
)
from deltalite.cli.command import Command, add_json_argument, add_table_arguments
from deltalite.cli.exit_codes import BROKEN_PIPE, EXIT_CODES, INTERRUPTED, UNEXPECTED
from deltalite.cli.output import Output
from deltalite.cli.values import json_text, printable
from deltalite.errors import DeltaLiteError
from deltalite.version import VERSION

COMMANDS: tuple[Command, ...] = (
    history.COMMAND,
    detail.COMMAND,
    schema.COMMAND,
    files.COMMAND,
    head.COMMAND,
    changes.COMMAND,
    diff.COMMAND,
    flows.COMMAND,
    health.COMMAND,
    loaded.COMMAND,
    vacuum.COMMAND,
    verify.COMMAND,
    doctor.COMMAND,
    warm_up.COMMAND,
)

_TRACEBACK_VARIABLE = "DELTALITE_TRACEBACK"


def entry() -> None:
    """Run the console script: log the library's warnings as lines, and end the process with the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that cannot encode a character shows an escape.
            stream.reconfigure(errors="backslashreplace")
    logging.basicConfig(format="deltalite: %(levelname)s: %(message)s", level=logging.WARNING, stream=sys.stderr)
    code = main(sys.argv[1:])
    if code == BROKEN_PIPE:
        # Python flushes standard output at exit, which would fail again on the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def main(argv: Sequence[str]) -> int:
    """Run a command line (without the program's name), and return its exit code."""
    try:
        args = _parser().parse_args(argv)
    except SystemExit as parser_exit:  # argparse has printed the error or the help
        return parser_exit.code if isinstance(parser_exit.code, int) else UNEXPECTED
    command: Command = args.command_to_run
    try:
        code = command.run(args, Output(sys.stdout, as_json=args.json))
        sys.stdout.flush()
    except DeltaLiteError as error:
        _report_error(args, type(error).__name__, error.problem, error.remedy, error.exit_code)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return BROKEN_PIPE
    except Exception as error:  # noqa: BLE001  report every error in one line
        if os.environ.get(_TRACEBACK_VARIABLE):
            traceback.print_exc()
        remedy = f"This is a bug in deltalite; set {_TRACEBACK_VARIABLE}=1 to see the traceback, and report it."
        _report_error(args, type(error).__name__, f"{error}.", remedy, UNEXPECTED)
        return UNEXPECTED
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="deltalite",
        description="Inspect Delta tables without Spark.",
        epilog="exit codes:\n" + "\n".join(f"  {code:<10} {meaning}" for code, meaning in EXIT_CODES),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-V", action="version", version=f"deltalite {VERSION}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in COMMANDS:
        subparser = commands.add_parser(
            command.name,
            help=command.summary,
            description=command.description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if command.takes_table:
            add_table_arguments(
                subparser,
                takes_version=command.takes_version,
                needs_table=command.needs_table,
                takes_several_tables=command.takes_several_tables,
            )
        else:
            add_json_argument(subparser)
        command.add_arguments(subparser)
        subparser.set_defaults(command_to_run=command)
    return parser


def _report_error(args: argparse.Namespace, name: str, problem: str, remedy: str, exit_code: int) -> None:
    if args.json:
        line = json_text({"error": name, "problem": problem, "remedy": remedy, "exitCode": exit_code})
    else:
        line = printable(f"deltalite: {name}: {problem} {remedy}")
    sys.stderr.write(line + "\n")

"""Documentation of the command line: the commands with their arguments, and the exit codes."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from documenting import code, table

from deltalite.cli.command import Command, add_table_arguments
from deltalite.cli.exit_codes import EXIT_CODES
from deltalite.cli.main import COMMANDS

_INTRODUCTION = (
    "All commands have these arguments. Only commands that read one version have `--version` and `--timestamp`. "
    "For `doctor`, `TABLE` is optional. `health` takes several tables and patterns. `warm-up` has only `--json`."
)


def exit_codes() -> str:
    """Return the table of exit codes."""
    return table(["exit code", "meaning"], EXIT_CODES)


def commands() -> str:
    """Return a table of the arguments that all commands have, and a section for each command."""
    common_parser = _empty_parser()
    add_table_arguments(common_parser, takes_version=True)
    common_arguments = _arguments(common_parser)
    common_names = {argument.dest for argument in common_arguments}
    sections = [_INTRODUCTION, _argument_table(common_arguments)]
    for command in COMMANDS:
        parser = _empty_parser()
        command.add_arguments(parser)
        special_arguments = [argument for argument in _arguments(parser) if argument.dest not in common_names]
        sections.append(_command_section(command, special_arguments))
    return "\n\n".join(sections)


def _command_section(command: Command, arguments: Sequence[argparse.Action]) -> str:
    text = f"### deltalite {command.name}\n\n{command.description.strip()}"
    return f"{text}\n\n{_argument_table(arguments)}" if arguments else text


def _argument_table(arguments: Sequence[argparse.Action]) -> str:
    rows = [
        [code(_syntax(argument)), (argument.help or "").replace("%(default)s", str(argument.default))]
        for argument in arguments
    ]
    return table(["argument", "what it is"], rows)


def _empty_parser() -> argparse.ArgumentParser:
    return argparse.ArgumentParser(add_help=False)


def _arguments(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return list(parser._actions)  # noqa: SLF001  argparse has no public list


def _syntax(argument: argparse.Action) -> str:
    """Return the syntax of an argument, such as `-n, --limit N`."""
    if not argument.option_strings:
        return argument.metavar if isinstance(argument.metavar, str) else argument.dest.upper()
    names = ", ".join(argument.option_strings)
    if argument.nargs == 0:
        return names
    value = argument.metavar or "|".join(map(str, argument.choices or [argument.dest.upper()]))
    return f"{names} {value}"

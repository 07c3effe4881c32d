"""The commands of the command line with their arguments, and its exit codes, from the program itself."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from documenting import code, table

from deltalite.cli.command import Command, add_table_arguments
from deltalite.cli.exit_codes import EXIT_CODES
from deltalite.cli.main import COMMANDS


def exit_codes() -> str:
    """The table of exit codes."""
    return table(["exit code", "meaning"], EXIT_CODES)


def commands() -> str:
    """A table of the arguments that all commands have, and a section for each command."""
    common = _parser()
    add_table_arguments(common, at_version=True)
    shared = {action.dest for action in common._actions}  # noqa: SLF001  argparse has no public list
    sentence = (
        "All commands have these arguments. Only commands that read one version have `--version` and `--timestamp`. "
        "For `doctor`, `TABLE` is optional."
    )
    shown = [sentence, _table(_arguments(common))]
    for command in COMMANDS:
        parser = _parser()
        command.add_arguments(parser)
        shown.append(_command(command, [one for one in _arguments(parser) if one.dest not in shared]))
    return "\n\n".join(shown)


def _command(command: Command, arguments: Sequence[argparse.Action]) -> str:
    text = f"### deltalite {command.name}\n\n{command.description.strip()}"
    return f"{text}\n\n{_table(arguments)}" if arguments else text


def _table(arguments: Sequence[argparse.Action]) -> str:
    rows = [[code(_spelled(one)), (one.help or "").replace("%(default)s", str(one.default))] for one in arguments]
    return table(["argument", "what it is"], rows)


def _parser() -> argparse.ArgumentParser:
    return argparse.ArgumentParser(add_help=False)


def _arguments(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return list(parser._actions)  # noqa: SLF001  as above


def _spelled(argument: argparse.Action) -> str:
    if not argument.option_strings:
        return argument.metavar if isinstance(argument.metavar, str) else argument.dest.upper()
    names = ", ".join(argument.option_strings)
    values = list(_values(argument))
    return " ".join([names, *values])


def _values(argument: argparse.Action) -> Iterator[str]:
    if argument.nargs != 0:
        choices = argument.choices
        yield str(argument.metavar) if argument.metavar else "|".join(map(str, choices or [argument.dest.upper()]))

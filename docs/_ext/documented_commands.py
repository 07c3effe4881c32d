"""`{commands}`: the commands of the command line with their arguments, from the program itself."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from documenting import DocumentingDirective, code
from docutils import nodes
from sphinx.application import Sphinx

from deltalite.cli.command import Command, add_table_arguments
from deltalite.cli.main import COMMANDS


class Commands(DocumentingDirective):
    """A table of what all commands take, and a definition for each command."""

    def run(self) -> list[nodes.Node]:
        """The nodes."""
        common = _parser()
        add_table_arguments(common, at_version=True)
        shared = {action.dest for action in common._actions}  # noqa: SLF001  argparse has no public list
        shown: list[nodes.Node] = [
            *self.text("Every command takes these; `--version` and `--timestamp` only those that look at one version:"),
            self._table(_arguments(common)),
        ]
        for command in COMMANDS:
            own = _parser()
            command.add_arguments(own)
            shown += self._command(command, [one for one in _arguments(own) if one.dest not in shared])
        return shown

    def _command(self, command: Command, own: Sequence[argparse.Action]) -> list[nodes.Node]:
        section = nodes.section(ids=[nodes.make_id(f"command-{command.name}")], names=[command.name])
        section += nodes.title("", "", nodes.literal("", f"deltalite {command.name}"))
        section += self.text(command.description.strip())
        if own:
            section += self._table(own)
        return [section]

    def _table(self, arguments: Sequence[argparse.Action]) -> nodes.table:
        rows = [[code(_spelled(one)), (one.help or "").replace("%(default)s", str(one.default))] for one in arguments]
        return self.table(["argument", "what it is"], rows, widths=[30, 70], kind="parameters")


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


def setup(app: Sphinx) -> dict[str, object]:
    """What Sphinx calls."""
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True}

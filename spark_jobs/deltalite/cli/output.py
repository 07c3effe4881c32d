"""The output of a command: tables and facts for people, JSON for programs.

JSON is written as the objects arrive, one per line. A table for people fits the width of the terminal; if the output is
not a terminal, nothing is cut or wrapped. Text is never interpreted as markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from deltalite.cli.values import cell, json_text

# The width, in characters, of an output that is not a terminal.
_UNLIMITED_WIDTH = 1_000_000


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table for people.

    A column of numbers is aligned to the right. A column that `folds` wraps its text instead of cutting it.
    """

    name: str
    is_number: bool = False
    folds: bool = False


class Output:
    """The standard output of one command."""

    def __init__(self, stream: TextIO, *, as_json: bool) -> None:
        self.as_json = as_json
        self._stream = stream
        self._encoding = stream.encoding or "utf-8"
        width = None if stream.isatty() else _UNLIMITED_WIDTH
        self._console = Console(file=stream, width=width, highlight=False, markup=False, emoji=False)

    def record(self, value: Mapping[str, Any]) -> None:
        """Write one JSON object as a line."""
        self._stream.write(json_text(value, self._encoding) + "\n")

    def records(self, values: Iterable[Mapping[str, Any]]) -> None:
        """Write JSON objects, one per line."""
        for value in values:
            self.record(value)

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[Any]]) -> None:
        """Write a table of plain values with headings."""
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for column in columns:
            table.add_column(
                Text(cell(column.name)),
                justify="right" if column.is_number else "left",
                overflow="fold" if column.folds else "ellipsis",
                no_wrap=not column.folds,
            )
        for row in rows:
            table.add_row(*(Text(cell(value)) for value in row))
        self._console.print(table)

    def facts(self, facts: Mapping[str, Any]) -> None:
        """Write names and their values, one pair per line."""
        grid = Table.grid(padding=(0, 2))
        grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        for name, value in facts.items():
            grid.add_row(Text(name, style="bold"), Text(cell(value)))
        self._console.print(grid)

    def line(self, text: str = "", *, style: str = "") -> None:
        """Write a line of text. Only the terminal wraps a long line."""
        self._console.print(Text(cell(text), style=style), soft_wrap=True)

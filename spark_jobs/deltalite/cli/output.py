"""Where a command's answer goes: tables and facts for people, JSON for programs.

A command hands over what it found and how it looks as a table; which of both is written is decided here. JSON goes out
line by line as it comes, one object a line. For people, columns are as wide as the terminal lets them; where the output
is no terminal nothing is cut or wrapped. Texts are never taken for markup.
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

# Where nobody's terminal sets a width.
_WIDE = 1_000_000


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table for people; numbers stand to the right. A column that folds takes several lines."""

    name: str
    is_number: bool = False
    folds: bool = False


class Output:
    """The standard output of one command."""

    def __init__(self, stream: TextIO, *, as_json: bool) -> None:
        self.as_json = as_json
        self._stream = stream
        self._encoding = stream.encoding or "utf-8"
        width = None if stream.isatty() else _WIDE
        self._console = Console(file=stream, width=width, highlight=False, markup=False, emoji=False)

    def record(self, value: Mapping[str, Any]) -> None:
        """One line of JSON."""
        self._stream.write(json_text(value, self._encoding) + "\n")

    def records(self, values: Iterable[Mapping[str, Any]]) -> None:
        """A line of JSON each."""
        for value in values:
            self.record(value)

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[Any]]) -> None:
        """A table of plain values under its headings."""
        shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for column in columns:
            shown.add_column(
                Text(cell(column.name)),
                justify="right" if column.is_number else "left",
                overflow="fold" if column.folds else "ellipsis",
                no_wrap=not column.folds,
            )
        for row in rows:
            shown.add_row(*(Text(cell(value)) for value in row))
        self._console.print(shown)

    def facts(self, facts: Mapping[str, Any]) -> None:
        """Names and their values, one below the other."""
        shown = Table.grid(padding=(0, 2))
        shown.add_column(no_wrap=True)
        shown.add_column(overflow="fold")
        for name, value in facts.items():
            shown.add_row(Text(name, style="bold"), Text(cell(value)))
        self._console.print(shown)

    def line(self, text: str = "", *, style: str = "") -> None:
        """A line of text; long ones are left to the terminal."""
        self._console.print(Text(cell(text), style=style), soft_wrap=True)


def sized(size_bytes: int | None) -> str:
    """A number of bytes as people say it: `1.5 MiB`."""
    if size_bytes is None:
        return "?"
    size, units = float(size_bytes), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:  # noqa: PLR2004  the step from each unit to the next
        size, units = size / 1024, units[1:]
    return f"{size_bytes} B" if units[0] == "B" else f"{size:.1f} {units[0]}"

"""How far long work is, on standard error, and only where that is a terminal. It is gone when the work is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

Report = Callable[[str, int, int | None], None]
"""Takes the name of a step, how much of it is done, and how much there is (None where that is not known)."""


@contextmanager
def shown_progress(stream: TextIO) -> Iterator[Report]:
    """What reports progress while the block runs."""
    if not stream.isatty():
        yield lambda _step, _done, _of: None
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(file=stream), transient=True) as bar:
        task = bar.add_task("", total=None)

        def report(step: str, done: int, of: int | None) -> None:
            bar.update(task, description=step, completed=done, total=of)

        yield report

"""A progress bar on standard error, if that is a terminal. The bar disappears when the work is done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from deltalite.inspection.verify import ReportProgress


@contextmanager
def show_progress(stream: TextIO) -> Iterator[ReportProgress]:
    """Show a progress bar while the block runs, and yield the function that reports progress to the bar."""
    if not stream.isatty():
        yield lambda _step, _done, _total: None
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

        def report(step: str, done: int, total: int | None) -> None:
            bar.update(task, description=step, completed=done, total=total)

        yield report

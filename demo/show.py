"""What the demonstration shows of the table at its end: read from its log and its files, without Spark and Airflow."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import date, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from deltalite import DeltaTable

_ROWS_OF_A_PARTITION = 2
_HARD = frozenset('"\n🌤')  # what a naive reader of CSV breaks on is worth looking at


def show_table(console: Console, path: Path) -> None:
    """History, partitions and a few rows of the newest version."""
    table = DeltaTable(str(path))
    console.print()
    console.print(_history(table))
    console.print(_partitions(table))
    console.print(_rows(table))


def show_reports(console: Console, reports: list[dict[str, Any]]) -> None:
    """What the report of each day returned."""
    shown = Table(
        title="What orders_report returned, each from the version that its sensor found", title_justify="left"
    )
    for name in reports[0]:
        shown.add_column(name, justify="left" if name == "day" else "right")
    for report in reports:
        shown.add_row(*(f"{value:,}" if isinstance(value, int) else str(value) for value in report.values()))
    console.print(shown)


def _history(table: DeltaTable) -> Table:
    shown = Table(title=f"History of {table.detail()['location']}", title_justify="left")
    shown.add_column("version", justify="right")
    shown.add_column("time (UTC)")
    shown.add_column("operation")
    shown.add_column("rows", justify="right")
    shown.add_column("made by")
    for commit in table.history():
        run = json.loads(commit.get("userMetadata") or "{}")
        rows = int(commit.get("operationMetrics", {}).get("numOutputRows", 0))
        shown.add_row(
            str(commit["version"]),
            f"{commit['timestamp']:%Y-%m-%d %H:%M:%S}",
            commit["operation"],
            f"{rows:,}",
            f"{run.get('dag_id')}.{run.get('task_id')}, run {run.get('run_id')}, try {run.get('try_number')}",
        )
    return shown


def _partitions(table: DeltaTable) -> Table:
    sizes: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    columns = ("partition_values", "num_records", "size_bytes")
    for values, rows, size in zip(*(table.files()[name].to_pylist() for name in columns), strict=True):
        total = sizes[dict(values)["day"]]
        total[0] += 1
        total[1] += rows
        total[2] += size
    shown = Table(title=f"Partitions of version {table.version}", title_justify="left")
    shown.add_column("day")
    for name in ("files", "rows", "bytes"):
        shown.add_column(name, justify="right")
    for day, total in sorted(sizes.items()):
        shown.add_row(day, *(f"{number:,}" for number in total))
    return shown


def _rows(table: DeltaTable) -> Table:
    shown = Table(title="A few rows", title_justify="left")
    for field in table.schema:
        shown.add_column(field.name, justify="right" if field.name in {"order_id", "amount"} else "left", no_wrap=True)
    for day in sorted({dict(values)["day"] for values in table.files()["partition_values"].to_pylist()}):
        batches = table.to_batches(filter=[("day", "=", date.fromisoformat(day))])
        rows = (row for batch in batches for row in batch.slice(0, 200).to_pylist())
        hard = (row for row in rows if _HARD.intersection(row["note"] or ""))
        for row in islice(hard, _ROWS_OF_A_PARTITION):
            shown.add_row(*(Text(_cell(value)) for value in row.values()))
    return shown


def _cell(value: Any) -> str:
    match value:
        case None:
            return "null"
        case datetime():
            return f"{value:%Y-%m-%d %H:%M:%S}"
        case _:
            return str(value).replace("\r\n", "\n").replace("\n", "⏎")

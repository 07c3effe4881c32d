"""The tables that the demonstration prints at its end.

The module reads the log and the data files of the Delta table without Spark and Airflow.
"""

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

_SHOWN_ROWS_OF_A_PARTITION = 2
_HARD_CHARACTERS = frozenset('"\n🌤')  # a simple CSV reader fails on these characters, so the table shows such rows


def show_table(console: Console, path: Path) -> None:
    """Print the history, the partitions and a few rows of the newest version."""
    table = DeltaTable(str(path))
    console.print()
    console.print(_make_history_table(table))
    console.print(_make_partition_table(table))
    console.print(_make_row_table(table))


def show_applications(console: Console, applications: list[dict[str, Any]]) -> None:
    """Print the applications of the cluster. The cluster has none if all runs were skipped."""
    if not applications:
        return
    application_table = Table(title="Applications of the Spark cluster", title_justify="left")
    for name in ("id", "name", "state"):
        application_table.add_column(name)
    for name in ("cores", "seconds"):
        application_table.add_column(name, justify="right")
    for application in applications:
        id_, name, state, cores = (str(application[key]) for key in ("id", "name", "state", "cores"))
        application_table.add_row(id_, name, state, cores, f"{application['duration'] / 1000:.0f}")
    console.print()
    console.print(application_table)


def show_reports(console: Console, reports: list[dict[str, Any]]) -> None:
    """Print the report of each day."""
    report_table = Table(
        title="Results of orders_report, each from the version that its sensor found", title_justify="left"
    )
    for name in reports[0]:
        report_table.add_column(name, justify="left" if name == "day" else "right")
    for report in reports:
        report_table.add_row(*(f"{value:,}" if isinstance(value, int) else str(value) for value in report.values()))
    console.print(report_table)


def _make_history_table(table: DeltaTable) -> Table:
    history_table = Table(title=f"History of {table.detail()['location']}", title_justify="left")
    history_table.add_column("version", justify="right")
    history_table.add_column("time (UTC)")
    history_table.add_column("operation")
    history_table.add_column("rows", justify="right")
    history_table.add_column("committed by")
    for commit in table.history():
        task_details = json.loads(commit.get("userMetadata") or "{}")
        rows = int(commit.get("operationMetrics", {}).get("numOutputRows", 0))
        history_table.add_row(
            str(commit["version"]),
            f"{commit['timestamp']:%Y-%m-%d %H:%M:%S}",
            commit["operation"],
            f"{rows:,}",
            f"{task_details.get('dag_id')}.{task_details.get('task_id')}, run {task_details.get('run_id')}, "
            f"try {task_details.get('try_number')}",
        )
    return history_table


def _make_partition_table(table: DeltaTable) -> Table:
    totals_by_day: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])  # files, rows, bytes
    columns = ("partition_values", "num_records", "size_bytes")
    for values, rows, size in zip(*(table.files()[name].to_pylist() for name in columns), strict=True):
        totals = totals_by_day[dict(values)["day"]]
        totals[0] += 1
        totals[1] += rows
        totals[2] += size
    partition_table = Table(title=f"Partitions of version {table.version}", title_justify="left")
    partition_table.add_column("day")
    for name in ("files", "rows", "bytes"):
        partition_table.add_column(name, justify="right")
    for day, totals in sorted(totals_by_day.items()):
        partition_table.add_row(day, *(f"{number:,}" for number in totals))
    return partition_table


def _make_row_table(table: DeltaTable) -> Table:
    row_table = Table(title="A few rows", title_justify="left")
    for field in table.schema:
        alignment = "right" if field.name in {"order_id", "amount"} else "left"
        row_table.add_column(field.name, justify=alignment, no_wrap=True)
    for day in sorted({dict(values)["day"] for values in table.files()["partition_values"].to_pylist()}):
        batches = table.to_batches(filter=[("day", "=", date.fromisoformat(day))])
        rows = (row for batch in batches for row in batch.slice(0, 200).to_pylist())
        hard_rows = (row for row in rows if _HARD_CHARACTERS.intersection(row["note"] or ""))
        for row in islice(hard_rows, _SHOWN_ROWS_OF_A_PARTITION):
            row_table.add_row(*(Text(_cell_text(value)) for value in row.values()))
    return row_table


def _cell_text(value: Any) -> str:
    match value:
        case None:
            return "null"
        case datetime():
            return f"{value:%Y-%m-%d %H:%M:%S}"
        case _:
            return str(value).replace("\r\n", "\n").replace("\n", "⏎")

"""The results of the example DAG `shop_lake` that the demonstration prints.

The module reads the tables of the lake without Spark and Airflow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from deltalite import DeltaTable

TASK_IDS = (
    "load_orders",
    "load_customers",
    "reject_orders",
    "keep_history",
    "merge_orders",
    "first_changed_day",
    "report",
    "maintain",
)
"""The tasks of the DAG, in their order."""
_SHOWN_REJECTED_LINES = 4
_RIGHT_COLUMNS = frozenset({"rows", "version", "measured", "amount", "orders", "revenue", "files", "bytes"})


def describe_task(task_id: str, value: Any) -> str:
    """Return what a task of the DAG did, from its return value. The value of a skipped task is None."""
    if value is None:
        return "skipped: nothing has changed"
    if task_id == "first_changed_day":
        return f"the report can change from {value} on"
    metrics: Mapping[str, int] = value["metrics"]
    if value["skipped"]:
        return f"[yellow]skipped[/]: {value.get('skip_reason') or 'this run has committed before'}"
    rows = metrics.get("numOutputRows", 0)
    text = {
        "load_orders": lambda: f"loaded {metrics['numLoadedFiles']} files with {rows:,} lines",
        "load_customers": lambda: f"loaded {metrics['numLoadedFiles']} files with {rows:,} changes",
        "reject_orders": lambda: f"put {rows:,} bad lines aside",
        "keep_history": lambda: f"began {metrics['numRowsOpened']:,} rows and ended {metrics['numRowsClosed']:,}",
        "merge_orders": lambda: (
            f"inserted {metrics['numTargetRowsInserted']:,} orders, updated {metrics['numTargetRowsUpdated']:,}"
        ),
        "report": lambda: f"replaced {len(value.get('partitions') or ()):,} days; each starts shop_revenue_of_day",
        "maintain": lambda: f"changed {metrics['numChangedTables']} of {metrics['numTables']} tables",
    }[task_id]()
    audits = value.get("audits") or ()
    passed = sum(audit["passed"] for audit in audits)
    return f"[green]{text}[/]" + (f"; {passed} of {len(audits)} audits passed" if audits else "")


def changes_tables(results: Mapping[str, Any]) -> bool:
    """Whether a task of the DAG has committed rows. The maintenance changes no row."""
    return any(isinstance(value, dict) and value["committed"] for name, value in results.items() if name != "maintain")


def show_shop(console: Console, shop: Path, results: Mapping[str, Any]) -> None:
    """Print the tables of the lake, the results of the audits, and what the maintenance did."""
    console.print()
    tables = {str(log.parent.relative_to(shop)): DeltaTable(str(log.parent)) for log in shop.glob("*/*/_delta_log")}
    console.print(
        _make_table(
            "Tables of shop_lake",
            ("table", "rows", "version", "last operation"),
            (
                (name, _row_count(table), table.version, table.history(limit=1)[0]["operation"])
                for name, table in sorted(tables.items())
            ),
        )
    )
    rejected_lines = tables["bronze/rejected_orders"].to_arrow(["order_id", "customer", "amount", "file"]).to_pylist()
    console.print(
        _make_table(
            f"Rejected lines: {min(_SHOWN_REJECTED_LINES, len(rejected_lines))} of {len(rejected_lines)}",
            ("order_id", "customer", "amount", "file"),
            ((*list(line.values())[:3], _file_name(line["file"])) for line in rejected_lines[:_SHOWN_REJECTED_LINES]),
        )
    )
    console.print(_make_history_table(tables["silver/customers"]))
    revenue = tables["gold/revenue"].to_arrow().sort_by([("day", "ascending"), ("segment", "ascending")])
    console.print(
        _make_table(
            "Revenue of each day, by the segment of the customer at the time of the order",
            ("day", "segment", "orders", "revenue"),
            ((row["day"], row["segment"], row["orders"], row["revenue"]) for row in revenue.to_pylist()),
        )
    )
    audits = [
        (task_id, audit["name"], _measured_text(audit), audit["threshold"], "yes" if audit["passed"] else "no")
        for task_id in ("merge_orders", "report")
        for audit in (results[task_id] or {}).get("audits") or ()
    ]
    if audits:
        columns = ("task", "audit", "measured", "limit", "passed")
        console.print(_make_table("Audits, before the rows were published", columns, audits))
    console.print(
        _make_table(
            "Maintenance",
            ("table", "status", "files", "bytes", "steps"),
            (_maintenance_cells(shop, row) for row in results["maintain"].get("tables", ())),
        )
    )


def _make_table(title: str, columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> Table:
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="right" if column in _RIGHT_COLUMNS else "left")
    for row in rows:
        table.add_row(*(Text(_cell_text(value)) for value in row))
    return table


def _make_history_table(customers: DeltaTable) -> Table:
    """Return a table with the rows of the customer who has the most rows."""
    rows = customers.to_arrow(["customer", "country", "segment", "valid_from", "valid_to"])
    counts = rows.group_by("customer").aggregate([("customer", "count")])
    customer = counts.sort_by([("customer_count", "descending"), ("customer", "ascending")])["customer"][0].as_py()
    history = [row for row in rows.sort_by("valid_from").to_pylist() if row["customer"] == customer]
    return _make_table("History of one customer", rows.column_names, (row.values() for row in history))


def _row_count(table: DeltaTable) -> int:
    return sum(table.files()["num_records"].to_pylist())


def _measured_text(audit: Mapping[str, Any]) -> str:
    value = audit["measured"]
    measured = f"{value:.3f}" if isinstance(value, float) else f"{value:,}"
    return f"{measured} of {audit['rows']:,} rows" if isinstance(value, int) and audit.get("rows") else measured


def _maintenance_cells(shop: Path, row: Mapping[str, Any]) -> tuple[Any, ...]:
    before = row.get("before", {})
    steps = ", ".join(f"{name}: {step['outcome']}" for name, step in row.get("steps", {}).items())
    name = row["table"].removeprefix(f"{shop}/")
    return name, row["status"], before.get("numFiles"), before.get("sizeInBytes"), steps


def _file_name(address: str) -> str:
    return "/".join(address.split("/")[-2:])


def _cell_text(value: Any) -> str:
    match value:
        case None:
            return "null"
        case datetime():
            return f"{value:%Y-%m-%d %H:%M:%S}"
        case int() | Decimal():
            return f"{value:,}"
        case _:
            return str(value)

"""The expected tables of the example DAG `shop_lake`, computed from the delivered files without Spark."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from tests.examples.feeds import amount_of


class CustomerValues(NamedTuple):
    """The values of a customer, and the time for which they were valid. `until` is None for the current values."""

    country: str
    segment: str
    since: datetime
    until: datetime | None


def order_lines(landing: Path) -> list[dict[str, str]]:
    """Return the lines of all files with orders."""
    lines: list[dict[str, str]] = []
    for file in sorted(landing.rglob("orders*.csv")):
        with file.open(encoding="utf-8", newline="") as text:
            lines += csv.DictReader(text)
    return lines


def is_valid(line: dict[str, str]) -> bool:
    """Whether the line has an id and an amount that are numbers."""
    return line["order_id"].isdigit() and amount_of(line["amount"]) is not None


def expected_orders(lines: Iterable[dict[str, str]]) -> dict[int, dict[str, Any]]:
    """Return the newest valid line of each order, by its id."""
    orders: dict[int, dict[str, Any]] = {}
    for line in filter(is_valid, lines):
        ordered_at = datetime.fromisoformat(line["ordered_at"]).astimezone(UTC)
        order = {
            "order_id": int(line["order_id"]),
            "customer": line["customer"].strip(" ") or None,
            "amount": amount_of(line["amount"]),
            "ordered_at": ordered_at,
            "sent_at": datetime.fromisoformat(line["sent_at"]),
            "day": ordered_at.date(),
        }
        earlier_order = orders.get(order["order_id"])
        if earlier_order is None or earlier_order["sent_at"] < order["sent_at"]:
            orders[order["order_id"]] = order
    return orders


def expected_history(landing: Path) -> dict[str, list[CustomerValues]]:
    """Return the history of each customer, the oldest values first."""
    changes_by_customer: dict[str, dict[datetime, dict[str, Any]]] = defaultdict(dict)
    for file in landing.rglob("customers*.json"):
        for change in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
            changes_by_customer[change["customer"]][datetime.fromisoformat(change["changed_at"])] = change
    return {customer: _history(changes) for customer, changes in changes_by_customer.items()}


def _history(changes: dict[datetime, dict[str, Any]]) -> list[CustomerValues]:
    history: list[CustomerValues] = []
    for moment, change in sorted(changes.items()):
        last = history[-1] if history and history[-1].until is None else None
        if last is not None and not change["deleted"] and last[:2] == (change["country"], change["segment"]):
            continue
        if last is not None:
            history[-1] = last._replace(until=moment)
        if not change["deleted"]:
            history.append(CustomerValues(change["country"], change["segment"], moment, None))
    return history


def expected_revenue(
    orders: dict[int, dict[str, Any]], history: dict[str, list[CustomerValues]]
) -> dict[tuple[date, str | None], tuple[int, Decimal]]:
    """Return the number of orders and the revenue of each day and segment."""
    totals: dict[tuple[date, str | None], tuple[int, Decimal]] = defaultdict(lambda: (0, Decimal(0)))
    for order in orders.values():
        segments = [
            valid.segment
            for valid in history.get(order["customer"], ())
            if valid.since <= order["ordered_at"] and (valid.until is None or order["ordered_at"] < valid.until)
        ]
        key = order["day"], segments[0] if segments else None
        count, revenue = totals[key]
        totals[key] = count + 1, revenue + order["amount"]
    return dict(totals)

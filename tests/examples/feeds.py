"""The input of the example DAGs, and the expected rows.

The expected rows are computed from the feed with Python's CSV reader and decimals, without Spark.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from io import StringIO
from typing import Any

from demo.feed import feed
from tests.examples.dag_runs import FIRST, SECOND

ORDERS = 400


def amount_of(text: str) -> Decimal | None:
    try:
        return Decimal(text.strip(" ")).quantize(Decimal("0.01"))
    except InvalidOperation:
        return None


def expected_orders(day: date) -> dict[int, dict[str, Any]]:
    """The expected rows of a day's feed, by their ids."""
    newest: dict[int, dict[str, str]] = {}
    for line in csv.DictReader(StringIO(feed(day, orders=ORDERS), newline="")):
        if not line["order_id"].isdigit():
            continue
        order_id = int(line["order_id"])
        if order_id not in newest or line["sent_at"] > newest[order_id]["sent_at"]:
            newest[order_id] = line
    return {
        order_id: {
            "order_id": order_id,
            "customer": line["customer"].strip(" ") or None,
            "country": line["country"].strip(" ").upper() or None,
            "amount": amount_of(line["amount"]),
            "note": line["note"].strip(" ").replace("\r\n", "\n") or None,  # as Spark's CSV reader does
            "ordered_at": datetime.fromisoformat(line["ordered_at"]),
            "day": day,
        }
        for order_id, line in newest.items()
    }


def expected_totals(day: date) -> dict[str | None, tuple[int, Decimal]]:
    """The expected orders and revenue of each country."""
    totals: dict[str | None, tuple[int, Decimal]] = defaultdict(lambda: (0, Decimal(0)))
    for order in expected_orders(day).values():
        count, revenue = totals[order["country"]]
        totals[order["country"]] = (count + 1, revenue + (order["amount"] or 0))
    return dict(totals)


def changed(customer: str, hour: int, *, day: date, country: str = "DE", deleted: bool | None = None) -> dict[str, Any]:
    """A change of a customer, in the format of the source."""
    at = datetime.combine(day, time(hour), UTC)
    named = {"customer": customer, "email": f"{hour}@{day}", "country": country, "changed_at": at.isoformat()}
    return named if deleted is None else named | {"deleted": deleted}


FORGOTTEN = next(
    order["customer"] for order in expected_orders(FIRST).values() if order["note"] and "'" in (order["customer"] or "")
)
CHANGES = {
    FIRST: [
        changed("Anna", 8, day=FIRST),
        changed("Anna", 9, day=FIRST, country="FR"),
        changed("Søren", 8, day=FIRST, deleted=False),
        changed(FORGOTTEN, 8, day=FIRST),
        changed("nobody", 8, day=FIRST, deleted=True),
        changed("'", 8, day=FIRST),
    ],
    SECOND: [
        changed("Søren", 9, day=SECOND, deleted=True),
        changed("Anna", 1, day=FIRST, country="US"),  # late: the table has a newer one
        changed("'", 1, day=FIRST, deleted=True),  # late, too
        changed("太郎", 7, day=SECOND),
        changed(FORGOTTEN, 7, day=SECOND, country="IE"),
    ],
}


def expected_customers() -> dict[str, dict[str, Any]]:
    """The newest change of each customer that is not deleted."""
    newest: dict[str, dict[str, Any]] = {}
    for change in [*CHANGES[FIRST], *CHANGES[SECOND]]:
        known = newest.get(change["customer"])
        if known is None or known["changed_at"] < change["changed_at"]:
            newest[change["customer"]] = change
    kept = [change for change in newest.values() if not change.get("deleted")]
    return {
        change["customer"]: {
            "customer": change["customer"],
            "email": change["email"],
            "country": change["country"],
            "changed_at": datetime.fromisoformat(change["changed_at"]),
            "deleted": False,
        }
        for change in kept
    }

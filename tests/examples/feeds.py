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
from tests.examples.dag_runs import FIRST_DAY, SECOND_DAY

ORDERS = 400


def amount_of(text: str) -> Decimal | None:
    """Return the amount in a line of the feed; None if it is not a number."""
    try:
        return Decimal(text.strip(" ")).quantize(Decimal("0.01"))
    except InvalidOperation:
        return None


def expected_orders(day: date) -> dict[int, dict[str, Any]]:
    """Return the expected rows of a day's feed, by their ids."""
    newest_lines: dict[int, dict[str, str]] = {}
    for line in csv.DictReader(StringIO(feed(day, orders=ORDERS), newline="")):
        if not line["order_id"].isdigit():
            continue
        order_id = int(line["order_id"])
        if order_id not in newest_lines or line["sent_at"] > newest_lines[order_id]["sent_at"]:
            newest_lines[order_id] = line
    return {
        order_id: {
            "order_id": order_id,
            "customer": line["customer"].strip(" ") or None,
            "country": line["country"].strip(" ").upper() or None,
            "amount": amount_of(line["amount"]),
            # Spark's CSV reader also replaces CRLF by LF in a text.
            "note": line["note"].strip(" ").replace("\r\n", "\n") or None,
            "ordered_at": datetime.fromisoformat(line["ordered_at"]),
            "day": day,
        }
        for order_id, line in newest_lines.items()
    }


def expected_totals(day: date) -> dict[str | None, tuple[int, Decimal]]:
    """Return the expected number of orders and revenue of each country."""
    totals: dict[str | None, tuple[int, Decimal]] = defaultdict(lambda: (0, Decimal(0)))
    for order in expected_orders(day).values():
        count, revenue = totals[order["country"]]
        totals[order["country"]] = (count + 1, revenue + (order["amount"] or 0))
    return dict(totals)


def change_of(
    customer: str, hour: int, *, day: date, country: str = "DE", deleted: bool | None = None
) -> dict[str, Any]:
    """Return a change of a customer, in the format of the source."""
    changed_at = datetime.combine(day, time(hour), UTC).isoformat()
    change = {"customer": customer, "email": f"{hour}@{day}", "country": country, "changed_at": changed_at}
    return change if deleted is None else change | {"deleted": deleted}


FORGOTTEN_CUSTOMER = next(
    order["customer"]
    for order in expected_orders(FIRST_DAY).values()
    if order["note"] and "'" in (order["customer"] or "")
)
CHANGES = {
    FIRST_DAY: [
        change_of("Anna", 8, day=FIRST_DAY),
        change_of("Anna", 9, day=FIRST_DAY, country="FR"),
        change_of("Søren", 8, day=FIRST_DAY, deleted=False),
        change_of(FORGOTTEN_CUSTOMER, 8, day=FIRST_DAY),
        change_of("nobody", 8, day=FIRST_DAY, deleted=True),
        change_of("'", 8, day=FIRST_DAY),
    ],
    SECOND_DAY: [
        change_of("Søren", 9, day=SECOND_DAY, deleted=True),
        change_of("Anna", 1, day=FIRST_DAY, country="US"),  # arrives late: the table has a newer change
        change_of("'", 1, day=FIRST_DAY, deleted=True),  # arrives late too
        change_of("太郎", 7, day=SECOND_DAY),
        change_of(FORGOTTEN_CUSTOMER, 7, day=SECOND_DAY, country="IE"),
    ],
}


def expected_customers() -> dict[str, dict[str, Any]]:
    """Return the expected row of each customer that is not deleted: the customer's newest change."""
    newest_changes: dict[str, dict[str, Any]] = {}
    for change in [*CHANGES[FIRST_DAY], *CHANGES[SECOND_DAY]]:
        previous = newest_changes.get(change["customer"])
        if previous is None or previous["changed_at"] < change["changed_at"]:
            newest_changes[change["customer"]] = change
    remaining_changes = [change for change in newest_changes.values() if not change.get("deleted")]
    return {
        change["customer"]: {
            "customer": change["customer"],
            "email": change["email"],
            "country": change["country"],
            "changed_at": datetime.fromisoformat(change["changed_at"]),
            "deleted": False,
        }
        for change in remaining_changes
    }

"""The customers of the shop: one JSON file of changes for each day, with the same bytes for the same day everywhere.

The customers are those of the orders in `feed.py`. On its first day the shop delivers all its customers, as they were
registered the day before. Each later day has changes of some customers. The file has typical errors: repeated lines,
changes that arrive a day late, and customers that are missing although they order. A deleted customer has only a key.
The module imports only the standard library.
"""

from __future__ import annotations

import json
import random
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

from demo.feed import CUSTOMER_COUNT, customer_name, write_if_changed

OPENING_DAY = date(2026, 3, 1)

MISSING_SHARE = 0.02  # the share of customers that the shop never delivers
CHANGED_SHARE = 0.03  # the share of customers that change on a day
LATE_SHARE = 0.2  # the share of a day's changes that happened the day before
DELETED_SHARE = 0.1  # the share of a day's changes that delete the customer
REPEATED_SHARE = 0.02  # the share of lines that the shop sends twice

_SEGMENTS = ("private", "private", "private", "business", "wholesale")
_COUNTRIES = ("DE", "FR", "PL", "DK", "US", "JP", "IN", "BR")


def write_customers(landing: Path, day: date) -> Path:
    """Write the changes of a day to `<landing>/<day>/customers.json`, atomically, and return the file.

    An existing file with the same content is not written again.
    """
    lines = (json.dumps(change, ensure_ascii=False) + "\n" for change in customer_changes(day))
    return write_if_changed(landing / day.isoformat() / "customers.json", "".join(lines).encode())


def customer_changes(day: date) -> list[dict[str, Any]]:
    """Return all changes in the delivery of a day, in random order."""
    random_generator = random.Random(f"customers {day}")  # noqa: S311  the seed gives the same lines on every machine
    is_first = day == OPENING_DAY
    changes = [
        _change(number, day, random_generator, is_first=is_first)
        for number in range(CUSTOMER_COUNT)
        if not _is_missing(number) and (is_first or random_generator.random() < CHANGED_SHARE)
    ]
    changes += [change for change in changes if random_generator.random() < REPEATED_SHARE]
    random_generator.shuffle(changes)
    return changes


def _is_missing(number: int) -> bool:
    return random.Random(f"customer {number}").random() < MISSING_SHARE  # noqa: S311  as above


def _change(number: int, day: date, random_generator: random.Random, *, is_first: bool) -> dict[str, Any]:
    is_late = is_first or random_generator.random() < LATE_SHARE
    is_deletion = not is_first and random_generator.random() < DELETED_SHARE
    midnight = datetime.combine(day - timedelta(days=is_late), time(tzinfo=UTC))
    return {
        "customer": customer_name(number),
        "country": None if is_deletion else random_generator.choice(_COUNTRIES),
        "segment": None if is_deletion else random_generator.choice(_SEGMENTS),
        "changed_at": (midnight + timedelta(seconds=random_generator.randrange(86_400))).isoformat(),
        "deleted": is_deletion,
    }

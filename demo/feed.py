"""The raw feed of a shop: one CSV file of orders for each day, the same bytes for the same day on every machine.

The dirt is that of real feeds: late orders of the day before, lines sent again (as they were, or corrected), missing
values, amounts that are no numbers, ids that are none, white space, zones of time, and texts with quotes, commas, line
breaks and letters from all over the world. What is in a file follows from its day alone, so a file that is there
already is left alone. Standard library only.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from io import StringIO
from pathlib import Path

ORDERS_A_DAY = 20_000
COLUMNS = ("order_id", "customer", "country", "amount", "note", "ordered_at", "sent_at")

LATE = 0.02  # of a day's orders are delivered with the next day
AGAIN = 0.01  # are sent a second time, unchanged
CORRECTED = 0.005  # are sent a second time, with another amount
NO_ID = 0.001
NO_CUSTOMER = 0.01
BAD_AMOUNT = 0.003
NO_AMOUNT = 0.01

_CUSTOMERS = 3_000
_NAMES = ("Anna", "José", "Zoë", "Łukasz", "Søren", "Наталья", "太郎", "أمينة", "O'Brien", "Müller", "Nguyễn", "Ng")
_COUNTRIES = ("DE", "de", "FR", "PL", "DK", "US", "JP", " IN", "BR", "")
_ZONES = tuple(timezone(timedelta(minutes=minutes)) for minutes in (0, 60, -300, 330, 540))
_BAD_AMOUNTS = ("n/a", "12,50 €", "1.2.3", "--", "NaN USD", "∞")
_NOTES = (
    "",
    "",
    "",
    "gift",
    'please ring "twice", then wait',
    "leave it at the door,\nbehind the plant",
    "first line\r\nsecond line",
    "blå himmel 🌤",
    "50% off; code=A/B",
    "  spaces around  ",
    '"',
)


def write_feed(landing: Path, day: date, *, orders: int = ORDERS_A_DAY) -> Path:
    """The feed of a day as `<landing>/<day>/orders.csv`; complete or not there, and left alone where it is."""
    file = landing / day.isoformat() / "orders.csv"
    content = feed(day, orders=orders).encode()
    if file.exists() and file.read_bytes() == content:
        return file
    file.parent.mkdir(parents=True, exist_ok=True)
    staged = file.with_name(".orders.csv.tmp")
    staged.write_bytes(content)
    staged.replace(file)
    return file


def feed(day: date, *, orders: int = ORDERS_A_DAY) -> str:
    """The CSV text of a day, as RFC 4180 has it: a header, quotes doubled, lines ending in CR LF."""
    text = StringIO()
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    writer.writerows(_lines(day, orders))
    return text.getvalue()


def _lines(day: date, orders: int) -> list[list[str]]:
    """All lines of a delivery, in no order."""
    late = round(orders * LATE)
    delivered = [*_day_of_orders(day, orders)[late:], *_day_of_orders(day - timedelta(days=1), orders)[:late]]
    chance = random.Random(f"delivery {day}")  # noqa: S311  chosen to be the same everywhere, not to be a secret
    lines = [line for order in delivered for line in _as_sent(order, chance)]
    chance.shuffle(lines)
    return lines


def _day_of_orders(day: date, orders: int) -> list[list[str]]:
    """The orders of a day, whenever they are delivered."""
    chance = random.Random(f"orders {day}")  # noqa: S311  as above
    return [_order(day, number, chance) for number in range(orders)]


def _order(day: date, number: int, chance: random.Random) -> list[str]:
    customer = chance.randrange(_CUSTOMERS)
    moment = datetime.combine(day, time(tzinfo=UTC)) + timedelta(seconds=chance.randrange(86_400))
    zone = chance.choice(_ZONES)
    return [
        f"{day:%Y%m%d}{number:06}",
        "" if chance.random() < NO_CUSTOMER else f"{_NAMES[customer % len(_NAMES)]} {customer}",
        chance.choice(_COUNTRIES),
        _amount(chance),
        chance.choice(_NOTES),
        moment.astimezone(zone).isoformat(),
        (moment + timedelta(seconds=chance.randrange(1, 900))).astimezone(UTC).isoformat(),
    ]


def _amount(chance: random.Random) -> str:
    draw = chance.random()
    cents = chance.randrange(1, 400) * chance.randrange(1, 150)  # many small ones; whole numbers are no platform's own
    if draw < BAD_AMOUNT:
        return chance.choice(_BAD_AMOUNTS)
    if draw < BAD_AMOUNT + NO_AMOUNT:
        return ""
    return f"{cents // 100}.{cents % 100:02}"


def _as_sent(order: list[str], chance: random.Random) -> Iterator[list[str]]:
    """The lines that a delivery has of an order: one, or one more with it sent again or corrected."""
    draw = chance.random()
    if draw < NO_ID:
        yield [chance.choice(("", "test")), *order[1:]]
        return
    yield order
    if draw < NO_ID + AGAIN:
        yield list(order)
    elif draw < NO_ID + AGAIN + CORRECTED:
        sent = datetime.fromisoformat(order[-1]) + timedelta(hours=1)
        yield [*order[:3], f" {chance.randrange(1, 500)}.00 ", *order[4:6], sent.isoformat()]

"""The raw feed of a shop: one CSV file of orders for each day, with the same bytes for the same day on every machine.

The feed has typical errors: late orders of the day before, repeated lines (unchanged or corrected), missing values,
amounts that are not numbers, and invalid ids. It also has white space, several time zones, and texts with quotes,
commas, line breaks and letters of many languages. The content depends only on the day and the number of orders, so an
existing file with this content is not written again. The module imports only the standard library.
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

LATE_SHARE = 0.02  # the share of a day's orders that the shop delivers with the next day
REPEATED_SHARE = 0.01  # the share of orders that the shop sends a second time, unchanged
CORRECTED_SHARE = 0.005  # the share of orders that the shop sends a second time, with another amount
INVALID_ID_SHARE = 0.001
NO_CUSTOMER_SHARE = 0.01
BAD_AMOUNT_SHARE = 0.003
NO_AMOUNT_SHARE = 0.01

CUSTOMER_COUNT = 3_000
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
    """Write the feed of a day to `<landing>/<day>/orders.csv`, atomically, and return the file.

    An existing file with the same content is not written again. `orders` is the number of orders.
    """
    return write_if_changed(landing / day.isoformat() / "orders.csv", feed(day, orders=orders).encode())


def write_if_changed(file: Path, content: bytes) -> Path:
    """Write a file atomically, unless it has this content, and return it."""
    if file.exists() and file.read_bytes() == content:
        return file
    file.parent.mkdir(parents=True, exist_ok=True)
    partial_file = file.with_name(f".{file.name}.tmp")
    partial_file.write_bytes(content)
    partial_file.replace(file)
    return file


def customer_name(number: int) -> str:
    """Return the name of a customer, by a number below `CUSTOMER_COUNT`."""
    return f"{_NAMES[number % len(_NAMES)]} {number}"


def feed(day: date, *, orders: int = ORDERS_A_DAY) -> str:
    """Return the CSV text of a day in the format of RFC 4180: a header, doubled quotes, lines ending in CR LF."""
    text = StringIO()
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    writer.writerows(_lines(day, orders))
    return text.getvalue()


def _lines(day: date, orders: int) -> list[list[str]]:
    """Return all lines of a delivery, in random order."""
    late_count = round(orders * LATE_SHARE)
    on_time_orders = _orders_of_day(day, orders)[late_count:]
    late_orders = _orders_of_day(day - timedelta(days=1), orders)[:late_count]
    random_generator = random.Random(f"delivery {day}")  # noqa: S311  the seed gives the same lines on every machine
    lines = [line for order in (*on_time_orders, *late_orders) for line in _delivered_lines(order, random_generator)]
    random_generator.shuffle(lines)
    return lines


def _orders_of_day(day: date, orders: int) -> list[list[str]]:
    """Return all orders of a day, on time and late."""
    random_generator = random.Random(f"orders {day}")  # noqa: S311  the seed gives the same orders on every machine
    return [_order(day, number, random_generator) for number in range(orders)]


def _order(day: date, number: int, random_generator: random.Random) -> list[str]:
    customer = random_generator.randrange(CUSTOMER_COUNT)
    moment = datetime.combine(day, time(tzinfo=UTC)) + timedelta(seconds=random_generator.randrange(86_400))
    zone = random_generator.choice(_ZONES)
    return [
        f"{day:%Y%m%d}{number:06}",
        "" if random_generator.random() < NO_CUSTOMER_SHARE else customer_name(customer),
        random_generator.choice(_COUNTRIES),
        _amount(random_generator),
        random_generator.choice(_NOTES),
        moment.astimezone(zone).isoformat(),
        (moment + timedelta(seconds=random_generator.randrange(1, 900))).astimezone(UTC).isoformat(),
    ]


def _amount(random_generator: random.Random) -> str:
    draw = random_generator.random()
    # The product of two draws is mostly small. Integers give the same product on every platform.
    cents = random_generator.randrange(1, 400) * random_generator.randrange(1, 150)
    if draw < BAD_AMOUNT_SHARE:
        return random_generator.choice(_BAD_AMOUNTS)
    if draw < BAD_AMOUNT_SHARE + NO_AMOUNT_SHARE:
        return ""
    return f"{cents // 100}.{cents % 100:02}"


def _delivered_lines(order: list[str], random_generator: random.Random) -> Iterator[list[str]]:
    """Yield the lines of an order in a delivery: one, or two if the shop repeats or corrects it."""
    draw = random_generator.random()
    if draw < INVALID_ID_SHARE:
        yield [random_generator.choice(("", "test")), *order[1:]]
        return
    yield order
    if draw < INVALID_ID_SHARE + REPEATED_SHARE:
        yield list(order)
    elif draw < INVALID_ID_SHARE + REPEATED_SHARE + CORRECTED_SHARE:
        sent_at = datetime.fromisoformat(order[-1]) + timedelta(hours=1)
        yield [*order[:3], f" {random_generator.randrange(1, 500)}.00 ", *order[4:6], sent_at.isoformat()]

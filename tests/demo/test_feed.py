"""The feed of the demonstration: the same bytes in every process, and all the errors that its module describes."""

from __future__ import annotations

import csv
import hashlib
import os
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from io import StringIO
from pathlib import Path

import pytest

from demo.feed import COLUMNS, feed, write_feed

DAY = date(2026, 3, 2)
CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def lines() -> list[dict[str, str]]:
    return list(csv.DictReader(StringIO(feed(DAY), newline="")))


def is_number(text: str) -> bool:
    try:
        Decimal(text.strip())
    except InvalidOperation:
        return False
    return True


def test_a_day_has_the_same_bytes_in_every_process():
    program = "import datetime, hashlib; from demo.feed import feed; "
    program += "print(hashlib.sha256(feed(datetime.date(2026, 3, 2), orders=2000).encode()).hexdigest())"
    command = [sys.executable, "-c", program]
    process = subprocess.run(
        command, env={**os.environ, "PYTHONHASHSEED": "7"}, cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    assert process.stdout.strip() == hashlib.sha256(feed(DAY, orders=2000).encode()).hexdigest()


def test_days_differ_and_have_the_requested_number_of_orders():
    assert feed(DAY, orders=100) != feed(date(2026, 3, 3), orders=100)
    assert 100 <= len(list(csv.reader(StringIO(feed(DAY, orders=100), newline="")))) <= 120


def test_every_line_has_every_column(lines):
    assert len(lines) > 20_000
    assert all(tuple(line) == COLUMNS and None not in line.values() for line in lines)


def test_late_orders_were_ordered_the_day_before_and_are_missing_from_its_feed(lines):
    late_ids = {line["order_id"] for line in lines if line["order_id"].startswith("20260301")}
    ids_of_day_before = {line["order_id"] for line in csv.DictReader(StringIO(feed(date(2026, 3, 1)), newline=""))}
    assert 300 < len(late_ids) < 500
    assert not late_ids & ids_of_day_before
    moments = [datetime.fromisoformat(line["ordered_at"]) for line in lines]
    midnight = datetime(2026, 3, 2, tzinfo=UTC)
    assert min(moments) < midnight <= max(moments) < midnight + timedelta(days=1)
    late_moments = [moment for line, moment in zip(lines, moments, strict=True) if line["order_id"] in late_ids]
    assert midnight - timedelta(days=1) <= min(late_moments) and max(late_moments) < midnight


def test_times_have_several_zones(lines):
    assert len({datetime.fromisoformat(line["ordered_at"]).utcoffset() for line in lines}) == 5


def test_some_orders_are_repeated_unchanged_or_corrected(lines):
    lines_by_id: dict[str, list[dict[str, str]]] = {}
    for line in lines:
        lines_by_id.setdefault(line["order_id"], []).append(line)
    pairs = [id_lines for id_lines in lines_by_id.values() if len(id_lines) == 2]
    assert any(first == second for first, second in pairs)
    assert any(first["amount"] != second["amount"] for first, second in pairs)


@pytest.mark.parametrize("column", ["order_id", "customer", "country", "amount", "note"])
def test_every_nullable_column_has_missing_values(lines, column):
    assert any(line[column] == "" for line in lines)


def test_some_amounts_and_ids_are_not_numbers(lines):
    assert {"n/a", "12,50 €", "1.2.3"} < {line["amount"] for line in lines if not is_number(line["amount"])}
    assert {"", "test"} == {line["order_id"] for line in lines if not line["order_id"].isdigit()}


@pytest.mark.parametrize("character", ['"', ",", "\n", "\r\n", "🌤", "太", "أ", "  "])
def test_texts_contain_characters_that_break_naive_readers(lines, character):
    assert any(character in line["note"] + line["customer"] for line in lines)


def test_write_feed_keeps_a_complete_file_and_replaces_a_truncated_one(tmp_path):
    file = write_feed(tmp_path, DAY, orders=50)
    assert file == tmp_path / "2026-03-02" / "orders.csv"
    os.utime(file, (1, 1))
    assert write_feed(tmp_path, DAY, orders=50).stat().st_mtime == 1
    file.write_bytes(file.read_bytes()[:-10])
    assert write_feed(tmp_path, DAY, orders=50).read_bytes() == feed(DAY, orders=50).encode()
    assert [path.name for path in file.parent.iterdir()] == ["orders.csv"]

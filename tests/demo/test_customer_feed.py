"""The changes of customers: the same on every machine, with all the errors that the module describes."""

from __future__ import annotations

import json
from collections import Counter
from datetime import date, datetime

import pytest

from demo.customer_feed import OPENING_DAY, customer_changes, write_customers
from demo.feed import CUSTOMER_COUNT

DAY = date(2026, 3, 2)


@pytest.fixture(scope="module")
def changes():
    return customer_changes(DAY)


def days_of(changes) -> set[date]:
    return {datetime.fromisoformat(change["changed_at"]).date() for change in changes}


def test_the_first_delivery_has_nearly_all_customers_as_they_were_the_day_before():
    first_changes = customer_changes(OPENING_DAY)
    customers = {change["customer"] for change in first_changes}
    assert 0.95 * CUSTOMER_COUNT < len(customers) < CUSTOMER_COUNT < len(first_changes)
    assert days_of(first_changes) == {date(2026, 2, 28)}
    assert not any(change["deleted"] for change in first_changes)


def test_a_later_delivery_has_few_changes_and_some_are_late_deleted_or_repeated(changes):
    assert 30 < len(changes) < 150
    assert days_of(changes) == {date(2026, 3, 1), DAY}
    deletions = [change for change in changes if change["deleted"]]
    assert deletions and all(change["country"] is change["segment"] is None for change in deletions)
    assert max(Counter(map(str, changes)).values()) == 2


def test_no_two_different_changes_of_a_customer_have_the_same_time(changes):
    distinct_changes = {json.dumps(change) for change in (*customer_changes(OPENING_DAY), *changes)}
    keys = [(change["customer"], change["changed_at"]) for change in map(json.loads, distinct_changes)]
    assert len(set(keys)) == len(keys)


def test_the_file_has_one_change_in_each_line_and_is_the_same_again(tmp_path, changes):
    file = write_customers(tmp_path, DAY)
    assert file == tmp_path / "2026-03-02" / "customers.json"
    content = file.read_bytes()
    assert [json.loads(line) for line in content.decode().splitlines()] == changes
    assert write_customers(tmp_path, DAY).read_bytes() == content

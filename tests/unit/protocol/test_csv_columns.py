"""The header of a CSV file is matched with the schema of its source, by name or by position."""

from __future__ import annotations

import pytest

from deltalite.protocol.csv_columns import are_matched_by_name, misplaced_column

SCHEMA = ["id", "name", "Day"]


@pytest.mark.parametrize("header", ["day id name", "name id", "ID", "Day x id y name"])
def test_columns_are_matched_by_name_if_one_side_has_all_names_of_the_other(header):
    assert are_matched_by_name(header.split(), SCHEMA)


@pytest.mark.parametrize(
    "header", ["id name day", "ID Name DAY", "order customer date", "id customer day", "id customer", "a b c d"]
)
def test_columns_are_matched_by_position_if_no_name_is_misplaced(header):
    assert not are_matched_by_name(header.split(), SCHEMA)
    assert misplaced_column(header.split(), SCHEMA) is None


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("order ID customer", ("ID", 2, 1)),
        ("id customer name day2", ("name", 3, 2)),
        ("a b c id", ("id", 4, 1)),
    ],
)
def test_a_misplaced_column_is_found(header, expected):
    assert not are_matched_by_name(header.split(), SCHEMA)
    assert misplaced_column(header.split(), SCHEMA) == expected

"""How the header of a CSV file is matched with the schema of its source."""

from __future__ import annotations

import pytest

from deltalite.protocol.csv_columns import ColumnMatch, match_columns, misplaced_column


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("id name day", ColumnMatch.BY_POSITION),
        ("ID Name DAY", ColumnMatch.BY_POSITION),
        ("day id name", ColumnMatch.BY_NAME),
        ("name id", ColumnMatch.BY_NAME),
        ("Day x id y name", ColumnMatch.BY_NAME),
        ("order customer date", ColumnMatch.BY_POSITION),
        ("id customer day", ColumnMatch.BY_POSITION),
        ("id customer", ColumnMatch.BY_POSITION),
        ("order id customer", ColumnMatch.NONE),
        ("id customer name day2", ColumnMatch.NONE),
        ("a b c id", ColumnMatch.NONE),
    ],
)
def test_columns_are_matched_by_name_only_if_no_column_is_ambiguous(header, expected):
    assert match_columns(header.split(), ["id", "name", "Day"]) is expected


def test_an_error_can_name_a_misplaced_column():
    assert misplaced_column(["x", "ID", "y"], ["id", "x2"]) == ("ID", 2, 1)

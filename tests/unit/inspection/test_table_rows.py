"""The rows of a maintenance report have an order: the state of a table first, then its gain."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deltalite.errors import CorruptLogError
from deltalite.inspection.health import TableHealth
from deltalite.inspection.table_rows import Outcome, RowError, TableRow, by_importance
from tests.unit.commands.maintain.rows import HEALTH, row

MIB = 1024 * 1024
ERROR = RowError.of(CorruptLogError("The log is broken.", remedy="Repair it."))


def test_an_error_of_a_row_is_one_bounded_line_without_secrets_and_control_characters():
    error = RowError.of(OSError(f"a\n\u202e\x1b[31m password='planted' {'x' * 500}"))
    assert error.message.startswith("a \\u202e\\x1b[31m password=*** xxx")
    assert len(error.message) == 301


@pytest.mark.parametrize(
    ("measures", "gain_bytes"),
    [
        ({}, 0),
        ({"files_to_rewrite": 12, "new_files": 2}, 40 * MIB),
        ({"files_to_rewrite": 1, "new_files": 3}, 0),  # a clustering may write more files
        ({"commits_since_checkpoint": 5}, 20 * MIB),
        ({"dead_bytes": 7, "retained_bytes": 1000}, 7),
        ({"files_to_rewrite": 2, "new_files": 1, "commits_since_checkpoint": 1, "dead_bytes": MIB}, 9 * MIB),
    ],
)
def test_the_gain_is_the_dead_bytes_and_4_mib_for_each_saved_file_or_commit(measures, gain_bytes):
    nothing = {"files_to_rewrite": 0, "new_files": 0, "commits_since_checkpoint": 0, "dead_bytes": 0}
    assert TableHealth(**{**HEALTH, **nothing, **measures}).gain_bytes == gain_bytes


def test_rows_are_ordered_by_status_then_by_gain_then_by_address():
    rows = [
        row("healthy", optimize=Outcome.NOT_NEEDED, dead_bytes=10**12),
        row("due, no gain", files_to_rewrite=0, commits_since_checkpoint=0),
        row("due, b"),
        row("due, a"),
        row("due, most gain", dead_bytes=10**9),
        row("not reached", optimize=Outcome.NOT_REACHED),
        row("changed", optimize=Outcome.DONE),
        row("changed before", optimize=Outcome.DONE_EARLIER, dead_bytes=10**9),
        TableRow(table="unreadable", error=ERROR),
        replace(row("failed", optimize=Outcome.FAILED), error=ERROR),
    ]
    for row_order in (rows, rows[::-1]):
        assert [one_row.table for one_row in by_importance(row_order)] == [
            "failed", "unreadable", "changed before", "changed", "not reached",
            "due, most gain", "due, a", "due, b", "due, no gain", "healthy",
        ]  # fmt: skip

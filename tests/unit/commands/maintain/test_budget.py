"""The budget of a maintenance: its bytes go to the tables with the largest gain, and no step starts after its time."""

from __future__ import annotations

from deltalite.commands.maintain.budget import Deadline, limit_bytes
from deltalite.inspection.table_rows import Outcome, Status
from tests.unit.commands.maintain.rows import row


def test_no_step_starts_after_the_time_or_after_a_stop():
    now_s = [100.0]
    deadline = Deadline(10, clock_s=lambda: now_s[0])
    assert deadline.reason_to_stop is None
    now_s[0] = 109.9
    assert deadline.reason_to_stop is None
    now_s[0] = 110.0
    assert deadline.reason_to_stop == "max_seconds=10 was used up"
    unlimited = Deadline(None)
    assert unlimited.reason_to_stop is None
    unlimited.stop()
    assert unlimited.reason_to_stop == "the job was stopped"


def test_bytes_go_to_the_first_tables_and_a_smaller_optimize_may_still_run():
    rows = [row("a", bytes_to_rewrite=60), row("b", bytes_to_rewrite=50), row("c", bytes_to_rewrite=40)]
    assert [r.steps[0].outcome for r in limit_bytes(rows, 100)] == [Outcome.DUE, Outcome.NOT_REACHED, Outcome.DUE]
    assert [r.status for r in limit_bytes(rows, 0)] == [Status.NOT_REACHED] * 3
    assert limit_bytes(rows, None) == rows


def test_only_a_due_optimize_takes_bytes():
    rows = [row("a", optimize=Outcome.DONE_EARLIER, bytes_to_rewrite=60), row("b", bytes_to_rewrite=100)]
    assert limit_bytes(rows, 100) == rows
    (limited_row,) = limit_bytes([row("a", checkpoint=Outcome.DUE, bytes_to_rewrite=2)], 1)
    assert limited_row.has_due_steps, "the checkpoint of the table is still due"
    assert limited_row.steps[0].reason.startswith("2 B to rewrite exceed the rest of max_bytes, 1 B")

"""Rows of a maintenance for tests."""

from __future__ import annotations

from typing import Any

from deltalite.inspection.health import TableHealth
from deltalite.inspection.table_rows import Outcome, StepOutcome, TableRow
from deltalite.requests import Step

HEALTH = {
    "version": 20, "files": 12, "size_bytes": 1200, "small_files": 12, "small_bytes": 1200, "files_to_rewrite": 12,
    "bytes_to_rewrite": 1200, "new_files": 1, "rows": 1000, "deleted_rows": 0, "commits_since_checkpoint": 3,
    "checkpoint_interval": 10, "dead_files": 0, "dead_bytes": 0, "retained_bytes": 7, "last_vacuum": None,
    "days_since_vacuum": None, "commits_since_vacuum": None, "age_days": 1.0,
}  # fmt: skip


def row(
    table: str,
    optimize: Outcome = Outcome.DUE,
    checkpoint: Outcome = Outcome.NOT_NEEDED,
    vacuum: Outcome = Outcome.NOT_NEEDED,
    **measures: Any,
) -> TableRow:
    """A row with these outcomes of its steps, and with these measures among others."""
    outcomes = zip(Step, (optimize, checkpoint, vacuum), strict=True)
    steps = tuple(StepOutcome(step=step, outcome=outcome, reason="a reason") for step, outcome in outcomes)
    return TableRow(table=table, before=TableHealth(**{**HEALTH, **measures}), steps=steps)

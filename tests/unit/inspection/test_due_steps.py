"""The measures of a table and the thresholds decide which steps of a maintenance are due."""

from __future__ import annotations

import pytest

from deltalite.inspection.due_steps import decide
from deltalite.inspection.health import TableHealth
from deltalite.requests import Step, Thresholds

GIB = 1024**3
HEALTHY = {
    "version": 20, "files": 5, "size_bytes": 5 * GIB, "small_files": 1, "small_bytes": 10, "files_to_rewrite": 0,
    "bytes_to_rewrite": 0, "new_files": 0, "rows": 1000, "deleted_rows": 0, "commits_since_checkpoint": 3,
    "checkpoint_interval": 10, "dead_files": 0, "dead_bytes": 0, "retained_bytes": 7, "last_vacuum": None,
    "days_since_vacuum": 1.0, "commits_since_vacuum": 3, "age_days": 30.0,
}  # fmt: skip


def due(thresholds=None, **measures):
    """The steps that are due for a healthy table with other measures, with their reasons."""
    decisions = decide(TableHealth(**{**HEALTHY, **measures}), Thresholds(**(thresholds or {})))
    assert [decision.step for decision in decisions] == list(Step)
    assert all(decision.reason for decision in decisions)
    return {decision.step.value: decision.reason for decision in decisions if decision.is_due}


def test_a_healthy_table_needs_nothing():
    assert due() == {}


@pytest.mark.parametrize(
    ("measures", "thresholds", "is_due"),
    [
        ({"files_to_rewrite": 9, "small_files": 9}, {}, False),
        ({"files_to_rewrite": 10, "small_files": 10}, {}, True),
        ({"files_to_rewrite": 3}, {"min_small_files": 3}, True),
        ({"files_to_rewrite": 10, "small_files": 10}, {"optimize": False}, False),
        ({"small_files": 100}, {}, False),  # packed to the same size before
        ({"files_to_rewrite": 1, "deleted_rows": 51}, {}, True),
        ({"files_to_rewrite": 1, "deleted_rows": 50}, {}, False),
        ({"files_to_rewrite": 0, "deleted_rows": 51}, {}, False),
        ({"files_to_rewrite": 1, "deleted_rows": 51}, {"max_deleted_rows_ratio": 0.2}, False),
        ({"files_to_rewrite": 1, "deleted_rows": 51, "rows": None}, {}, False),
    ],
)
def test_an_optimize_is_due_for_many_small_files_or_soft_deleted_rows(measures, thresholds, is_due):
    assert ("optimize" in due(thresholds, **measures)) is is_due


@pytest.mark.parametrize(
    ("measures", "thresholds", "is_due"),
    [
        ({"commits_since_checkpoint": 9}, {}, False),
        ({"commits_since_checkpoint": 10}, {}, True),
        ({"commits_since_checkpoint": 10, "checkpoint_interval": 100}, {}, False),
        ({"commits_since_checkpoint": 10, "checkpoint_interval": 100}, {"checkpoint_after_commits": 5}, True),
        ({"commits_since_checkpoint": 10}, {"checkpoint": False}, False),
    ],
)
def test_a_checkpoint_is_due_after_the_interval_of_the_table_or_the_task(measures, thresholds, is_due):
    assert ("checkpoint" in due(thresholds, **measures)) is is_due


@pytest.mark.parametrize(
    ("measures", "thresholds", "is_due"),
    [
        ({"dead_files": 1, "dead_bytes": GIB}, {}, True),
        ({"dead_files": 1, "dead_bytes": GIB - 1}, {}, False),
        ({"dead_files": 1, "dead_bytes": 1}, {"min_dead_bytes": 1}, True),
        ({}, {"min_dead_bytes": 0}, False),
        ({"dead_files": 1, "dead_bytes": GIB}, {"vacuum": False}, False),
        ({"days_since_vacuum": 7.0}, {}, True),
        ({"days_since_vacuum": 6.9}, {}, False),
        ({"days_since_vacuum": 6.9}, {"vacuum_after_days": 1}, True),
        ({"days_since_vacuum": 70.0, "commits_since_vacuum": 0}, {}, False),
        ({"days_since_vacuum": 70.0, "commits_since_vacuum": 0, "dead_files": 1, "dead_bytes": 5}, {}, True),
        ({"days_since_vacuum": 70.0, "commits_since_vacuum": None}, {}, True),
        ({"days_since_vacuum": None, "commits_since_vacuum": None, "age_days": 6.0}, {}, False),
        ({"days_since_vacuum": None, "commits_since_vacuum": None, "age_days": 7.0}, {}, True),
        ({"days_since_vacuum": None, "commits_since_vacuum": None, "age_days": None}, {}, True),
    ],
)
def test_a_vacuum_is_due_for_dead_bytes_and_after_some_days(measures, thresholds, is_due):
    assert ("vacuum" in due(thresholds, **measures)) is is_due


def test_a_reason_names_the_measure_and_its_threshold():
    reasons = due(files_to_rewrite=12, commits_since_checkpoint=11, dead_files=2, dead_bytes=2 * GIB)
    assert reasons == {
        "optimize": "12 files to rewrite (threshold 10)",
        "checkpoint": "11 commits since the checkpoint (threshold 10)",
        "vacuum": "2.0 GiB dead (threshold 1.0 GiB)",
    }

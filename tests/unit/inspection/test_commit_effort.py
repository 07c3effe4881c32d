"""The effort of a commit, from provenance that may be hostile."""

from __future__ import annotations

import pytest

from deltalite.inspection.commit_effort import counts_of, effort_of

NO_COUNTS = ("-1", "1.5", "١٢", "9" * 20, None, [], {})


@pytest.mark.parametrize(
    ("read_version", "expected"),
    [(6, 0), (4, 2), (-1, 0), (7, 0), (8, 0), (None, 0), (True, 0), ("4", 0), (4.0, 0)],
)
def test_versions_of_other_writers_are_counted_from_a_read_version_below_the_commit(read_version, expected):
    assert effort_of(7, {"readVersion": read_version}).versions_meanwhile == expected


def test_a_duration_is_a_whole_number_under_either_name():
    assert effort_of(1, {"operationMetrics": {"executionTimeMs": "12"}}).duration_ms == 12
    assert effort_of(1, {"operationMetrics": {"execution_time_ms": 12}}).duration_ms == 12
    for value in NO_COUNTS:
        assert effort_of(1, {"operationMetrics": {"executionTimeMs": value}}).duration_ms is None
    assert effort_of(1, {}).duration_ms is None


def test_replans_are_a_whole_number_or_zero():
    assert effort_of(1, {"operationMetrics": {"numReplans": "2"}}).replans == 2
    for value in NO_COUNTS:
        assert effort_of(1, {"operationMetrics": {"numReplans": value}}).replans == 0
    assert effort_of(1, {}).replans == 0


def test_metrics_that_are_no_object_have_no_counts():
    assert counts_of(None) == counts_of([1]) == counts_of("a") == {}

"""The effort of a commit, from provenance that may be hostile."""

from __future__ import annotations

import pytest

from deltalite.inspection.commit_effort import counts_of, duration_ms_of, versions_meanwhile


@pytest.mark.parametrize(
    ("read_version", "expected"),
    [(6, 0), (4, 2), (-1, 0), (7, 0), (8, 0), (None, 0), (True, 0), ("4", 0), (4.0, 0)],
)
def test_versions_of_other_writers_need_a_read_version_below_the_commit(read_version, expected):
    assert versions_meanwhile(7, {"readVersion": read_version}) == expected


def test_a_duration_is_a_whole_number_of_either_name():
    assert duration_ms_of({"operationMetrics": {"executionTimeMs": "12"}}) == 12
    assert duration_ms_of({"operationMetrics": {"execution_time_ms": 12}}) == 12
    for value in ("-1", "1.5", "١٢", "9" * 20, None, [], {}):
        assert duration_ms_of({"operationMetrics": {"executionTimeMs": value}}) is None
    assert duration_ms_of({}) is None


def test_metrics_that_are_no_object_have_no_counts():
    assert counts_of(None) == counts_of([1]) == counts_of("a") == {}

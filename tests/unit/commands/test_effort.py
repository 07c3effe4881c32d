"""The metrics of a commit for its time and its replans."""

from __future__ import annotations

import pytest

from deltalite.commands.common.effort import measured_attempt, with_effort
from deltalite.commands.common.replanning import Rebase, replan_on_conflict
from deltalite.errors import ConcurrentAppendException
from deltalite.txn.proposal import Operation
from tests.support.clocks import SettableClock

WRITE = Operation(name="WRITE", metrics={"numFiles": 1})


@pytest.fixture
def clock():
    return SettableClock()


def test_a_commit_has_the_milliseconds_since_the_start_of_its_attempt_or_since_the_commit_before(clock):
    with measured_attempt(0, clock):
        clock.now_s += 2.5
        first = with_effort(WRITE, clock)
        clock.now_s += 0.25
        second = with_effort(WRITE, clock)
    assert [dict(operation.metrics) for operation in (first, second)] == [
        {"numFiles": 1, "executionTimeMs": 2500},
        {"numFiles": 1, "executionTimeMs": 250},
    ]


def test_a_time_that_the_operation_has_measured_stays(clock):
    with measured_attempt(0, clock):
        clock.now_s += 9
        operation = with_effort(Operation(name="MERGE", metrics={"executionTimeMs": 7}), clock)
    assert operation.metrics == {"executionTimeMs": 7}


def test_an_operation_without_metrics_or_outside_of_an_attempt_stays_the_same(clock):
    assert with_effort(WRITE, clock) is WRITE
    without_metrics = Operation(name="CREATE TABLE")
    with measured_attempt(1, clock):
        assert with_effort(without_metrics, clock) is without_metrics


def test_each_replan_counts_and_an_inner_operation_has_its_own_count(clock):
    errors = [ConcurrentAppendException("Version 7 won.", remedy="Run it again.") for _ in range(2)]

    def attempt():
        clock.now_s += 1
        inner = replan_on_conflict(
            lambda: with_effort(WRITE, clock), rebase=Rebase.REPLAN, retries=0, seconds=60, clock=clock
        )
        if errors:
            raise errors.pop()
        return inner, with_effort(WRITE, clock)

    inner, outer = replan_on_conflict(
        attempt, rebase=Rebase.REPLAN, retries=2, seconds=60, pause=lambda _: None, clock=clock
    )
    assert inner.metrics == {"numFiles": 1, "executionTimeMs": 0}
    assert outer.metrics == {"numFiles": 1, "executionTimeMs": 1000, "numReplans": 2}

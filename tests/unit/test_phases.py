"""The record of a job's phases."""

from __future__ import annotations

import threading

import pytest

from deltalite.phases import Phase, PhaseRecord
from tests.support.clocks import SettableClock


@pytest.fixture
def clock():
    return SettableClock()


@pytest.fixture
def record(clock):
    return PhaseRecord(clock_s=clock)


def test_each_phase_ends_where_the_next_one_begins(record, clock):
    for seconds, phase in [(3.5, Phase.PLAN), (1, Phase.WRITE), (10.00049, Phase.COMMIT), (0, Phase.AFTER_COMMIT)]:
        clock.now_s += seconds
        record.begin(phase)
    clock.now_s += 2
    assert record.seconds() == {"start": 3.5, "plan": 1.0, "write": 10.0, "commit": 0.0, "after_commit": 2.0}
    assert record.phase is Phase.AFTER_COMMIT


def test_a_phase_that_returns_has_the_sum_of_its_seconds(record, clock):
    for phase in (Phase.PLAN, Phase.WRITE, Phase.COMMIT, Phase.PLAN, Phase.WRITE, Phase.COMMIT):
        clock.now_s += 1
        record.begin(phase)
    clock.now_s += 5
    assert record.seconds() == {"start": 1.0, "plan": 2.0, "write": 2.0, "commit": 6.0}
    clock.now_s += 1
    assert record.seconds()["commit"] == 7.0, "the last phase goes on after the record was read"


def test_the_record_is_bounded_and_has_the_order_of_the_phases(record, clock):
    for _ in range(1000):
        for phase in reversed(Phase):
            clock.now_s += 0.001
            record.begin(phase)
    assert list(record.seconds()) == [str(phase) for phase in Phase]


def test_the_phase_start_begins_with_the_driver_if_the_driver_is_older_than_the_record(record, clock):
    clock.now_s += 2
    record.end_start(9.25)
    clock.now_s += 1
    assert record.seconds() == {"start": 9.25, "plan": 1.0}


@pytest.mark.parametrize("driver_age_s", [None, 0.5])
def test_the_start_is_at_least_the_time_since_the_record_began(record, clock, driver_age_s):
    clock.now_s += 2
    record.end_start(driver_age_s)
    assert record.seconds() == {"start": 2.0, "plan": 0.0}


def test_a_parallel_thread_does_not_change_the_phases(record, clock):
    record.begin(Phase.MAINTAIN)
    thread = threading.Thread(target=record.begin, args=(Phase.COMMIT,))
    thread.start()
    thread.join()
    clock.now_s += 4
    assert record.seconds() == {"start": 0.0, "maintain": 4.0}


def test_the_next_job_of_a_process_begins_a_new_record(record, clock):
    record.begin(Phase.WRITE)
    clock.now_s += 4
    record.restart()
    clock.now_s += 1
    assert record.seconds() == {"start": 1.0}

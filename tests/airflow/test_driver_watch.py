"""The decisions of a watch: when it ends, and how long it pauses."""

from __future__ import annotations

import pytest

from airflow_provider_deltalite.clusters.driver_state import DriverState, DriverWatch, WatchEnd
from deltalite.errors import InvalidRequestError

MINUTE_MS = 60_000
REFUSAL = InvalidRequestError("The account may not read pods.", remedy="Give it the permission.")


def new_watch(**parameters) -> DriverWatch:
    return DriverWatch(**{"started_ms": 0, "poll_interval": 10, **parameters})


def test_a_watch_goes_on_while_the_driver_runs_and_ends_with_it():
    watch = new_watch()
    assert watch.record_state(DriverState.RUNNING, 1) is None
    assert watch.record_state(DriverState.ENDED, 2) is WatchEnd.ENDED


def test_a_driver_that_ends_after_the_deadline_has_ended():
    assert new_watch(deadline_ms=5).record_state(DriverState.ENDED, 6) is WatchEnd.ENDED


@pytest.mark.parametrize("outcome", [DriverState.RUNNING, DriverState.MISSING, OSError("down"), REFUSAL])
def test_the_deadline_ends_the_watch_of_a_driver_that_has_not_ended(outcome):
    watch = new_watch(deadline_ms=5)
    end = watch.record_failure(outcome, 5) if isinstance(outcome, Exception) else watch.record_state(outcome, 5)
    assert end is WatchEnd.TIMEOUT


def test_three_polls_in_a_row_without_the_driver_end_the_watch():
    watch = new_watch()
    states = [DriverState.MISSING, DriverState.MISSING, DriverState.RUNNING, DriverState.MISSING, DriverState.MISSING]
    assert [watch.record_state(state, 1) for state in states] == [None] * 5
    assert watch.record_state(DriverState.MISSING, 1) is WatchEnd.ENDED


def test_three_refusals_in_a_row_end_the_watch_with_their_message():
    watch = new_watch()
    assert [watch.record_failure(REFUSAL, 1), watch.record_failure(REFUSAL, 2)] == [None, None]
    assert watch.record_state(DriverState.RUNNING, 3) is None
    assert [watch.record_failure(REFUSAL, 4), watch.record_failure(REFUSAL, 5)] == [None, None]
    assert watch.record_failure(REFUSAL, 6) is WatchEnd.UNWATCHED
    assert watch.error_text.startswith("The account may not read pods.")


def test_a_cluster_may_be_silent_for_fifteen_minutes_since_its_last_answer():
    watch = new_watch()
    assert watch.record_state(DriverState.RUNNING, 10 * MINUTE_MS) is None
    assert watch.record_failure(OSError("down"), 25 * MINUTE_MS - 1) is None
    assert watch.record_failure(OSError("down"), 25 * MINUTE_MS) is WatchEnd.UNWATCHED


def test_a_cluster_that_never_answered_is_silent_since_the_start():
    watch = new_watch(started_ms=MINUTE_MS)
    assert watch.record_failure(OSError("down"), 16 * MINUTE_MS - 1) is None
    assert watch.record_failure(OSError("down"), 16 * MINUTE_MS) is WatchEnd.UNWATCHED


def test_the_message_of_a_failure_hides_credentials():
    watch = new_watch()
    watch.record_failure(OSError("http://user:planted@rm:8088 did not answer"), 1)
    assert "planted" not in watch.error_text and "rm:8088" in watch.error_text


def test_the_pause_doubles_with_each_failure_up_to_two_minutes_and_an_answer_resets_it():
    watch, pauses = new_watch(), []
    for _ in range(6):
        pauses.append(watch.pause_seconds(0, 0.5))
        watch.record_failure(OSError("down"), 1)
    assert pauses == [10, 20, 40, 80, 120, 120]
    watch.record_state(DriverState.RUNNING, 2)
    assert watch.pause_seconds(0, 0.5) == 10


def test_a_longer_poll_interval_is_the_longest_pause():
    watch = new_watch(poll_interval=300)
    watch.record_failure(OSError("down"), 1)
    assert watch.pause_seconds(0, 0.5) == 300


def test_pauses_are_spread_by_a_tenth_in_both_directions():
    assert [new_watch().pause_seconds(0, share) for share in (0.0, 1.0)] == pytest.approx([9, 11])


def test_a_pause_ends_at_the_deadline():
    assert new_watch(deadline_ms=4_000).pause_seconds(1_000, 0.5) == 3
    assert new_watch(deadline_ms=4_000).pause_seconds(9_000, 0.5) == 0

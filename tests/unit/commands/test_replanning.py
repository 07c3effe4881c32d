"""A command replans after some conflict errors, within a number of attempts and a time limit."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from deltalite.commands.common import replanning
from deltalite.commands.common.replanning import Rebase, replan_on_conflict
from deltalite.errors import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentModificationException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    InvalidRequestError,
    MetadataChangedException,
    ProtocolChangedException,
    SourceChangedError,
)
from deltalite.phases import Phase, PhaseRecord

CONFLICTS = [
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    MetadataChangedException,
    ProtocolChangedException,
]


class Attempts:
    """Attempts that raise each of `errors` in turn and then succeed. Each attempt advances the clock by a second.

    An error is an exception, or a class of the library's errors.
    """

    def __init__(self, *errors):
        self.remaining_errors, self.count, self.pauses = list(errors), 0, []

    def __call__(self):
        self.count += 1
        if self.remaining_errors:
            error = self.remaining_errors.pop(0)
            raise error if isinstance(error, Exception) else error("Version 7 won.", remedy="Run it again.")
        return "done"

    def run(self, retries=3, seconds=600, rebase=Rebase.REPLAN):
        return replan_on_conflict(
            self,
            rebase=rebase,
            retries=retries,
            seconds=seconds,
            pause=self.pauses.append,
            clock=lambda: float(self.count),
        )


@pytest.mark.parametrize("error", [*CONFLICTS, SourceChangedError])
def test_a_conflict_is_followed_by_another_attempt(error, caplog):
    attempts = Attempts(error, error)
    assert attempts.run() == "done" and attempts.count == 3
    assert caplog.text.count("; the new attempt starts from the beginning): ") == 2


def test_an_attempt_without_a_conflict_is_not_repeated():
    for retries in (0, 3):
        attempts = Attempts()
        assert (attempts.run(retries), attempts.count) == ("done", 1)


@pytest.mark.parametrize("error", [ConcurrentTransactionException, ConcurrentWriteException, InvalidRequestError])
def test_an_error_that_a_new_plan_cannot_solve_is_raised_at_once(error):
    attempts = Attempts(error)
    with pytest.raises(error, match="Version 7 won"):
        attempts.run()
    assert attempts.count == 1


@pytest.mark.parametrize(("retries", "seconds", "count"), [(0, 600, 1), (2, 600, 3), (9, 3, 3), (9, 0, 1)])
def test_the_last_error_names_the_number_of_attempts(retries, seconds, count):
    attempts = Attempts(*CONFLICTS, *CONFLICTS)
    with pytest.raises(ConcurrentModificationException) as caught:
        attempts.run(retries, seconds)
    assert attempts.count == count
    number = "" if count == 1 else f" The operation was planned {count} times."
    assert caught.value.problem == f"Version 7 won.{number}"
    assert caught.value.remedy == "Run it again." and type(caught.value) in CONFLICTS


@pytest.mark.parametrize("rebase", Rebase)
def test_the_log_says_whether_rows_are_computed_again(rebase, caplog):
    assert Attempts(ConcurrentAppendException).run(rebase=rebase) == "done"
    methods = {
        Rebase.REPLAN: "starts from the beginning",
        Rebase.REPLAN_AND_KEEP_ROWS: "reuses the written rows if they still fit the table",
    }
    expected_line = f"Replanning after a conflict (retry 1 of 3; the new attempt {methods[rebase]}): Version 7 won."
    assert expected_line in caplog.text


def test_the_longest_pause_doubles_up_to_five_seconds(monkeypatch):
    monkeypatch.setattr(replanning.random, "uniform", lambda _shortest, longest: longest)
    attempts = Attempts(*CONFLICTS, *CONFLICTS)
    attempts.run(retries=10)
    assert attempts.pauses == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, 5, 5, 5, 5, 5])


def test_each_pause_is_random_between_zero_and_the_longest():
    attempts = Attempts(*CONFLICTS * 4)
    attempts.run(retries=20)
    assert len(attempts.pauses) == len(set(attempts.pauses)) == 20
    assert all(0 <= pause <= min(0.1 * 2**number, 5) for number, pause in enumerate(attempts.pauses, 1))


LOST_ROWS = PySparkException(
    "[CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND] Checkpoint block rdd_7_1 not found!\nEither the executor ... SQLSTATE: 56000"
)


def test_lost_rows_are_computed_again_even_without_retries(caplog):
    attempts = Attempts(LOST_ROWS, LOST_ROWS, LOST_ROWS)
    assert (attempts.run(retries=0, seconds=0), attempts.count) == ("done", 4)
    assert "Replanning after the loss of an executor (retry 3 of 3): " in caplog.text
    assert "Checkpoint block rdd_7_1 not found!" in caplog.text


@pytest.mark.parametrize(
    ("errors", "count"), [([LOST_ROWS] * 9, 4), ([PySparkException("[DIVIDE_BY_ZERO] Division by zero.")], 1)]
)
def test_a_fourth_loss_and_other_errors_of_spark_are_raised(errors, count):
    attempts = Attempts(*errors)
    with pytest.raises(PySparkException):
        attempts.run(retries=0, seconds=0)
    assert attempts.count == count


def test_each_attempt_begins_in_the_phase_plan(monkeypatch):
    """The pause after a conflict belongs to the phase of the commit that met it."""
    record = PhaseRecord()
    monkeypatch.setattr(replanning, "PHASES", record)
    phases = []

    def attempt():
        phases.append(record.phase)
        record.begin(Phase.COMMIT)
        if len(phases) < 5:
            raise ConcurrentAppendException("Version 7 won.", remedy="Run it again.")

    def pause(_seconds):
        phases.append(record.phase)

    replan_on_conflict(attempt, rebase=Rebase.REPLAN, retries=3, seconds=600, pause=pause)
    assert phases == [Phase.PLAN, Phase.COMMIT, Phase.PLAN, Phase.COMMIT, Phase.PLAN]

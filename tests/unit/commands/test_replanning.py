"""Replanning after a conflict: the number of attempts, the time limit, and the errors that allow it."""

from __future__ import annotations

import pytest

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
)

CONTRADICTIONS = [
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    MetadataChangedException,
    ProtocolChangedException,
]


class Attempts:
    """Attempts that raise each of `errors` in turn and then succeed. The clock advances by a second with each."""

    def __init__(self, *errors):
        self.left, self.count, self.pauses = list(errors), 0, []

    def __call__(self):
        self.count += 1
        if self.left:
            raise self.left.pop(0)("Version 7 won.", remedy="Run it again.")
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


@pytest.mark.parametrize("error", CONTRADICTIONS)
def test_a_conflict_is_followed_by_another_attempt(error, caplog):
    attempts = Attempts(error, error)
    assert attempts.run() == "done" and attempts.count == 3
    assert caplog.text.count("Replanning from the beginning after a conflict") == 2


def test_an_attempt_without_a_conflict_is_not_repeated():
    assert (Attempts().run(), Attempts().run(retries=0)) == ("done", "done")


@pytest.mark.parametrize("error", [ConcurrentTransactionException, ConcurrentWriteException, InvalidRequestError])
def test_other_errors_are_raised_at_once(error):
    attempts = Attempts(error)
    with pytest.raises(error, match="Version 7 won"):
        attempts.run()
    assert attempts.count == 1


@pytest.mark.parametrize(("retries", "seconds", "count"), [(0, 600, 1), (2, 600, 3), (9, 3, 3), (9, 0, 1)])
def test_the_last_error_names_the_number_of_attempts(retries, seconds, count):
    attempts = Attempts(*CONTRADICTIONS, *CONTRADICTIONS)
    with pytest.raises(ConcurrentModificationException) as caught:
        attempts.run(retries, seconds)
    assert attempts.count == count
    assert ("planned" in caught.value.problem) is (attempts.count > 1)
    assert caught.value.remedy == "Run it again." and type(caught.value) in CONTRADICTIONS


@pytest.mark.parametrize("rebase", Rebase)
def test_the_log_says_whether_rows_are_computed_again(rebase, caplog):
    assert Attempts(ConcurrentAppendException).run(rebase=rebase) == "done"
    assert ("from the beginning after a conflict (retry 1 of 3)" in caplog.text) is (rebase is Rebase.REPLAN)


def test_pauses_grow_up_to_a_bound():
    attempts = Attempts(*CONTRADICTIONS * 4)
    attempts.run(retries=20, seconds=600)
    assert all(0 <= pause <= min(0.1 * 2**n, 5) for n, pause in enumerate(attempts.pauses, 1))
    assert len(attempts.pauses) == 20

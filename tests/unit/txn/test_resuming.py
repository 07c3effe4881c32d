"""Runs that resume an earlier commit, runs that do their work again, and runs that are rejected."""

from __future__ import annotations

import json
import logging

import pytest

from deltalite.commands.common.run_identity import transaction, user_metadata
from deltalite.errors import ConcurrentTransactionException, RerunDiffersError
from deltalite.protocol.file_names import commit_name
from deltalite.requests import OnRerun, RunIdentity, RunProvenance
from deltalite.txn.commit import Committed, CommittedByAnotherAttempt, commit
from deltalite.txn.find_run import earlier_result
from deltalite.upkeep.checkpoint import write_checkpoint
from tests.unit.builders import (
    NOON_MS,
    Clock,
    add,
    commit_actions,
    create,
    load,
    new_store,
    newest_version,
    proposal,
    txn,
)

KEY = "2026-01-01"
FIRST_START, LATER_START = "2023-11-14T00:00:00+00:00", "2023-11-16T00:00:00+00:00"


def identity(
    request="a",
    *,
    on_rerun="skip",
    generation=0,
    run="r",
    start=FIRST_START,
    index=-1,
    key=None,
    siblings=None,
    cleared=True,
    task="t",
):
    """The identity of a run. Its digests depend only on `request`."""
    details = {"dag_id": "d", "task_id": task, "run_id": run, "map_index": index, "run_start": start}
    return RunIdentity(
        app_id=f"ns/d/{task}/{index}/{run}" if key is None else f"ns/d/{key}",
        txn_version=0 if on_rerun == "skip" else generation,
        on_rerun=OnRerun(on_rerun),
        details=details if key is None else {**details, "idempotency_key": key},
        generation=generation,
        request_digest=f"1:{request}",
        parameter_digests={"mode": "same", "sources": request},
        sibling_ids=siblings,
        is_of_cleared_run=cleared,
    )


def commit_run(store, run):
    """Commit the run; returns the version."""
    base = load(store)
    text, transaction_of_run = user_metadata(run, "why"), transaction(run, base, now_ms=NOON_MS)
    return commit_actions(store, add(f"f{newest_version(store) + 1}"), transaction_of_run, user_metadata=text)


def outcome(store, run):
    """The version that the run resumes, or the text `work` if the run does its work.

    None if the run resumes a commit that a log cleanup has deleted.
    """
    result = earlier_result(load(store), "t", run)
    return "work" if result is None else result.version


@pytest.fixture
def store():
    return create(new_store())


REFUSED = "refused"
# Version 1 is the commit of request "a" in generation 1 of a DAG run. Each case has the changes of a second run, and
# its outcomes with `on_rerun` skip, write and replace.
DECISIONS = {
    # A retry has the same run and generation.
    "retry": ({}, (1, 1, 1)),
    "retry that renders another request": ({"request": "b"}, (1, 1, 1)),
    # A cleared run has the next generation.
    "clear": ({"generation": 2}, (1, "work", "work")),
    "clear of a finished run": ({"generation": 2, "start": LATER_START}, (1, "work", "work")),
    "clear with another request": ({"generation": 2, "request": "b"}, (REFUSED, "work", "work")),
    # A late task attempt has an older generation.
    "late": ({"generation": 0}, (1, 1, 1)),
    "late with another request": ({"generation": 0, "request": "b"}, (REFUSED, 1, 1)),
    # A DAG run was deleted and recreated under the same id.
    "recreated": ({"generation": 0, "start": LATER_START}, (1, 1, 1)),
    "recreated with another request": (
        {"generation": 0, "start": LATER_START, "request": "b"},
        (REFUSED, "work", "work"),
    ),
}


@pytest.mark.parametrize("key", [None, KEY])
@pytest.mark.parametrize("on_rerun", [0, 1, 2], ids=list(OnRerun))
@pytest.mark.parametrize("case", DECISIONS)
def test_a_run_that_finds_its_commit_resumes_it_or_does_its_work_or_fails(store, case, on_rerun, key):
    changes, expected = DECISIONS[case]
    policy = {"on_rerun": list(OnRerun)[on_rerun], "key": key}
    commit_run(store, identity(**{"generation": 1, **policy}))
    run = identity(**{"generation": 1, **policy, **changes})
    if expected[on_rerun] == REFUSED:
        with pytest.raises(RerunDiffersError):
            outcome(store, run)
    else:
        assert outcome(store, run) == expected[on_rerun]


@pytest.mark.parametrize(
    ("rendered_request", "on_rerun", "expected"),
    [
        ("a", "skip", 1),
        ("b", "skip", REFUSED),
        ("a", "write", "work"),
        ("b", "write", "work"),
        ("b", "replace", "work"),
    ],
)
@pytest.mark.parametrize("changes", [{"run": "next"}, {"task": "group.t"}, {"index": 4}])
def test_another_task_or_run_that_finds_the_commit_of_its_key_resumes_it_or_does_its_work_or_fails(
    store, changes, rendered_request, on_rerun, expected
):
    commit_run(store, identity(key=KEY, on_rerun=on_rerun))
    run = identity(rendered_request, key=KEY, on_rerun=on_rerun, **changes)
    if expected == REFUSED:
        with pytest.raises(RerunDiffersError):
            outcome(store, run)
    else:
        assert outcome(store, run) == expected


def test_the_error_names_both_requests_and_the_differing_parameters(store):
    commit_run(store, identity(index=2))
    with pytest.raises(RerunDiffersError) as caught:
        outcome(store, identity("b", index=2, generation=1))
    assert caught.value.problem == (
        "Nothing was written: this task has committed version 1 of t (d.t[2], run r, generation 0, request a), and its "
        "request differs now (d.t[2], run r, generation 1, request b). These parameters differ: sources."
    )
    assert "idempotency_key" in caught.value.remedy and not caught.value.retryable


def test_a_rerun_does_not_replace_another_mapped_item(store):
    commit_run(store, identity(index=0, on_rerun="replace"))
    with pytest.raises(RerunDiffersError):
        outcome(store, identity("b", index=0, on_rerun="replace", generation=1))
    assert outcome(store, identity("a", index=0, on_rerun="replace", generation=1)) == "work"
    commit_run(store, identity(index=0, on_rerun="replace", key=KEY))
    assert outcome(store, identity("b", index=0, on_rerun="replace", generation=1, key=KEY)) == "work"


def test_a_cleared_item_at_a_new_position_is_not_written_twice(store):
    for index, item in enumerate(("a", "b")):
        commit_run(store, identity(item, index=index))
    commit_run(store, identity("c", index=2, run="other"))
    siblings = ("ns/d/t/", "/r")
    with pytest.raises(
        RerunDiffersError, match=r"items of this mapped task changed their positions.* version 2 of t"
    ) as caught:
        outcome(store, identity("b", index=2, siblings=siblings))
    assert "idempotency_key" in caught.value.remedy
    assert outcome(store, identity("c", index=2, siblings=siblings)) == "work"
    assert outcome(store, identity("b", index=2, siblings=siblings, on_rerun="write")) == "work"
    never_cleared = {"index": 2, "siblings": siblings, "cleared": False}
    assert outcome(store, identity("b", **never_cleared)) == "work", "a run that was not cleared may have equal items"
    with pytest.raises(RerunDiffersError, match="items of this mapped task changed their positions"):
        outcome(store, identity("b", **never_cleared, start=LATER_START))  # the DAG run was deleted and recreated


def test_an_item_that_another_position_replaced_is_written_again(store):
    for item in "ab":
        commit_run(store, identity(item, index=1, on_rerun="replace", generation="ab".index(item)))
    commit_run(store, identity("c", index=0))
    assert outcome(store, identity("a", index=2, siblings=("ns/d/t/", "/r"), on_rerun="replace")) == "work"


def test_moved_items_are_found_by_their_keys(store):
    """The run wrote the items [a, b]. After a clear its items are [x, a, b]."""
    for index, item in enumerate(("a", "b")):
        commit_run(store, identity(item, index=index, key=item))
    outcomes = [outcome(store, identity(item, index=n, generation=n < 2, key=item)) for n, item in enumerate("xab")]
    assert outcomes == ["work", 1, 2]


def test_a_retry_finds_its_commit_below_those_of_other_runs_of_its_key(store):
    first, second = (identity(key=KEY, on_rerun="write", run=run) for run in ("one", "two"))
    commit_run(store, first)
    assert outcome(store, second) == "work"
    commit_run(store, second)
    assert (outcome(store, first), outcome(store, second)) == (1, 2)
    assert outcome(store, identity(key=KEY, on_rerun="write", run="three", start=LATER_START)) == "work"
    assert load(store).transactions[first.app_id].version == 1


def test_a_retry_with_another_request_is_a_warning(store, caplog):
    commit_run(store, identity())
    with caplog.at_level(logging.WARNING):
        outcome(store, identity())
        assert caplog.text == ""
        outcome(store, identity("b"))
    assert "this retry differs from the request of the commit" in caplog.text and "sources" in caplog.text


@pytest.mark.parametrize("digest", [None, "2:a"])
def test_a_commit_without_a_known_digest_is_resumed_with_a_warning(store, caplog, digest):
    text = json.dumps({"dag_id": "d", "run_id": "r", "generation": 0, "request": digest})
    commit_actions(store, add("f1"), txn(identity().app_id, 0), user_metadata=text)
    with caplog.at_level(logging.WARNING):
        assert outcome(store, identity("b", generation=1)) == 1
    assert "without comparing the requests" in caplog.text
    assert outcome(store, identity("b", generation=1, on_rerun="write")) == "work"
    assert outcome(store, identity("b", generation=0, on_rerun="write")) == 1


@pytest.mark.parametrize(("start", "expected"), [(FIRST_START, None), (LATER_START, "work")])
def test_the_transaction_time_of_a_cleaned_up_commit_identifies_its_run(store, start, expected):
    commit_run(store, identity(key=KEY, on_rerun="write"))
    commit_actions(store, add("f2"))
    write_checkpoint(load(store), now_ms=NOON_MS)
    for version in range(2):
        del store.files[commit_name(version)]
    assert outcome(store, identity("b", key=KEY, on_rerun="write", start=start)) == expected
    assert outcome(store, identity("b", key=KEY)) is None


@pytest.mark.parametrize(
    ("winner", "expected"),
    [
        ({}, CommittedByAnotherAttempt),
        ({"request": "b"}, CommittedByAnotherAttempt),  # a task attempt that rendered another request
        ({"generation": 1}, CommittedByAnotherAttempt),
        ({"run": "next"}, "Another run of the same idempotency key"),
        ({"run": "next", "request": "b"}, "Another run of the same idempotency key"),
        ({"generation": 1, "request": "b"}, "Another run of the same idempotency key"),
    ],
)
def test_a_racing_run_with_the_same_key_is_not_mistaken_for_another_attempt(store, winner, expected):
    def proposal_of(run, base):
        action = transaction(run, base, now_ms=NOON_MS)
        return proposal(base.version, add(f"by {run.details}"), action, user_metadata=user_metadata(run, None))

    base = load(store)
    current, winning = identity(key=KEY), identity(key=KEY, **winner)
    assert isinstance(commit(store, proposal_of(winning, base), clock_ms=Clock()), Committed)
    if isinstance(expected, str):
        with pytest.raises(ConcurrentTransactionException, match=expected):
            commit(store, proposal_of(current, base), clock_ms=Clock())
    else:
        assert isinstance(commit(store, proposal_of(current, base), clock_ms=Clock()), expected)
    assert newest_version(store) == 1


@pytest.mark.parametrize(
    "text", [None, 7, "", "why", "[1]", '{"a', '{"generation": "x", "parameters": [1], "request": 4}']
)
def test_a_provenance_of_another_writer_is_ignored(text):
    assert RunProvenance.from_text(text) == RunProvenance()
    assert not RunProvenance.from_text(text).has_comparable_digest


def test_a_provenance_is_read_back_from_the_text_of_a_commit():
    run = identity(index=3, generation=2, key=KEY)
    parsed = RunProvenance.from_text(user_metadata(run, "why"))
    assert parsed == RunProvenance.from_values(run.provenance)
    assert (parsed.map_index, parsed.generation, parsed.request_digest, parsed.idempotency_key) == (3, 2, "1:a", KEY)

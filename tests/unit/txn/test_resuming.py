"""Runs that resume an earlier commit, runs that do its work again, and runs that are rejected."""

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
from tests.unit.builders import NOON_MS, Clock, add, commit_actions, create, load, new_store, newest, proposal, txn

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
    """A run with `request`, which alone determines its digests."""
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


def committed(store, run):
    """A commit of the run, and its version."""
    base = load(store)
    text, transaction_of_run = user_metadata(run, "why"), transaction(run, base, now_ms=NOON_MS)
    return commit_actions(store, add(f"f{newest(store) + 1}"), transaction_of_run, user_metadata=text)


def outcome(store, run):
    """The text `work`, or the version that the run resumes."""
    result = earlier_result(load(store), "t", run)
    return "work" if result is None else result.version


@pytest.fixture
def store():
    return create(new_store())


REFUSED = "refused"
# The outcome of a run that finds version 1, committed by request "a" in generation 1 of a DAG run.
DECISIONS = {
    # a retry: the same run and generation
    "retry": ({}, (1, 1, 1)),
    "retry that renders another request": ({"request": "b"}, (1, 1, 1)),
    # a clear
    "clear": ({"generation": 2}, (1, "work", "work")),
    "clear of a finished run": ({"generation": 2, "start": LATER_START}, (1, "work", "work")),
    "clear with another request": ({"generation": 2, "request": "b"}, (REFUSED, "work", "work")),
    # a try of an older generation that comes late
    "late": ({"generation": 0}, (1, 1, 1)),
    "late with another request": ({"generation": 0, "request": "b"}, (REFUSED, 1, 1)),
    # a DAG run that was deleted and made again under the same id
    "made again": ({"generation": 0, "start": LATER_START}, (1, 1, 1)),
    "made again with another request": (
        {"generation": 0, "start": LATER_START, "request": "b"},
        (REFUSED, "work", "work"),
    ),
}


@pytest.mark.parametrize("key", [None, KEY])
@pytest.mark.parametrize("on_rerun", [0, 1, 2], ids=list(OnRerun))
@pytest.mark.parametrize("case", DECISIONS)
def test_a_run_that_finds_its_commit_resumes_or_works_or_fails(store, case, on_rerun, key):
    changes, expected = DECISIONS[case]
    policy = {"on_rerun": list(OnRerun)[on_rerun], "key": key}
    committed(store, identity(**{"generation": 1, **policy}))
    run = identity(**{"generation": 1, **policy, **changes})
    if expected[on_rerun] == REFUSED:
        with pytest.raises(RerunDiffersError):
            outcome(store, run)
    else:
        assert outcome(store, run) == expected[on_rerun]


@pytest.mark.parametrize(
    ("request_of_other", "on_rerun", "expected"),
    [
        ("a", "skip", 1),
        ("b", "skip", REFUSED),
        ("a", "write", "work"),
        ("b", "write", "work"),
        ("b", "replace", "work"),
    ],
)
@pytest.mark.parametrize("other", [{"run": "next"}, {"task": "group.t"}, {"index": 4}])
def test_another_task_or_run_that_finds_the_commit_of_its_key_resumes_or_works_or_fails(
    store, other, request_of_other, on_rerun, expected
):
    committed(store, identity(key=KEY, on_rerun=on_rerun))
    run = identity(request_of_other, key=KEY, on_rerun=on_rerun, **other)
    if expected == REFUSED:
        with pytest.raises(RerunDiffersError):
            outcome(store, run)
    else:
        assert outcome(store, run) == expected


def test_the_error_names_both_requests_and_the_differing_parameters(store):
    committed(store, identity(index=2))
    with pytest.raises(RerunDiffersError) as refused:
        outcome(store, identity("b", index=2, generation=1))
    assert refused.value.problem == (
        "Nothing was written: this task has committed version 1 of t (d.t[2], run r, generation 0, request a), and its "
        "request differs now (d.t[2], run r, generation 1, request b). These parameters differ: sources."
    )
    assert "idempotency_key" in refused.value.remedy and not refused.value.retryable


def test_a_rerun_does_not_replace_another_mapped_item(store):
    committed(store, identity(index=0, on_rerun="replace"))
    with pytest.raises(RerunDiffersError):
        outcome(store, identity("b", index=0, on_rerun="replace", generation=1))
    assert outcome(store, identity("a", index=0, on_rerun="replace", generation=1)) == "work"
    committed(store, identity(index=0, on_rerun="replace", key=KEY))
    assert outcome(store, identity("b", index=0, on_rerun="replace", generation=1, key=KEY)) == "work"


def test_a_cleared_item_at_a_new_position_is_not_written_twice(store):
    for index, item in enumerate(("a", "b")):
        committed(store, identity(item, index=index))
    committed(store, identity("c", index=2, run="other"))
    siblings = ("ns/d/t/", "/r")
    with pytest.raises(
        RerunDiffersError, match=r"items of this mapped task changed their positions.* version 2 of t"
    ) as refused:
        outcome(store, identity("b", index=2, siblings=siblings))
    assert "idempotency_key" in refused.value.remedy
    assert outcome(store, identity("c", index=2, siblings=siblings)) == "work"
    assert outcome(store, identity("b", index=2, siblings=siblings, on_rerun="write")) == "work"
    never_cleared = {"index": 2, "siblings": siblings, "cleared": False}
    assert outcome(store, identity("b", **never_cleared)) == "work", "a run that was not cleared may have equal items"
    with pytest.raises(RerunDiffersError, match="items of this mapped task changed their positions"):
        outcome(store, identity("b", **never_cleared, start=LATER_START))  # the DAG run was deleted and made again


def test_an_item_that_another_position_replaced_is_written_again(store):
    for item in "ab":
        committed(store, identity(item, index=1, on_rerun="replace", generation="ab".index(item)))
    committed(store, identity("c", index=0))
    assert outcome(store, identity("a", index=2, siblings=("ns/d/t/", "/r"), on_rerun="replace")) == "work"


def test_moved_items_are_found_by_their_keys(store):
    """The run wrote the items [a, b]. After a clear its items are [x, a, b]."""
    for index, item in enumerate(("a", "b")):
        committed(store, identity(item, index=index, key=item))
    outcomes = [outcome(store, identity(item, index=n, generation=n < 2, key=item)) for n, item in enumerate("xab")]
    assert outcomes == ["work", 1, 2]


def test_a_retry_finds_its_commit_below_those_of_other_runs_of_its_key(store):
    first, second = (identity(key=KEY, on_rerun="write", run=run) for run in ("one", "two"))
    committed(store, first)
    assert outcome(store, second) == "work"
    committed(store, second)
    assert (outcome(store, first), outcome(store, second)) == (1, 2)
    assert outcome(store, identity(key=KEY, on_rerun="write", run="three", start=LATER_START)) == "work"
    assert load(store).transactions[first.app_id].version == 1


def test_a_retry_with_another_request_is_a_warning(store, caplog):
    committed(store, identity())
    with caplog.at_level(logging.WARNING):
        outcome(store, identity())
        assert caplog.text == ""
        outcome(store, identity("b"))
    assert "the request of this retry differs from that of the commit" in caplog.text and "sources" in caplog.text


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
    committed(store, identity(key=KEY, on_rerun="write"))
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
        ({"request": "b"}, CommittedByAnotherAttempt),  # a try whose templates rendered something else
        ({"generation": 1}, CommittedByAnotherAttempt),
        ({"run": "next"}, "Another run of the same idempotency key"),
        ({"run": "next", "request": "b"}, "Another run of the same idempotency key"),
        ({"generation": 1, "request": "b"}, "Another run of the same idempotency key"),
    ],
)
def test_a_run_never_mistakes_a_racing_run_with_its_key_for_itself(store, winner, expected):
    def offered(run, base):
        action = transaction(run, base, now_ms=NOON_MS)
        return proposal(base.version, add(f"by {run.details}"), action, user_metadata=user_metadata(run, None))

    base = load(store)
    current, winning = identity(key=KEY), identity(key=KEY, **winner)
    assert isinstance(commit(store, offered(winning, base), clock_ms=Clock()), Committed)
    if isinstance(expected, str):
        with pytest.raises(ConcurrentTransactionException, match=expected):
            commit(store, offered(current, base), clock_ms=Clock())
    else:
        assert isinstance(commit(store, offered(current, base), clock_ms=Clock()), expected)
    assert newest(store) == 1


@pytest.mark.parametrize(
    "text", [None, 7, "", "why", "[1]", '{"a', '{"generation": "x", "parameters": [1], "request": 4}']
)
def test_a_provenance_of_another_writer_is_ignored(text):
    assert RunProvenance.from_text(text) == RunProvenance()
    assert not RunProvenance.from_text(text).has_digest


def test_a_provenance_survives_the_text_of_a_commit():
    run = identity(index=3, generation=2, key=KEY)
    read = RunProvenance.from_text(user_metadata(run, "why"))
    assert read == RunProvenance.from_values(run.provenance)
    assert (read.map_index, read.generation, read.request, read.idempotency_key) == (3, 2, "1:a", KEY)

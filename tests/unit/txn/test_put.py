"""The outcome of a commit agrees with the log if storage fails, does not answer or shows a file late."""

from __future__ import annotations

import pytest

from deltalite.errors import (
    CommitStateUnknownError,
    StorageError,
    StoragePermissionError,
    UnsupportedStorageError,
)
from deltalite.protocol.file_names import commit_name
from tests.unit.builders import (
    NOON_MS,
    add,
    add_rival,
    appended,
    create,
    load,
    new_store,
    newest,
    paths,
    proposal,
    put_raw,
    remove,
    try_commit,
)

FAULT = StorageError("The disk is gone.", remedy="Mount it.")
UNANSWERED = CommitStateUnknownError("No answer.", remedy="Look.")


@pytest.fixture
def store():
    return appended(create(new_store()), 1)


def fail_put(store, when, error=FAULT, *, reads_fail=False, always=False):
    """Let the next put, or each, fail before or after its effect. With `reads_fail`, reads of the log fail too."""
    state = {"put": False}

    def hook(operation, _name):
        if operation == "write_if_absent" and (always or not state["put"]):
            state["put"] = True
            raise error

    def reading(operation, name):
        if when == "before":
            hook(operation, name)
        if operation == "read" and state["put"] and reads_fail:
            raise FAULT

    store.before = reading
    if when == "after":
        store.after = hook


@pytest.mark.parametrize("actions", [[add("mine")], [remove("f1"), add("mine")]])
@pytest.mark.parametrize("error", [FAULT, UNANSWERED])
def test_a_put_that_landed_without_an_answer_is_a_commit(store, actions, error):
    fail_put(store, "after", error)
    outcome, _ = try_commit(store, proposal(1, *actions))
    assert outcome.version == 2 and newest(store) == 2
    assert "mine" in paths(load(store))


def test_a_put_that_landed_and_was_answered_with_a_conflict_is_a_commit(store):
    """The storage client tried twice, and the second request met the file of the first."""
    current, write_if_absent = proposal(1, remove("f1"), add("mine")), store.write_if_absent

    def twice(name, data):
        write_if_absent(name, data)
        return write_if_absent(name, data)

    store.write_if_absent = twice
    assert try_commit(store, current)[0].version == 2 and newest(store) == 2


def test_a_put_that_failed_while_another_writer_won_is_a_lost_race(store):
    def before(operation, name):
        if operation == "write_if_absent" and name == commit_name(2):
            put_raw(store, 2, [add("theirs")])
            raise FAULT

    store.before = before
    assert try_commit(store, proposal(1, add("mine")))[0].version == 3


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_put_that_failed_with_an_unreadable_log_leaves_the_state_unknown(store, when):
    fail_put(store, when, reads_fail=True, always=True)
    with pytest.raises(CommitStateUnknownError, match=r"version 2 .*The disk is gone.*could not be read") as caught:
        try_commit(store, proposal(1, add("mine")))
    assert not caught.value.retryable and caught.value.remedy


@pytest.mark.parametrize("error", [FAULT, StoragePermissionError("No.", remedy="Ask.")])
def test_a_failed_put_without_a_file_keeps_its_error(store, error):
    fail_put(store, "before", error, always=True)
    with pytest.raises(type(error)) as caught:
        try_commit(store, proposal(1, add("mine")))
    assert caught.value is error and newest(store) == 1


@pytest.mark.parametrize("error", [FAULT, UNANSWERED])
def test_a_put_that_failed_once_is_repeated(store, error):
    fail_put(store, "before", error)
    outcome, pauses = try_commit(store, proposal(1, add("mine")))
    assert (outcome.version, newest(store), pauses) == (2, 2, [0.1])


def test_a_put_without_an_answer_and_without_a_file_may_still_land(store):
    fail_put(store, "before", UNANSWERED, always=True)
    with pytest.raises(CommitStateUnknownError, match=r"version 2 .*No answer.*does not show"):
        try_commit(store, proposal(1, add("mine")))


def test_a_put_that_lands_during_its_repetition_is_one_commit(store):
    late = []

    def before(operation, name):
        if operation == "write_if_absent" and not late:
            late.append(name)
            raise UNANSWERED

    store.before, put_again = before, store.write_if_absent

    def landing(name, data):
        if late:  # the first request reaches the storage right ahead of the second
            store.files[name] = (data, NOON_MS)
        return put_again(name, data)

    store.write_if_absent = landing
    assert try_commit(store, proposal(1, remove("f1"), add("mine")))[0].version == 2 and newest(store) == 2


def show_late(store, hidden_reads):
    """Hide each new commit from its first `hidden_reads` reads."""
    remaining_reads = {}
    put_now, read_now = store.write_if_absent, store.read

    def putting(name, data):
        remaining_reads.setdefault(name, hidden_reads)
        return put_now(name, data)

    def reading(name):
        remaining_reads[name] = remaining_reads.get(name, 0) - 1
        return None if remaining_reads[name] >= 0 else read_now(name)

    store.write_if_absent, store.read = putting, reading


@pytest.mark.parametrize("hidden_reads", [1, 4])
def test_a_commit_that_storage_shows_late_is_found(store, hidden_reads):
    fail_put(store, "after")
    show_late(store, hidden_reads)
    outcome, pauses = try_commit(store, proposal(1, add("mine")))
    assert outcome.version == 2 and 0 < sum(pauses) <= 2


@pytest.mark.parametrize("hidden_reads", [1, 4])
def test_a_winner_that_storage_shows_late_is_judged(store, hidden_reads):
    add_rival(store, [add("theirs")])
    show_late(store, hidden_reads)
    assert try_commit(store, proposal(1, add("mine")))[0].version == 3


def test_a_taken_name_that_storage_never_shows_leaves_the_state_unknown(store):
    add_rival(store, [add("theirs")])
    show_late(store, 1000)
    with pytest.raises(CommitStateUnknownError, match=r"version 2 .* the version exists, and storage does not show"):
        try_commit(store, proposal(1, add("mine")))


def test_a_storage_failure_after_the_winner_is_known_raises_the_storage_error(store):
    """The commit is not in the log: its name belongs to another writer."""
    add_rival(store, [add("theirs")])

    def failing(operation, name):
        if operation == "read" and name == commit_name(3):
            raise FAULT

    first = store.before
    store.before = lambda *access: (first(*access), failing(*access))
    with pytest.raises(StorageError) as caught:
        try_commit(store, proposal(1, add("mine")))
    assert caught.value is FAULT


@pytest.mark.parametrize("actions", [[add("mine")], [remove("f1"), add("mine")]])
def test_a_taken_name_that_cannot_be_read_leaves_the_state_unknown(store, actions):
    write_if_absent = store.write_if_absent

    def twice(name, data):
        write_if_absent(name, data)
        store.before = unreadable
        return write_if_absent(name, data)

    def unreadable(operation, _name):
        if operation == "read":
            raise FAULT

    store.write_if_absent = twice
    with pytest.raises(CommitStateUnknownError, match=r"version 2 .* the version exists, .*The disk is gone") as caught:
        try_commit(store, proposal(1, *actions))
    assert not caught.value.retryable and "mine" in paths(load_again(store))


def load_again(store):
    store.before = lambda *_: None
    return load(store)


def test_a_put_to_unsupported_storage_is_not_repeated(store):
    fail_put(store, "before", UnsupportedStorageError("No links.", remedy="Move."), reads_fail=True)
    with pytest.raises(UnsupportedStorageError):
        try_commit(store, proposal(1, add("mine")))

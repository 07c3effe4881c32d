"""The outcome of a commit agrees with the log if storage fails, does not answer or shows a file late."""

from __future__ import annotations

import pytest

from deltalite.errors import (
    CommitStateUnknownError,
    ConcurrentDeleteDeleteException,
    StorageError,
    StoragePermissionError,
    UnsupportedStorageError,
)
from deltalite.protocol.file_names import commit_name
from deltalite.txn.put import put_commit
from tests.unit.builders import (
    NOON_MS,
    add,
    add_rival,
    append_files,
    create,
    load,
    new_store,
    newest_version,
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
    return append_files(create(new_store()), 1)


def fail_put(store, when, error=FAULT, *, reads_fail=False, always=False):
    """Let the next put fail "before" or "after" its effect. With `always`, every put fails.

    With `reads_fail`, reads of the log fail after the first put.
    """
    state = {"has_failed": False}

    def fail_at_put(operation, _name):
        if operation == "write_if_absent" and (always or not state["has_failed"]):
            state["has_failed"] = True
            raise error

    def fail_at_put_or_read(operation, name):
        if when == "before":
            fail_at_put(operation, name)
        if operation == "read" and state["has_failed"] and reads_fail:
            raise FAULT

    store.before = fail_at_put_or_read
    if when == "after":
        store.after = fail_at_put


@pytest.mark.parametrize("actions", [[add("mine")], [remove("f1"), add("mine")]])
@pytest.mark.parametrize("error", [FAULT, UNANSWERED])
def test_a_put_that_took_effect_without_an_answer_is_a_commit(store, actions, error):
    fail_put(store, "after", error)
    outcome, _ = try_commit(store, proposal(1, *actions))
    assert outcome.version == 2 and newest_version(store) == 2
    assert "mine" in paths(load(store))


def test_a_put_that_took_effect_and_was_answered_with_a_conflict_is_a_commit(store):
    """The storage client sends the put twice, and the second request finds the file of the first."""
    current, write_if_absent = proposal(1, remove("f1"), add("mine")), store.write_if_absent

    def put_twice(name, data):
        write_if_absent(name, data)
        return write_if_absent(name, data)

    store.write_if_absent = put_twice
    assert try_commit(store, current)[0].version == 2 and newest_version(store) == 2


def test_a_put_that_failed_while_another_writer_won_is_a_lost_race(store):
    def let_rival_win(operation, name):
        if operation == "write_if_absent" and name == commit_name(2):
            put_raw(store, 2, [add("theirs")])
            raise FAULT

    store.before = let_rival_win
    assert try_commit(store, proposal(1, add("mine")))[0].version == 3


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_put_that_failed_with_an_unreadable_log_leaves_the_state_unknown(store, when):
    fail_put(store, when, reads_fail=True, always=True)
    with pytest.raises(CommitStateUnknownError, match=r"version 2 .*The disk is gone.*could not be read") as caught:
        try_commit(store, proposal(1, add("mine")))
    assert not caught.value.retryable and caught.value.remedy


@pytest.mark.parametrize("error", [FAULT, StoragePermissionError("No.", remedy="Ask.")])
def test_a_failed_put_that_wrote_no_file_raises_its_error(store, error):
    fail_put(store, "before", error, always=True)
    with pytest.raises(type(error)) as caught:
        try_commit(store, proposal(1, add("mine")))
    assert caught.value is error and newest_version(store) == 1


@pytest.mark.parametrize("error", [FAULT, UNANSWERED])
def test_a_put_that_failed_once_is_repeated(store, error):
    fail_put(store, "before", error)
    outcome, pauses = try_commit(store, proposal(1, add("mine")))
    assert (outcome.version, newest_version(store), pauses) == (2, 2, [0.1])


def test_the_pauses_between_the_puts_of_a_throttled_commit_grow_and_end_after_two_seconds(store):
    throttling = StorageError("503 Slow Down.", remedy="Wait.")
    puts, pauses = [], []

    def reject_put(operation, name):
        if operation == "write_if_absent":
            puts.append(name)
            raise throttling

    store.before = reject_put
    with pytest.raises(StorageError) as caught:
        put_commit(store, 2, b"{}", pause=pauses.append)
    assert caught.value is throttling
    assert (len(puts), pauses) == (4, [0.1, 0.3, 0.6, 1.0])


def test_a_put_without_an_answer_and_without_a_file_leaves_the_state_unknown(store):
    fail_put(store, "before", UNANSWERED, always=True)
    with pytest.raises(CommitStateUnknownError, match=r"version 2 .*No answer.*does not show"):
        try_commit(store, proposal(1, add("mine")))


def test_a_put_that_takes_effect_during_its_repetition_is_one_commit(store):
    delayed_puts = []

    def delay_first_put(operation, name):
        if operation == "write_if_absent" and not delayed_puts:
            delayed_puts.append(name)
            raise UNANSWERED

    store.before, write_if_absent = delay_first_put, store.write_if_absent

    def put_after_delayed_put(name, data):
        if delayed_puts:  # the first request reaches the storage right before the second
            store.files[name] = (data, NOON_MS)
        return write_if_absent(name, data)

    store.write_if_absent = put_after_delayed_put
    assert try_commit(store, proposal(1, remove("f1"), add("mine")))[0].version == 2 and newest_version(store) == 2


def show_late(store, hidden_reads):
    """Hide each new commit from its first `hidden_reads` reads."""
    remaining_reads = {}
    write_if_absent, read = store.write_if_absent, store.read

    def put_hidden(name, data):
        remaining_reads.setdefault(name, hidden_reads)
        return write_if_absent(name, data)

    def read_if_shown(name):
        remaining_reads[name] = remaining_reads.get(name, 0) - 1
        return None if remaining_reads[name] >= 0 else read(name)

    store.write_if_absent, store.read = put_hidden, read_if_shown


@pytest.mark.parametrize("hidden_reads", [1, 4])
def test_a_commit_that_storage_shows_late_is_found(store, hidden_reads):
    fail_put(store, "after")
    show_late(store, hidden_reads)
    outcome, pauses = try_commit(store, proposal(1, add("mine")))
    assert outcome.version == 2 and 0 < sum(pauses) <= 2


@pytest.mark.parametrize("hidden_reads", [1, 4])
def test_a_writer_waits_for_a_winning_commit_that_storage_shows_late(store, hidden_reads):
    add_rival(store, [add("theirs")])
    show_late(store, hidden_reads)
    assert try_commit(store, proposal(1, add("mine")))[0].version == 3


def test_a_taken_name_that_storage_never_shows_leaves_the_state_unknown(store):
    add_rival(store, [add("theirs")])
    show_late(store, 1000)
    with pytest.raises(CommitStateUnknownError, match=r"version 2 .* the version exists, and storage does not show"):
        try_commit(store, proposal(1, add("mine")))


def test_a_storage_failure_after_the_winning_commit_is_known_raises_the_storage_error(store):
    """The commit is not in the log, because another writer has committed the version."""
    add_rival(store, [add("theirs")])

    def fail_read_of_version_3(operation, name):
        if operation == "read" and name == commit_name(3):
            raise FAULT

    put_rival_commit = store.before
    store.before = lambda *access: (put_rival_commit(*access), fail_read_of_version_3(*access))
    with pytest.raises(StorageError) as caught:
        try_commit(store, proposal(1, add("mine")))
    assert caught.value is FAULT


@pytest.mark.parametrize("actions", [[add("mine")], [remove("f1"), add("mine")]])
def test_a_taken_name_that_cannot_be_read_leaves_the_state_unknown(store, actions):
    write_if_absent = store.write_if_absent

    def put_twice(name, data):
        write_if_absent(name, data)
        store.before = fail_reads
        return write_if_absent(name, data)

    def fail_reads(operation, _name):
        if operation == "read":
            raise FAULT

    store.write_if_absent = put_twice
    with pytest.raises(CommitStateUnknownError, match=r"version 2 .* the version exists, .*The disk is gone") as caught:
        try_commit(store, proposal(1, *actions))
    assert not caught.value.retryable and "mine" in paths(load_without_faults(store))


def load_without_faults(store):
    store.before = lambda *_: None
    return load(store)


def test_a_put_to_unsupported_storage_is_not_repeated(store):
    fail_put(store, "before", UnsupportedStorageError("No links.", remedy="Move."), reads_fail=True)
    with pytest.raises(UnsupportedStorageError):
        try_commit(store, proposal(1, add("mine")))


class SlowContent:
    """Makes a storage show a name before its content: the first reads of each file return no bytes."""

    def __init__(self, store, empty_reads):
        self._read, self._empty_reads, self._reads = store.read, empty_reads, {}
        store.read = self

    def __call__(self, name):
        self._reads[name] = self._reads.get(name, 0) + 1
        return b"" if self._read(name) is not None and self._reads[name] <= self._empty_reads else self._read(name)


def test_a_writer_waits_for_the_content_of_the_winning_commit(store):
    put_raw(store, 2, [remove("f1")])
    SlowContent(store, empty_reads=3)
    with pytest.raises(ConcurrentDeleteDeleteException):
        try_commit(store, proposal(1, remove("f1"), add("mine")))


def test_a_commit_after_a_winning_commit_without_content_has_an_unknown_outcome(store):
    put_raw(store, 2, [remove("f1")])
    SlowContent(store, empty_reads=99)
    with pytest.raises(CommitStateUnknownError, match=r"version 2 .* storage does not show it"):
        try_commit(store, proposal(1, add("mine")))

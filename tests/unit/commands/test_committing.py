"""The requests that a commit sends to the storage, and the checksum that it derives without a read of the log."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from deltalite.commands.common.committing import commit_proposal
from deltalite.errors import ConcurrentWriteException
from deltalite.protocol.file_names import checksum_name, commit_name
from deltalite.requests import DeleteRequest
from deltalite.snapshot import Snapshot
from deltalite.txn import commit as commit_module
from deltalite.txn.proposal import BaseState
from tests.unit.builders import add, append_files, create, new_store, proposal, remove

REQUEST = DeleteRequest(table="/t", condition="true")


def commit(store, *actions, on):
    """Commit actions on the snapshot `on`, with the upkeep, and return the result and the requests to the store."""
    requests = []
    store.before = lambda operation, name: requests.append((operation, name))
    proposed = replace(proposal(on.version, *actions), base=BaseState.of(on))
    result = commit_proposal(None, REQUEST, store, proposed)
    store.before = lambda _operation, _name: None
    return result, requests


@pytest.fixture
def store():
    """A store with a table of two versions, of which the newer one has a checksum."""
    store = create(new_store(), add("a"))
    commit(store, add("b", size_bytes=7), on=loaded(store))
    assert checksum_name(1) in store.files
    return store


def loaded(store):
    """The newest snapshot, as a command loads it: with a replayed log."""
    snapshot = Snapshot.load(store)
    snapshot.check_log()
    return snapshot


def counts(store, version):
    checksum = json.loads(store.files[checksum_name(version)][0])
    return {name: checksum.get(name) for name in ("numFiles", "tableSizeBytes")}


def test_a_commit_on_a_version_with_a_checksum_sends_three_requests(store):
    result, requests = commit(store, add("c", size_bytes=5), remove("b", size_bytes=7), on=loaded(store))
    assert requests == [
        ("open", commit_name(1)),  # the log still holds the commit that the command read
        ("write_if_absent", commit_name(2)),
        ("write_if_absent", checksum_name(2)),
    ]
    files = Snapshot.load(store).files
    assert counts(store, 2)["numFiles"] == files.num_rows == 2
    assert counts(store, 2)["tableSizeBytes"] == sum(files["size"].to_pylist()) == 15
    assert result.version == 2


def test_a_commit_after_a_lost_race_derives_its_checksum_from_the_log(store):
    base = loaded(store)
    append_files(store, 1)
    result, requests = commit(store, add("c"), on=base)
    assert result.version == 3 and any(operation == "list" for operation, _ in requests)
    assert counts(store, 3)["numFiles"] == Snapshot.load(store).files.num_rows == 4


def test_the_checksum_of_a_large_commit_is_derived_from_the_log(store, monkeypatch):
    monkeypatch.setattr(commit_module, "_LARGEST_KEPT_BYTES", 0)
    _, requests = commit(store, add("c"), on=loaded(store))
    assert "list" in [operation for operation, _ in requests]
    assert counts(store, 2)["numFiles"] == 3


def test_a_commit_to_a_table_that_was_recreated_at_the_same_version_is_refused(store):
    base = loaded(store)
    store.files.clear()
    create(store, add("x"))
    commit(store, add("y"), on=loaded(store))
    with pytest.raises(ConcurrentWriteException, match="dropped or recreated"):
        commit(store, add("c"), on=base)
    assert Snapshot.load(store).version == 1


def test_the_next_checksum_is_not_derived_from_that_of_another_writer(store):
    foreign = json.loads(store.files[checksum_name(1)][0]) | {"numFiles": 9, "txnId": "of another writer"}
    store.files[checksum_name(1)] = (json.dumps(foreign).encode(), 0)
    commit(store, add("c"), on=loaded(store))
    assert counts(store, 2)["numFiles"] == Snapshot.load(store).files.num_rows == 3

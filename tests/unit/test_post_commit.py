"""After the commit nothing may fail it: a checkpoint is made when it is due, or a warning says why not."""

from __future__ import annotations

import logging

import pytest

from deltalite.errors import StorageError
from deltalite.log.last_checkpoint import read_last_checkpoint
from deltalite.protocol.file_names import checkpoint_name
from deltalite.upkeep.post_commit import after_commit
from tests.unit.builders import NOON_MS, add, appended, create, new_store, put_raw


def checkpoints(store):
    return [v for v in range(60) if checkpoint_name(v) in store.files]


@pytest.mark.parametrize(
    ("configuration", "made"), [({}, [10, 20]), ({"delta.checkpointInterval": "4"}, [4, 8, 12, 16, 20])]
)
def test_every_interval_has_a_checkpoint_and_version_0_has_none(configuration, made):
    store = create(new_store(), configuration=configuration)
    after_commit(store, 0)
    for version in range(1, 22):
        appended(store, 1)
        after_commit(store, version, clock_ms=lambda: NOON_MS)
    assert checkpoints(store) == made
    assert read_last_checkpoint(store).version == 20


def test_the_checkpoint_is_of_the_version_that_was_committed_whatever_came_after():
    store = appended(create(new_store()), 11)
    after_commit(store, 10)
    assert checkpoints(store) == [10]


@pytest.mark.parametrize("fault", [StorageError("The disk is full.", remedy="Make room."), MemoryError("no memory")])
@pytest.mark.parametrize("operation", ["list", "read", "write_if_absent", "write"])
def test_a_checkpoint_that_fails_only_warns(caplog, fault, operation):
    store = appended(create(new_store()), 10)

    def before(asked, _name):
        if asked == operation:
            raise fault

    store.before = before
    with caplog.at_level(logging.WARNING):
        after_commit(store, 10)
    assert caplog.records
    for record in caplog.records:
        assert "version 10" in record.getMessage() and "the commit stands" in record.getMessage()
        assert record.exc_info[1] is fault


def test_a_log_that_cannot_be_replayed_or_a_wrong_interval_only_warns(caplog):
    store = create(new_store(), configuration={"delta.checkpointInterval": "often"})
    put_raw(store, 1, b"{")
    after_commit(store, 1)
    put_raw(store, 1, [add("a")])
    after_commit(store, 1)
    assert len(caplog.records) == 2 and not checkpoints(store)

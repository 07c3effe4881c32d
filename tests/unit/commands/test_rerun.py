"""The error of a run that cannot replace its earlier files names the version that rewrote a file."""

from __future__ import annotations

import pytest

from deltalite.commands.write.rerun import files_of_earlier_run
from deltalite.errors import RerunRefusedError
from deltalite.protocol.file_names import commit_name
from deltalite.requests import RunIdentity
from tests.unit.builders import (
    RequestLog,
    add,
    append_files,
    commit_actions,
    commit_info,
    create,
    load,
    new_store,
    put_raw,
    remove,
    txn,
)

APP_ID = "ns/dag/task/-1/run"


@pytest.fixture
def store():
    """Version 1 is the commit of the run. Commit 3 has a long line, and then rewrites one of the two files."""
    store = create(new_store())
    commit_actions(store, add("mine"), add("mine too"), txn(APP_ID, 0))
    append_files(store, 1)
    put_raw(store, 3, [commit_info(more="X" * 1_100_000), add("new"), remove("mine"), remove("other")])
    return append_files(store, 1)


def test_the_version_that_rewrote_a_file_is_found_in_bounded_memory(store, monkeypatch):
    base = load(store)
    assert base.files.num_rows == 4
    read, requests = store.read, RequestLog(store)
    monkeypatch.setattr(store, "read", lambda name: pytest.fail(name) if name == commit_name(3) else read(name))
    with pytest.raises(
        RerunRefusedError, match=r"version 1 of .* version 3 has rewritten or removed 1 of their 2 files"
    ):
        files_of_earlier_run(base, RunIdentity(app_id=APP_ID))
    assert ("open", commit_name(3).rpartition("/")[2]) in requests.accesses


def test_the_error_says_that_the_rewriting_commit_is_no_longer_in_the_log(store):
    base = load(store)
    assert base.files.num_rows == 4
    del store.files[commit_name(3)]
    with pytest.raises(RerunRefusedError, match=r"a version that is no longer in the log has rewritten or removed"):
        files_of_earlier_run(base, RunIdentity(app_id=APP_ID))

"""A poll asks for the next commit by its name, and a condition looks at one commit alone."""

from __future__ import annotations

import json

import pytest

from deltalite.conditions import CommitCondition
from deltalite.errors import CorruptLogError, InvalidRequestError
from deltalite.log import action_files
from deltalite.protocol.actions import AddCDCFile, to_json
from deltalite.protocol.file_names import commit_name
from deltalite.upkeep.checkpoint import write_checkpoint
from deltalite.watch import PollResult, latest_version, poll, summarize, version_at
from tests.unit.builders import (
    NOON_MS,
    Requests,
    add,
    appended,
    create,
    info,
    load,
    metadata,
    new_store,
    put_raw,
    remove,
    txn,
)

ANY = CommitCondition(data_change_only=False)


HINT = ("read", "_last_checkpoint")


def commit_file(version):
    return ("open", f"{version:020d}.json")


@pytest.mark.parametrize("length", [1, 30])
def test_a_poll_that_sees_nothing_is_two_requests_whatever_the_length_of_the_log(length):
    store = appended(create(new_store()), length)
    write_checkpoint(load(store), now_ms=NOON_MS)
    requests = Requests(store)
    assert poll(store, length, ANY) == PollResult(cursor=length, match=None)
    assert requests.seen == [commit_file(length + 1), HINT]


def test_a_poll_reads_the_new_commits_up_to_the_first_that_counts():
    store = appended(create(new_store()), 5)
    requests = Requests(store)
    found = poll(store, 1, ANY)
    assert (found.cursor, found.match.version) == (2, 2)
    assert requests.seen == [commit_file(2)]
    requests.seen.clear()
    missed = poll(store, 1, CommitCondition(app_id="nobody"))
    assert missed == PollResult(cursor=5, match=None)
    assert requests.seen == [*(commit_file(v) for v in (2, 3, 4, 5, 6)), HINT]


def test_a_table_that_does_not_exist_yet_is_waited_for():
    store = new_store()
    requests = Requests(store)
    assert latest_version(store) == -1 and version_at(store, NOON_MS) == -1
    requests.seen.clear()
    assert poll(store, -1, ANY) == PollResult(cursor=-1, match=None)
    assert requests.seen == [commit_file(0), HINT]
    create(store, add("a"))
    assert latest_version(store) == 0
    assert poll(store, -1, ANY).match.version == 0


def test_a_cleaned_log_is_waited_on_behind_what_is_gone():
    store = appended(create(new_store()), 5)
    write_checkpoint(load(store), now_ms=NOON_MS)
    for version in range(4):
        store.delete(commit_name(version))
    assert poll(store, -1, ANY).match.version == 4
    assert poll(store, 1, CommitCondition(app_id="nobody")) == PollResult(cursor=5, match=None)


def test_a_corrupt_commit_is_an_error_and_not_silence():
    store = create(new_store())
    put_raw(store, 1, b'{"add"')
    with pytest.raises(CorruptLogError, match=f"{1:020d}.json"):
        poll(store, 0, ANY)


def test_a_large_commit_is_looked_at_in_blocks_and_each_of_its_partitions_is_kept_once(monkeypatch):
    monkeypatch.setattr(action_files, "_BLOCK_BYTES", 500)
    store = create(new_store())
    put_raw(store, 1, [*(add(f"f{n}", partition_values={"day": str(n % 3)}) for n in range(99)), txn("run")])
    requests = Requests(store)
    found = poll(store, 0, CommitCondition(app_id="run")).match
    assert found.partitions == tuple({"day": day} for day in "012")
    assert requests.seen == [commit_file(1)]


def test_the_version_at_a_moment_is_the_newest_that_was_there():
    store = appended(create(new_store()), 2)
    for version, modified_ms in enumerate([5000, 7000, 6000]):
        store.files[commit_name(version)] = (store.files[commit_name(version)][0], modified_ms)
    assert [version_at(store, ms) for ms in (4999, 5000, 7000, 7001, 10**15)] == [-1, 0, 1, 2, 2]


APPEND = [info(operation="WRITE", timestamp=5), add("a", partition_values={"day": "1", "c": None}), txn("run")]
DELETE = [info(operation="DELETE"), remove("a", partition_values={"day": "2"})]
OPTIMIZE = [info(operation="OPTIMIZE"), remove("a", data_change=False), add("b", data_change=False)]
PROPERTIES = [info(operation="SET TBLPROPERTIES"), metadata({"k": "v"})]
NO_ROWS = [info(operation="WRITE"), txn("quiet")]
CHANGES = [AddCDCFile(path="_change_data/c", partition_values={"day": "3"}, size_bytes=1, data_change=False), add("b")]
COMMITS = {"append": APPEND, "delete": DELETE, "optimize": OPTIMIZE, "properties": PROPERTIES, "changes": CHANGES}
COMMITS["no rows"] = NO_ROWS


@pytest.mark.parametrize(
    ("condition", "holds_for"),
    [
        ({}, {"append", "delete", "changes"}),
        ({"data_change_only": False}, set(COMMITS)),
        ({"data_change_only": True}, {"append", "delete", "changes"}),
        ({"operations": ["write", "DELETE"]}, {"append", "delete", "no rows"}),
        ({"operations": ["write", "DELETE"], "data_change_only": True}, {"append", "delete"}),
        ({"operations": ["optimize"]}, {"optimize"}),
        ({"operations": ["OPTIMIZE"], "data_change_only": True}, set()),
        ({"operations": ["OPTIMIZE"], "data_change_only": False}, {"optimize"}),
        ({"operations": []}, set()),
        ({"app_id": "run"}, {"append"}),
        ({"app_id": "quiet"}, {"no rows"}),
        ({"app_id": "quiet", "data_change_only": True}, set()),
        ({"app_id": "another"}, set()),
        ({"app_id": "run", "operations": ["DELETE"]}, set()),
        ({"partition": {"day": "1"}}, {"append"}),
        ({"partition": {"day": "1", "c": None}}, {"append"}),
        ({"partition": {"DAY": "1", "C": None}}, {"append"}),
        ({"partition": {"day": "1", "c": "x"}}, set()),
        ({"partition": {"day": "2"}}, {"delete"}),
        ({"partition": {"day": "3"}}, {"changes"}),
        ({"partition": {"month": None}}, set()),
        ({"partition": {}}, {"append", "delete", "changes"}),
    ],
    ids=str,
)
def test_all_that_is_given_must_hold(condition, holds_for):
    wanted = CommitCondition(**condition)
    held = set()
    for name, actions in COMMITS.items():
        store = create(new_store())
        put_raw(store, 1, actions)
        if poll(store, 0, wanted).match:
            held.add(name)
    assert held == holds_for
    assert CommitCondition.from_dict(json.loads(json.dumps(wanted.as_dict()))) == wanted


def test_one_text_is_not_a_list_of_operations():
    with pytest.raises(InvalidRequestError, match="'WRITE'"):
        CommitCondition(operations="WRITE")


@pytest.mark.parametrize("timestamp", [None, "soon", 1.5, {}])
def test_a_commit_without_a_usable_time_or_provenance_is_a_commit(timestamp):
    summary = summarize(3, [("commitInfo", {"timestamp": timestamp, "operation": "X"})])
    assert (summary.timestamp_ms, summary.operation) == (0, "X")
    assert summarize(3, []).operation is None


def test_the_first_provenance_counts_and_a_file_of_changed_rows_is_no_change_of_the_data_by_itself():
    recorded = to_json(AddCDCFile(path="c", partition_values={}, size_bytes=1, data_change=True))
    summary = summarize(3, [("commitInfo", {"operation": "A"}), ("cdc", recorded), ("commitInfo", {"operation": "B"})])
    assert (summary.operation, summary.data_changed) == ("A", False)

"""A poll requests the next commit by its name, and a condition tests a single commit."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from deltalite import watch
from deltalite.conditions import CommitCondition, LogPosition
from deltalite.errors import CorruptLogError, InvalidRequestError
from deltalite.log import bounded_actions, following
from deltalite.markers import parse_marker, result_marker
from deltalite.protocol.actions import AddCDCFile, to_json
from deltalite.protocol.file_names import LAST_CHECKPOINT, commit_name
from deltalite.requests import RunIdentity, Source, WriteRequest
from deltalite.results import OperationResult
from deltalite.txn.flows import FlowId
from deltalite.upkeep.checkpoint import write_checkpoint
from deltalite.watch import PollResult, follow, latest_version, poll, position_at, summarize, table_id, version_at
from tests.unit.builders import (
    NOON_MS,
    RequestLog,
    add,
    append_files,
    commit_actions,
    commit_info,
    create,
    load,
    metadata,
    new_store,
    put_raw,
    remove,
    txn,
)

ANY_COMMIT = CommitCondition(data_change_only=False)


LISTING = ("list", f"{0:020d}")


def read_of_commit(version):
    return ("read_start", f"{version:020d}.json")


@pytest.mark.parametrize(
    ("operation", "escaped"), [("W\ud800", "W\\ud800"), ("\0W", "\\x00W"), ("Größe \U0001f600", "Größe \U0001f600")]
)
def test_a_summary_has_only_texts_and_numbers_that_airflow_can_encode(operation, escaped):
    store = create(new_store())
    put_raw(store, 1, [commit_info(operation=operation, timestamp=10**23), metadata(id=operation)])
    (step,) = follow(store, position_at(store, 0))
    assert (step.summary.operation, step.summary.timestamp_ms, step.summary.table_id) == (escaped, 0, escaped)
    assert table_id(store) == escaped


@pytest.mark.parametrize("length", [1, 30])
def test_an_empty_poll_takes_two_requests_for_a_log_of_any_length(length):
    store = append_files(create(new_store()), length)
    write_checkpoint(load(store), now_ms=NOON_MS)
    position = position_at(store, length)
    requests = RequestLog(store)
    assert poll(store, position, ANY_COMMIT) == PollResult(position=position, match=None)
    assert requests.accesses == [read_of_commit(length + 1), read_of_commit(length)]


@pytest.mark.parametrize("commit_digest", [None, ""], ids=["not read yet", "not in the log"])
def test_a_poll_for_a_future_version_takes_two_requests_and_a_third_only_when_the_version_appears(commit_digest):
    store = append_files(create(new_store()), 3)
    position = LogPosition(version=4, commit_digest=commit_digest)
    requests = RequestLog(store)
    assert poll(store, position, ANY_COMMIT) == PollResult(position=position, match=None)
    assert requests.accesses == [read_of_commit(5), ("list", f"{4:020d}")]
    append_files(store, 1)
    requests.accesses.clear()
    position_with_digest = poll(store, position, ANY_COMMIT).position
    assert requests.accesses == [read_of_commit(5), ("list", f"{4:020d}"), read_of_commit(4)]
    assert position_with_digest == position_at(store, 4)
    requests.accesses.clear()
    assert poll(store, position_with_digest, ANY_COMMIT).position == position_with_digest
    assert requests.accesses == [read_of_commit(5), read_of_commit(4)]


def test_a_poll_for_a_future_version_restarts_at_the_beginning_of_a_recreated_table():
    store = append_files(create(new_store()), 3)
    position = poll(store, LogPosition(version=4, commit_digest=""), ANY_COMMIT).position
    append_files(store, 1)
    position = poll(store, position, ANY_COMMIT).position
    recreate(store, 6)
    assert poll(store, position, ANY_COMMIT).match.version == 0


def test_the_first_empty_poll_adds_the_commit_digest_of_a_given_version():
    store = append_files(create(new_store()), 3)
    assert poll(store, LogPosition(version=3), ANY_COMMIT).position == position_at(store, 3)


def test_a_poll_reads_the_new_commits_up_to_the_first_match():
    store = append_files(create(new_store()), 5)
    requests = RequestLog(store)
    result = poll(store, LogPosition(version=1), ANY_COMMIT)
    assert (result.position.version, result.match.version) == (2, 2)
    assert requests.accesses == [read_of_commit(2)]
    requests.accesses.clear()
    no_match = poll(store, LogPosition(version=1), CommitCondition(app_id="nobody"))
    assert no_match == PollResult(position=position_at(store, 5), match=None)
    assert requests.accesses[:5] == [read_of_commit(v) for v in (2, 3, 4, 5, 6)]


def test_a_poll_of_a_missing_table_finds_nothing():
    store = new_store()
    requests = RequestLog(store)
    assert latest_version(store) == -1 and version_at(store, NOON_MS) == -1
    requests.accesses.clear()
    assert poll(store, LogPosition(version=-1), ANY_COMMIT) == PollResult(position=LogPosition(version=-1), match=None)
    assert requests.accesses == [read_of_commit(0), LISTING]
    create(store, add("a"))
    assert latest_version(store) == 0
    assert poll(store, LogPosition(version=-1), ANY_COMMIT).match.version == 0


@pytest.mark.parametrize("hint", ["as it is", None, b"{torn"], ids=["hint", "no hint", "a torn hint"])
@pytest.mark.parametrize(
    "position",
    [
        LogPosition(version=-1),
        LogPosition(version=1),
        LogPosition(version=1, commit_digest=""),
        LogPosition(version=1, commit_digest="seen once"),
    ],
    ids=str,
)
def test_a_poll_continues_after_the_cleaned_up_commits(position, hint):
    store = append_files(create(new_store()), 5)
    write_checkpoint(load(store), now_ms=NOON_MS)
    for version in range(4):
        store.delete(commit_name(version))
    if hint is None:
        store.delete(LAST_CHECKPOINT)
    elif isinstance(hint, bytes):
        store.write(LAST_CHECKPOINT, hint)
    assert poll(store, position, ANY_COMMIT).match.version == 4
    assert poll(store, position, CommitCondition(app_id="nobody")) == PollResult(
        position=position_at(store, 5), match=None
    )


def recreate(store, last_version):
    store.files.clear()
    return append_files(create(store, add("new")), last_version)


@pytest.mark.parametrize("last_version", [0, 3, 5, 9], ids="up to version {}".format)
def test_a_poll_restarts_at_the_beginning_of_a_recreated_table(last_version):
    store = append_files(create(new_store()), 5)
    position = position_at(store, 5)
    recreate(store, last_version)
    result = poll(store, position, ANY_COMMIT)
    assert result.match.version == 0 and result.position.recreated
    result_at_end = poll(store, result.position, CommitCondition(app_id="nobody"))
    assert result_at_end.position == replace(position_at(store, last_version), recreated=True)


def test_a_poll_of_a_deleted_table_keeps_its_position():
    store = append_files(create(new_store()), 5)
    position, files_before = position_at(store, 5), dict(store.files)
    store.files.clear()
    assert poll(store, position, ANY_COMMIT) == PollResult(position=position, match=None)
    store.files.update(files_before)  # the storage shows the table again
    assert poll(store, position, ANY_COMMIT) == PollResult(position=position, match=None)
    recreate(store, 0)
    assert poll(store, position, ANY_COMMIT).match.version == 0


def test_a_table_that_has_not_yet_reached_the_position_is_not_a_recreated_table():
    store = append_files(create(new_store()), 2)
    position = poll(store, LogPosition(version=5), ANY_COMMIT).position
    assert poll(store, position, ANY_COMMIT).match is None
    append_files(store, 4)
    assert poll(store, position, ANY_COMMIT).match.version == 6


def test_a_corrupt_commit_raises_an_error():
    store = create(new_store())
    put_raw(store, 1, b'{"add"')
    with pytest.raises(CorruptLogError, match=f"{1:020d}.json"):
        poll(store, LogPosition(version=0), ANY_COMMIT)


def test_a_large_commit_is_read_in_blocks_and_its_partitions_are_distinct(monkeypatch):
    monkeypatch.setattr(bounded_actions, "_CHUNK_BYTES", 500)
    monkeypatch.setattr(following, "_START_BYTES", 400)
    store = create(new_store())
    put_raw(store, 1, [*(add(f"f{n}", partition_values={"day": str(n % 3)}) for n in range(99)), txn("run")])
    requests = RequestLog(store)
    (step,) = follow(store, LogPosition(version=0))
    assert step.summary.partitions == tuple({"day": day} for day in "012")
    assert requests.accesses == [read_of_commit(1), ("open", read_of_commit(1)[1]), read_of_commit(2)]


def test_version_at_is_the_newest_version_that_is_not_later_than_the_timestamp():
    store = append_files(create(new_store()), 2)
    # A version is always later than the version before it, so version 2 counts as 7001.
    for version, modified_ms in enumerate([5000, 7000, 6000]):
        store.files[commit_name(version)] = (store.files[commit_name(version)][0], modified_ms)
    assert [version_at(store, ms) for ms in (4999, 5000, 7000, 7001, 10**15)] == [-1, 0, 1, 2, 2]


APPEND = [commit_info(operation="WRITE", timestamp=5), add("a", partition_values={"day": "1", "c": None}), txn("run")]
DELETE = [commit_info(operation="DELETE"), remove("a", partition_values={"day": "2"})]
OPTIMIZE = [commit_info(operation="OPTIMIZE"), remove("a", data_change=False), add("b", data_change=False)]
PROPERTIES = [commit_info(operation="SET TBLPROPERTIES"), metadata({"k": "v"})]
INGEST = {"dag_id": "ingest", "task_id": "load", "run_id": "scheduled", "map_index": 3, "logical_date": "2026-01-02"}
NO_ROWS = [commit_info(operation="WRITE", userMetadata=json.dumps(INGEST)), txn("quiet")]
CHANGES = [AddCDCFile(path="_change_data/c", partition_values={"day": "3"}, size_bytes=1, data_change=False), add("b")]
COMMITS = {"append": APPEND, "delete": DELETE, "optimize": OPTIMIZE, "properties": PROPERTIES, "changes": CHANGES}
COMMITS["no rows"] = NO_ROWS


# Without `data_change_only`, commits without rows count only if the condition has `operations`, `app_id` or `made_by`.
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
        ({"exclude_app_ids": ["ru?"], "data_change_only": False}, set(COMMITS) - {"append"}),
        ({"exclude_app_ids": ["another", "q*"], "data_change_only": False}, set(COMMITS) - {"no rows"}),
        ({"exclude_app_ids": []}, {"append", "delete", "changes"}),
        ({"made_by": {"dag_id": "ingest", "logical_date": "2026-01-02T00:00:00+00:00"}}, {"no rows"}),
        ({"made_by": {"map_index": "3", "run_id": "scheduled"}}, {"no rows"}),
        ({"made_by": {"dag_id": "ingest", "task_id": "other"}}, set()),
        ({"made_by": {"data_interval_end": "2026-01-02T00:00:00+00:00"}}, set()),
        ({"made_by": {"dag_id": "ingest"}, "data_change_only": True}, set()),
    ],
    ids=lambda value: str(sorted(value) if isinstance(value, set) else value),
)
def test_all_parts_of_a_condition_must_hold(condition, holds_for):
    commit_condition = CommitCondition(**condition)
    matching_commits = set()
    for name, actions in COMMITS.items():
        store = create(new_store())
        put_raw(store, 1, actions)
        if poll(store, LogPosition(version=0), commit_condition).match:
            matching_commits.add(name)
    assert matching_commits == holds_for
    assert CommitCondition.from_dict(json.loads(json.dumps(commit_condition.as_dict()))) == commit_condition


@pytest.mark.parametrize("made_by", [{}, {"day": "1"}])
def test_made_by_must_name_known_properties_of_a_run(made_by):
    with pytest.raises(InvalidRequestError, match="made_by"):
        CommitCondition(made_by=made_by)


@pytest.mark.parametrize("name", ["operations", "exclude_app_ids"])
def test_a_text_in_place_of_a_list_is_rejected(name):
    with pytest.raises(InvalidRequestError, match=f"{name} is the text 'WRITE'"):
        CommitCondition(**{name: "WRITE"})


def test_a_table_id_identifies_a_table_and_the_commit_that_creates_it():
    store = new_store()
    assert table_id(store) is None
    create(store)
    match = poll(store, LogPosition(version=-1), ANY_COMMIT).match
    assert match.table_id == table_id(store) and match.table_id is not None
    append_files(store, 1)
    assert poll(store, LogPosition(version=0), ANY_COMMIT).match.table_id is None


@pytest.mark.parametrize("timestamp", [None, "soon", 1.5, {}])
def test_a_commit_without_a_usable_time_or_provenance_has_a_summary(timestamp):
    summary = summarize(3, [("commitInfo", {"timestamp": timestamp, "operation": "X"})])
    assert (summary.timestamp_ms, summary.operation) == (0, "X")
    assert summarize(3, []).operation is None


def test_a_summary_uses_the_first_commit_info_and_a_change_data_file_is_not_a_data_change():
    recorded = to_json(AddCDCFile(path="c", partition_values={}, size_bytes=1, data_change=True))
    summary = summarize(3, [("commitInfo", {"operation": "A"}), ("cdc", recorded), ("commitInfo", {"operation": "B"})])
    assert (summary.operation, summary.data_changed) == ("A", False)


def test_a_poll_waits_for_the_content_of_an_empty_commit_unless_a_later_commit_follows():
    """Azure's Blob Storage shows the name of a copied file before its content."""
    store = append_files(create(new_store()), 1)
    position = position_at(store, 1)
    store.write(commit_name(2), b"")
    assert poll(store, position, CommitCondition()) == PollResult(position=position, match=None)
    store.write(commit_name(3), store.read(commit_name(1)))
    assert [step.position.version for step in follow(store, position)] == [2, 3]
    store.write(commit_name(2), store.read(commit_name(1)))
    assert poll(store, position, CommitCondition()).match.version == 2


def flow_request(**sources):
    """A write request with incremental sources. `a="f"` adds a source `a` that the flow `f` loads."""
    named_sources = {name: Source(format="delta", path=f"/{name}", incremental=flow) for name, flow in sources.items()}
    return WriteRequest(table="/t", sources=named_sources, query="SELECT 1", identity=RunIdentity(app_id="run"))


def test_a_request_has_nothing_new_if_every_source_is_at_its_offset():
    first, second = (append_files(create(new_store(), id=table_id), 2) for table_id in ("first", "second"))
    store = create(new_store())
    commit_actions(store, txn(FlowId(name="f", source_table_id="first").app_id, 2))
    commit_actions(store, txn(FlowId(name="g", source_table_id="second").app_id, 1))
    request = flow_request(a="f", b="g")
    assert watch.result_without_new_versions(load(store), request, {"a": first, "b": second}) is None
    commit_actions(store, txn(FlowId(name="g", source_table_id="second").app_id, 2))
    result = watch.result_without_new_versions(load(store), request, {"a": first, "b": second})
    assert (result.skipped, result.committed, result.version, result.app_id) == (True, False, 3, "run")
    assert result.source_versions == {"a": 2, "b": 2}
    assert {flow_range.flow for flow_range in result.flows.values()} == {"f", "g"}
    assert "the flow 'f' has loaded version 2, 'g' has loaded version 2" in result.skip_reason
    assert OperationResult.from_dict(result.as_dict()) == result
    assert parse_marker(result_marker(result)) == result


@pytest.mark.parametrize(
    ("flow", "source_table_id", "version"), [("f", "another id", 2), ("f", "s", 3), ("f", "s", -1), ("g", "s", 2)]
)
def test_a_source_with_another_offset_may_have_something_new(flow, source_table_id, version):
    source = append_files(create(new_store(), id="s"), 2)
    store = create(new_store())
    commit_actions(store, txn(FlowId(name=flow, source_table_id=source_table_id).app_id, version))
    assert watch.result_without_new_versions(load(store), flow_request(a="f"), {"a": source}) is None

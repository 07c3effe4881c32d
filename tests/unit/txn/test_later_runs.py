"""The commits of later data intervals that may have changed the same rows as a run."""

from __future__ import annotations

import json

import pytest

from deltalite.protocol.file_names import commit_name
from deltalite.requests import RunIdentity
from deltalite.txn.later_runs import later_runs
from deltalite.txn.proposal import ReadSet
from deltalite.upkeep.checkpoint import write_checkpoint
from tests.unit.builders import NOON_MS, add, commit_actions, commit_info, create, load, new_store, put_raw, remove, txn

# All commits are from about NOON_MS (2023-11-14T22:13:20Z). The data intervals of the runs are in November 2023.
EVERYTHING = ReadSet(whole_table=True)


class RowsOfDay:
    """A row test for the partition of a day. Files without partition values may contain its rows."""

    def __init__(self, day):
        self.day = str(day)

    def may_match(self, partition_values, _stats):
        return partition_values.get("day", self.day) == self.day


def reads(day):
    return ReadSet(row_tests=(RowsOfDay(day),))


def run(day, *, task="t", dag="d", key=None, index=-1, generation=0, interval=True, request="1:a"):
    """The identity of the run of a day in November 2023. `interval` says whether the run has a data interval."""
    times = {"data_interval_start": f"2023-11-{day:02}T00:00:00+00:00"} if interval else {}
    if interval:
        times["data_interval_end"] = f"2023-11-{day + 1:02}T00:00:00+00:00"
    names = {"dag_id": dag, "task_id": task, "run_id": f"run {day}", "map_index": index}
    return RunIdentity(
        app_id=f"ns/{dag}/{task}/{index}/run {day}" if key is None else f"ns/{dag}/{key}",
        details={**names, **times, **({} if key is None else {"idempotency_key": key})},
        generation=generation,
        request_digest=request,
    )


def commit_run(store, identity, *actions, day=None, last_updated_ms=NOON_MS):
    file = add(f"{identity.app_id} {identity.generation}", partition_values={} if day is None else {"day": str(day)})
    transaction = txn(identity.app_id, identity.generation, last_updated_ms)
    return commit_actions(store, *(actions or (file,)), transaction, user_metadata=json.dumps(identity.provenance))


def later_runs_of(store, identity, read_set=EVERYTHING):
    return [later.version for later in later_runs(load(store), identity, read_set).runs]


@pytest.fixture
def store():
    return create(new_store(), partition_columns=("day",))


def test_a_rerun_finds_the_later_runs_that_committed_after_its_last_commit(store):
    commit_run(store, run(4))
    commit_run(store, run(2))
    commit_run(store, run(3))
    commit_run(store, run(1))
    assert later_runs_of(store, run(1, generation=1)) == []
    assert later_runs_of(store, run(2, generation=1)) == [3], "the run of day 4 committed before the run of day 2"
    assert later_runs_of(store, run(3, generation=1)) == []
    assert later_runs_of(store, run(5)) == []
    commit_run(store, run(2, generation=1))
    assert later_runs_of(store, run(2, generation=1)) == []
    assert later_runs_of(store, run(1, generation=1)) == [5]


def test_an_earlier_commit_of_the_run_without_rows_hides_no_later_run(store):
    commit_run(store, run(4))
    commit_run(store, run(2), add("moved", data_change=False))
    later = later_runs(load(store), run(2, generation=1), EVERYTHING)
    assert [later_run.version for later_run in later.runs] == [1]
    assert later.has_committed_before


def test_a_later_run_counts_if_it_changed_rows_that_the_operation_may_touch(store):
    for day in (1, 2, 3):
        commit_run(store, run(day), day=day)
    assert later_runs_of(store, run(1), reads(1)) == []
    commit_run(store, run(4), remove(run(1).app_id + " 0", partition_values={"day": "1"}))
    commit_run(store, run(5), remove("unknown", partition_values=None))
    assert later_runs_of(store, run(1), reads(1)) == [5, 4]
    assert later_runs_of(store, run(2), reads(2)) == [5]
    commit_run(store, run(6), add("moved", data_change=False), remove("x", data_change=False))
    commit_run(store, run(7), add("x", partition_values={"day": "1"}))
    assert later_runs_of(store, run(1), reads(1)) == [7, 5, 4]


def test_a_removed_file_that_the_operation_would_read_counts(store):
    commit_run(store, run(2), remove("mine", partition_values={"day": "9"}))
    assert later_runs_of(store, run(1), ReadSet(keys=frozenset({"mine"}))) == [1]
    assert later_runs_of(store, run(1), ReadSet(keys=frozenset({"yours"}))) == []


@pytest.mark.parametrize("changes", [{"task": "other"}, {"dag": "other"}, {"interval": False}])
def test_runs_of_other_tasks_and_runs_without_an_interval_are_not_later_runs(store, changes):
    commit_run(store, run(3, **changes))
    assert later_runs_of(store, run(1)) == []


def test_an_idempotency_key_does_not_hide_a_later_run_of_the_task(store):
    commit_run(store, run(3, key="k"))
    assert later_runs_of(store, run(1)) == [1]


def test_runs_with_one_idempotency_key_are_compared_across_tasks(store):
    commit_run(store, run(3, key="k", task="renamed"))
    commit_run(store, run(4, key="l", task="renamed"))
    assert later_runs_of(store, run(1, key="k")) == [1]
    assert later_runs_of(store, run(5, key="k")) == []


def test_mapped_siblings_of_the_same_run_are_not_later(store):
    commit_run(store, run(2, index=0))
    commit_run(store, run(3, index=5))
    assert later_runs_of(store, run(2, index=1)) == [2]


def test_the_newest_of_many_later_runs_are_named(store):
    for day in range(2, 12):
        commit_run(store, run(day))
    later = later_runs(load(store), run(1), EVERYTHING)
    assert [later_run.version for later_run in later.runs] == [10, 9, 8, 7, 6]
    assert str(later.runs[0]) == (
        "version 10 (run run 11, of data interval 2023-11-11T00:00:00+00:00 to 2023-11-12T00:00:00+00:00)"
    )


def test_no_commit_is_read_without_transactions_of_later_runs(store, monkeypatch):
    commit_run(store, run(1), last_updated_ms=NOON_MS - 14 * 86_400_000)
    base = load(store)
    _ = base.transactions  # reads the transactions now, before reads are disabled
    monkeypatch.setattr(store, "read", None)
    assert later_runs(base, run(12), EVERYTHING).runs == ()


def test_expired_transactions_do_not_hide_a_later_run():
    store = create(new_store(), configuration={"delta.setTransactionRetentionDuration": "interval 1 millisecond"})
    commit_run(store, run(3))
    assert later_runs_of(store, run(1)) == [1]


def test_runs_of_cleaned_up_commits_are_found(store):
    for day, at_ms in ((1, NOON_MS - 9000), (2, NOON_MS - 5000), (3, NOON_MS + 5000)):
        commit_run(store, run(day), last_updated_ms=at_ms)
    commit_actions(store, add("x"))
    write_checkpoint(load(store), now_ms=NOON_MS)
    for version in range(3):
        del store.files[commit_name(version)]
    later = later_runs(load(store), run(1, generation=1), EVERYTHING)
    assert [later_run.version for later_run in later.runs] == [3]
    assert later.has_committed_before
    assert later.unreadable_app_ids == (run(2).app_id,)


def test_a_run_without_an_interval_has_no_later_runs(store):
    commit_run(store, run(3))
    assert later_runs_of(store, run(1, interval=False)) == []


def test_the_clock_of_another_writer_does_not_end_the_search(store):
    commit_run(store, run(3))
    put_raw(store, 2, [commit_info(timestamp=0), add("foreign")])
    assert later_runs_of(store, run(1)) == [1]


def test_an_earlier_commit_of_a_task_ends_the_search(store):
    commit_run(store, run(3))
    put_raw(store, 2, [commit_info(timestamp=0, userMetadata=json.dumps(run(1).provenance)), add("old")])
    assert later_runs_of(store, run(2)) == []


@pytest.mark.parametrize("text", ["x", 7, None, "0001-01-01T00:00:00+14:00"])
def test_an_interval_of_another_writer_that_is_not_a_time_is_ignored(store, text):
    values = {**run(3).provenance, "data_interval_start": text}
    commit_actions(store, add("x"), txn(run(3).app_id), user_metadata=json.dumps(values))
    assert later_runs_of(store, run(1)) == []

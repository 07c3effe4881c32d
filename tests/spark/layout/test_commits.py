"""An optimize makes several commits, and other attempts of its run and other writers commit between them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from deltalite import DeltaTable
from deltalite.commands.common.replanning import LONGEST_PAUSE
from deltalite.commands.optimize import command
from deltalite.inspection.verify import verify
from deltalite.requests import OptimizeRequest
from deltalite.storage.local import LocalLogStore
from tests.support.packing import append_small_files, assert_all_readers_agree, file_counts_by_part, rows_by_version
from tests.support.properties import VECTORS
from tests.support.racing import run_before_commits
from tests.support.tables import actions_of, data_files, delete_rows, optimize_table, rows, update_rows, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]

RUN = "airflow/dag/task/-1/run"


@pytest.fixture
def table(tmp_path):
    return tmp_path / "t"


def test_a_large_table_takes_several_commits_and_the_last_has_the_txn(spark, table):
    append_small_files(spark, table, parts=3)
    rows_before = rows_by_version(table)
    result = optimize_table(spark, table, run=RUN, max_commit_bytes=1)
    assert (result.version, result.read_version) == (5, 4)
    assert ["txn" in actions_of(table, version) for version in (3, 4, 5)] == [False, False, True]
    assert [len(actions_of(table, version)["add"]) for version in (3, 4, 5)] == [1, 1, 1]
    assert (result.metrics["numRemovedFiles"], result.metrics["totalNumRemovedFiles"]) == (6, 18)
    assert result.metrics["totalNumCommits"] == 3
    assert_all_readers_agree(spark, table, rows_before)


def test_a_retry_continues_after_the_commits_of_a_killed_attempt(spark, table, monkeypatch):
    append_small_files(spark, table, parts=3)
    rows_before = rows_by_version(table)
    commit_proposal, calls = command.commit_proposal, []

    def fail_at_the_second_commit(*arguments):
        calls.append(1)
        if len(calls) == 2:
            raise RuntimeError("the job was killed")
        return commit_proposal(*arguments)

    monkeypatch.setattr(command, "commit_proposal", fail_at_the_second_commit)
    with pytest.raises(RuntimeError):
        optimize_table(spark, table, run=RUN, max_commit_bytes=1)
    monkeypatch.setattr(command, "commit_proposal", commit_proposal)
    removed_before = {remove["path"] for remove in actions_of(table, 3)["remove"]}
    result = optimize_table(spark, table, run=RUN, max_commit_bytes=1)
    removed_by_retry = {remove["path"] for version in (4, 5) for remove in actions_of(table, version)["remove"]}
    assert (result.version, result.skipped, len(removed_before), len(removed_by_retry)) == (5, False, 6, 12)
    assert removed_before.isdisjoint(removed_by_retry)
    assert_all_readers_agree(spark, table, rows_before)


@pytest.fixture
def rival(monkeypatch):
    """Return `rival(change, times)`, which makes `change(number)` run before each of the next `times` commits."""

    def add_rival(change, times=1):
        run_before_commits(monkeypatch, *(partial(change, number) for number in range(times)))

    return add_rival


def test_an_attempt_ends_if_another_attempt_of_the_run_has_finished(spark, table, monkeypatch):
    append_small_files(spark, table, parts=3)
    rows_before = rows_by_version(table)
    active_keys, calls = command.active_keys, []

    def finish_another_attempt_first(*arguments):
        calls.append(1)
        if len(calls) == 1:
            optimize_table(spark, table, run=RUN, where="part = 0")
        return active_keys(*arguments)

    monkeypatch.setattr(command, "active_keys", finish_another_attempt_first)
    result = optimize_table(spark, table, run=RUN, max_commit_bytes=1)
    newest = DeltaTable(str(table)).version
    versions_with_txn = [version for version in range(3, 1 + newest) if "txn" in actions_of(table, version)]
    assert result.skipped and versions_with_txn == [result.version]
    assert_all_readers_agree(spark, table, rows_before)


def test_an_append_and_a_change_of_other_files_do_not_conflict(spark, table, rival):
    append_small_files(spark, table)
    write_rows(spark, table, "SELECT 500L AS id, 9 AS part, 0L AS x")
    rival(
        lambda _n: (
            write_rows(spark, table, "SELECT 100L AS id, 0 AS part, 0L AS x"),
            delete_rows(spark, table, "part = 9"),
        )
    )
    result = optimize_table(spark, table, conflict_retries=0, where="part < 2", run=RUN)
    assert (result.version, result.read_version) == (6, 3) and "numFilesLeft" not in result.metrics
    assert file_counts_by_part(table) == {"0": 2, "1": 1}
    assert [row[0] for row in sorted(rows(table))] == [*range(30), 100]


@pytest.mark.sample(VECTORS)
@pytest.mark.parametrize("properties", [{}, VECTORS], ids=["files", "vectors"])
def test_bins_with_files_that_a_winning_commit_changed_are_replanned(spark, table, rival, properties):
    append_small_files(spark, table, properties=properties)
    rival(lambda _n: delete_rows(spark, table, "id = 4"))
    result = optimize_table(spark, table, run=RUN)
    assert ["txn" in actions_of(table, version) for version in (3, 4, 5)] == [False, False, True]
    assert [add["partitionValues"]["part"] for add in actions_of(table, 4)["add"]] == ["1"]
    assert [add["partitionValues"]["part"] for add in actions_of(table, 5)["add"]] == ["0"]
    assert result.version == 5 and result.metrics["totalNumAddedFiles"] == 2
    assert file_counts_by_part(table) == {"0": 1, "1": 1}
    assert [row[0] for row in sorted(rows(table))] == [n for n in range(30) if n != 4]
    assert data_files(table) == {add["path"] for version in range(6) for add in actions_of(table, version)["add"]}
    assert verify(LocalLogStore(str(table))).findings == ()


@pytest.mark.campaign
def test_a_new_file_that_cannot_be_removed_does_not_fail_the_run(spark, table, rival, monkeypatch, caplog):
    append_small_files(spark, table)
    rival(lambda _n: delete_rows(spark, table, "id = 4"))
    unlink = Path.unlink

    def unlink_except_data_files(path, **options):
        if path.suffix == ".parquet":
            raise PermissionError(13, "Permission denied", str(path))
        unlink(path, **options)

    monkeypatch.setattr(Path, "unlink", unlink_except_data_files)
    result = optimize_table(spark, table, run=RUN, conflict_retries=0)
    assert [add["partitionValues"]["part"] for add in actions_of(table, 4)["add"]] == ["1"]
    assert (result.version, result.metrics["numFilesLeft"]) == (4, 6)
    assert caplog.text.count("Could not remove part=0/") == 1
    assert [row[0] for row in sorted(rows(table))] == [n for n in range(30) if n != 4]


def test_an_optimize_gives_up_before_the_time_limit_or_after_the_last_retry(monkeypatch):
    """A pause of up to `LONGEST_PAUSE` precedes each attempt, and the time limit must not pass within it."""
    monkeypatch.setattr(command.time, "monotonic", lambda: 1000.0)
    request = OptimizeRequest(table="/t", conflict_seconds=60, conflict_retries=2)

    def gives_up(attempts, seconds):
        return command._Run(
            spark=None, request=request, store=None, make_plan=None, attempts=attempts, start_s=1000.0 - seconds
        )._is_at_retry_limit

    assert not gives_up(attempts=2, seconds=60 - LONGEST_PAUSE - 0.1)
    assert gives_up(attempts=1, seconds=60 - LONGEST_PAUSE) and gives_up(attempts=3, seconds=0)


@pytest.mark.campaign
def test_files_that_change_in_every_attempt_are_left_to_a_later_run(spark, table, rival):
    append_small_files(spark, table)
    rival(
        lambda number: update_rows(spark, table, {"x": "x + 1"}, f"id IN ({4 + 2 * number}, {5 + 2 * number})"), times=9
    )
    result = optimize_table(spark, table, run=RUN, conflict_retries=1)
    assert result.committed and result.metrics["numFilesLeft"] > 0 and result.metrics["numAddedFiles"] == 0
    assert "txn" in actions_of(table, result.version)
    assert [row[0] for row in sorted(rows(table))] == list(range(30))


@pytest.mark.campaign
def test_an_optimize_replans_after_a_change_of_the_schema(spark, table, rival):
    append_small_files(spark, table)
    rival(lambda _n: write_rows(spark, table, "SELECT 100L AS id, 0 AS part, 0L AS x, 'new' AS y", merge_schema=True))
    optimize_table(spark, table, run=RUN)
    assert file_counts_by_part(table) == {"0": 1, "1": 1}
    assert len(rows(table)) == 31 and DeltaTable(str(table)).schema.names == ["id", "part", "x", "y"]

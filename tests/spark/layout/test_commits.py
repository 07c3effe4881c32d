"""An optimize with several commits, while other attempts of the run and other writers commit in between."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltalite import DeltaTable
from deltalite.commands.common.replanning import LONGEST_PAUSE
from deltalite.commands.optimize import command
from deltalite.inspection.verify import verify
from deltalite.requests import OptimizeRequest
from deltalite.storage.local import LocalLogStore
from tests.support.packing import VECTORS, check, files_by_part, filled, versions
from tests.support.tables import commit, data_files, delete_rows, optimized, rows, update_rows, write_rows

pytestmark = pytest.mark.spark

RUN = "airflow/dag/task/-1/run"


@pytest.fixture
def table(tmp_path):
    return tmp_path / "t"


def test_a_large_table_takes_several_commits_and_the_last_has_the_txn(spark, table):
    filled(spark, table, parts=3)
    before = versions(table)
    result = optimized(spark, table, run=RUN, max_commit_bytes=1)
    assert (result.version, result.read_version) == (5, 4)
    assert ["txn" in commit(table, version) for version in (3, 4, 5)] == [False, False, True]
    assert [len(commit(table, version)["add"]) for version in (3, 4, 5)] == [1, 1, 1]
    assert (result.metrics["numRemovedFiles"], result.metrics["totalNumRemovedFiles"]) == (6, 18)
    assert result.metrics["totalNumCommits"] == 3
    check(spark, table, before)


def test_a_retry_continues_after_the_commits_of_a_killed_attempt(spark, table, monkeypatch):
    filled(spark, table, parts=3)
    before = versions(table)
    real, calls = command.commit_proposal, []

    def fails_later(*arguments):
        calls.append(1)
        if len(calls) == 2:
            raise RuntimeError("the job was killed")
        return real(*arguments)

    monkeypatch.setattr(command, "commit_proposal", fails_later)
    with pytest.raises(RuntimeError):
        optimized(spark, table, run=RUN, max_commit_bytes=1)
    monkeypatch.setattr(command, "commit_proposal", real)
    first = {remove["path"] for remove in commit(table, 3)["remove"]}
    result = optimized(spark, table, run=RUN, max_commit_bytes=1)
    again = {remove["path"] for version in (4, 5) for remove in commit(table, version)["remove"]}
    assert (result.version, result.skipped, len(first), len(again)) == (5, False, 6, 12)
    assert first.isdisjoint(again)
    check(spark, table, before)


@pytest.fixture
def rival(table, monkeypatch):
    """`rival(theirs, times)` lets `theirs(number)` commit right before each of our next commits."""

    def arranged(theirs, times=1):
        original = LocalLogStore.write_if_absent
        turns = iter(range(times))

        def rival_first(store, name, data):
            number = next(turns, None)
            if number is None:
                return original(store, name, data)
            monkeypatch.setattr(LocalLogStore, "write_if_absent", original)
            theirs(number)
            monkeypatch.setattr(LocalLogStore, "write_if_absent", rival_first)
            return original(store, name, data)

        monkeypatch.setattr(LocalLogStore, "write_if_absent", rival_first)

    return arranged


def test_an_attempt_ends_if_another_attempt_of_the_run_has_finished(spark, table, monkeypatch):
    filled(spark, table, parts=3)
    before = versions(table)
    real, calls = command.active_keys, []

    def other_try_first(*arguments):
        calls.append(1)
        if len(calls) == 1:
            optimized(spark, table, run=RUN, where="part = 0")
        return real(*arguments)

    monkeypatch.setattr(command, "active_keys", other_try_first)
    result = optimized(spark, table, run=RUN, max_commit_bytes=1)
    named = [version for version in range(3, 1 + DeltaTable(str(table)).version) if "txn" in commit(table, version)]
    assert result.skipped and named == [result.version]
    check(spark, table, before)


def test_an_append_and_a_change_of_other_files_do_not_conflict(spark, table, rival):
    filled(spark, table)
    write_rows(spark, table, "SELECT 500L AS id, 9 AS part, 0L AS x")
    rival(
        lambda _n: (
            write_rows(spark, table, "SELECT 100L AS id, 0 AS part, 0L AS x"),
            delete_rows(spark, table, "part = 9"),
        )
    )
    result = optimized(spark, table, conflict_retries=0, where="part < 2", run=RUN)
    assert (result.version, result.read_version) == (6, 3) and "numFilesLeft" not in result.metrics
    assert files_by_part(table) == {"0": 2, "1": 1}
    assert [row[0] for row in sorted(rows(table))] == [*range(30), 100]


@pytest.mark.parametrize("properties", [{}, VECTORS], ids=["files", "vectors"])
def test_bins_with_files_that_a_winner_changed_are_replanned(spark, table, rival, properties):
    filled(spark, table, properties=properties)
    rival(lambda _n: delete_rows(spark, table, "id = 4"))
    result = optimized(spark, table, run=RUN)
    assert ["txn" in commit(table, version) for version in (3, 4, 5)] == [False, False, True]
    assert [add["partitionValues"]["part"] for add in commit(table, 4)["add"]] == ["1"]
    assert [add["partitionValues"]["part"] for add in commit(table, 5)["add"]] == ["0"]
    assert result.version == 5 and result.metrics["totalNumAddedFiles"] == 2
    assert files_by_part(table) == {"0": 1, "1": 1}
    assert [row[0] for row in sorted(rows(table))] == [n for n in range(30) if n != 4]
    named = {a["path"] for version in range(6) for a in commit(table, version)["add"]}
    assert {name.replace("=", "%3D") if "%3D" in str(named) else name for name in data_files(table)} == named
    assert verify(LocalLogStore(str(table))).findings == ()


def test_a_new_file_that_cannot_be_removed_does_not_fail_the_run(spark, table, rival, monkeypatch, caplog):
    filled(spark, table)
    rival(lambda _n: delete_rows(spark, table, "id = 4"))
    real = Path.unlink

    def refused(path, **options):
        if path.suffix == ".parquet":
            raise PermissionError(13, "Permission denied", str(path))
        real(path, **options)

    monkeypatch.setattr(Path, "unlink", refused)
    result = optimized(spark, table, run=RUN, conflict_retries=0)
    assert [add["partitionValues"]["part"] for add in commit(table, 4)["add"]] == ["1"]
    assert (result.version, result.metrics["numFilesLeft"]) == (4, 6)
    assert caplog.text.count("Could not remove part=0/") == 1
    assert [row[0] for row in sorted(rows(table))] == [n for n in range(30) if n != 4]


def test_no_bin_is_replanned_after_the_time_limit(monkeypatch):
    """Then the wait before another attempt could end too late, and what was dropped would fail the run."""
    monkeypatch.setattr(command.time, "monotonic", lambda: 1000.0)
    request = OptimizeRequest(table="/t", conflict_seconds=60, conflict_retries=2)

    def gives_up(attempts, seconds):
        return command._Run(
            spark=None, request=request, store=None, plan=None, attempts=attempts, start_s=1000.0 - seconds
        )._gives_up

    assert not gives_up(attempts=2, seconds=60 - LONGEST_PAUSE - 0.1)
    assert gives_up(attempts=1, seconds=60 - LONGEST_PAUSE) and gives_up(attempts=3, seconds=0)


def test_files_that_change_in_every_attempt_are_left_to_a_later_run(spark, table, rival):
    filled(spark, table)
    rival(
        lambda number: update_rows(spark, table, {"x": "x + 1"}, f"id IN ({4 + 2 * number}, {5 + 2 * number})"), times=9
    )
    result = optimized(spark, table, run=RUN, conflict_retries=1)
    assert result.committed and result.metrics["numFilesLeft"] > 0 and result.metrics["numAddedFiles"] == 0
    assert "txn" in commit(table, result.version)
    assert [row[0] for row in sorted(rows(table))] == list(range(30))


def test_an_optimize_replans_after_a_change_of_the_schema(spark, table, rival):
    filled(spark, table)
    rival(lambda _n: write_rows(spark, table, "SELECT 100L AS id, 0 AS part, 0L AS x, 'new' AS y", merge_schema=True))
    optimized(spark, table, run=RUN)
    assert files_by_part(table) == {"0": 1, "1": 1}
    assert len(rows(table)) == 31 and DeltaTable(str(table)).schema.names == ["id", "part", "x", "y"]

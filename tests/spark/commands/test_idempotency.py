"""A run writes once in any number of task attempts. The policy `on_rerun` decides what a cleared task does."""

from __future__ import annotations

import pytest

from deltalite.errors import ConcurrentTransactionException, RerunRefusedError
from deltalite.requests import RunIdentity
from deltalite.storage.opening import open_store
from deltalite.txn.find_run import find_run
from tests.support.racing import run_before_commits
from tests.support.tables import actions_of, data_files, folder_content, ids, values, write_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("quick_plans")]

RUN = "airflow/dag/task/-1/scheduled__2026-01-01"


def id_rows(*ids):
    """The query for one row with each id."""
    return values("id", *map(str, ids))


def test_a_retry_returns_the_result_of_the_first_attempt(spark, tmp_path):
    table = tmp_path / "t"
    for mode in ("error", "append", "overwrite"):
        run = f"{RUN}/{mode}"
        first = write_rows(spark, table, id_rows(1, 2), mode=mode, run=run)
        write_rows(spark, table, id_rows(3), run=f"another/{mode}")
        content_before = folder_content(table)
        retry = write_rows(spark, table, id_rows(9), mode=mode, run=run)
        assert (retry.skipped, retry.committed) == (True, False)
        equal_fields = (
            "version", "read_version", "metrics", "timestamp", "operation", "app_id", "txn_version", "table",
        )  # fmt: skip
        assert [getattr(retry, name) for name in equal_fields] == [getattr(first, name) for name in equal_fields]
        assert find_run(open_store(str(table)), RunIdentity(app_id=run)) == retry
        assert folder_content(table) == content_before


def test_a_run_that_writes_no_row_is_recorded(spark, tmp_path):
    table = tmp_path / "t"
    write_rows(spark, table, id_rows(1))
    for number, options in enumerate(
        (
            {"query": id_rows(1) + " WHERE id < 0"},
            {"query": id_rows(1), "mode": "ignore"},
            {"query": id_rows(1) + " WHERE id < 0", "mode": "overwrite", "replace_where": "id = 7"},
        )
    ):
        first = write_rows(spark, table, run=f"run {number}", **options)
        assert (first.version, first.committed) == (number + 1, True)
        assert actions_of(table, number + 1)["txn"]["appId"] == f"run {number}"
        retry = write_rows(spark, table, run=f"run {number}", **options)
        assert (retry.version, retry.skipped, retry.metrics) == (number + 1, True, first.metrics)
    assert ids(table) == [1]


def test_a_retry_finds_its_run_in_a_checkpoint(spark, tmp_path):
    table = tmp_path / "t"
    write_rows(spark, table, id_rows(1), run="a", properties={"delta.checkpointInterval": "1"})
    write_rows(spark, table, id_rows(2), run="b")
    (table / "_delta_log" / f"{0:020}.json").unlink()
    retry = write_rows(spark, table, id_rows(1), run="a")
    assert retry.skipped and retry.version is None
    assert write_rows(spark, table, id_rows(2), run="b").version == 1
    assert ids(table) == [1, 2]


def test_a_cleared_task_with_on_rerun_write_writes_again(spark, tmp_path):
    table = tmp_path / "t"
    run = {"run": RUN, "on_rerun": "write"}
    write_rows(spark, table, id_rows(1), **run)
    second = write_rows(spark, table, id_rows(2), generation=3, **run)
    assert (second.committed, second.txn_version) == (True, 3)
    for generation in (0, 2, 3):
        result = write_rows(spark, table, id_rows(9), generation=generation, **run)
        assert (result.skipped, result.version, result.txn_version) == (True, 1, 3)
    assert write_rows(spark, table, id_rows(4), generation=4, mode="overwrite", **run).version == 2
    assert ids(table) == [4]


def test_a_cleared_task_with_on_rerun_replace_removes_exactly_its_files(spark, tmp_path):
    table = tmp_path / "t"
    replace = {"run": RUN, "on_rerun": "replace"}
    write_rows(spark, table, id_rows(1), run="another")
    write_rows(spark, table, id_rows(10, 11), **replace)
    write_rows(spark, table, id_rows(2), run="later")
    rerun = write_rows(spark, table, id_rows(20), generation=1, **replace)
    assert ids(table) == [1, 2, 20]
    removed_paths = {remove["path"] for remove in actions_of(table, 3)["remove"]}
    assert removed_paths == {add["path"] for add in actions_of(table, 1)["add"]}
    assert rerun.metrics["numRemovedFiles"] == 2 and rerun.metrics["numOutputRows"] == 1
    assert write_rows(spark, table, id_rows(9), generation=1, **replace).skipped
    write_rows(spark, table, id_rows(1) + " WHERE id < 0", generation=2, **replace)
    assert ids(table) == [1, 2]
    write_rows(spark, table, id_rows(30), generation=3, **replace)
    assert ids(table) == [1, 2, 30]
    # A run that has never written removes no files.
    write_rows(spark, table, id_rows(40), run="fresh", generation=5, on_rerun="replace")
    assert ids(table) == [1, 2, 30, 40]


def test_on_rerun_replace_is_rejected_after_the_files_were_rewritten(spark, tmp_path):
    table = tmp_path / "t"
    replace = {"run": RUN, "on_rerun": "replace"}
    write_rows(spark, table, id_rows(1), run="another")
    write_rows(spark, table, id_rows(10, 11), **replace)
    write_rows(spark, table, id_rows(2))
    write_rows(spark, table, id_rows(10), mode="overwrite", replace_where="id = 10")
    write_rows(spark, table, id_rows(3))
    content_before = folder_content(table)
    with pytest.raises(RerunRefusedError, match="version 3 has rewritten or removed 1 of their 2 files") as error_info:
        write_rows(spark, table, id_rows(20), generation=1, **replace)
    assert "replace_where" in error_info.value.remedy and not error_info.value.retryable
    assert folder_content(table) == content_before
    assert write_rows(spark, table, id_rows(20), run=RUN, on_rerun="write", generation=1).committed


def test_two_concurrent_attempts_of_one_run_write_once(spark, tmp_path, monkeypatch):
    """An orphaned job of an earlier task attempt commits while the retry writes its files."""
    table = tmp_path / "t"
    write_rows(spark, table, id_rows(1))

    def commit_orphaned_job():
        write_rows(spark, table, id_rows(2), run="another")
        write_rows(spark, table, id_rows(10), run=RUN)

    run_before_commits(monkeypatch, commit_orphaned_job)
    retry = write_rows(spark, table, id_rows(10), run=RUN)
    assert (retry.skipped, retry.committed, retry.version) == (True, False, 2)
    assert ids(table) == [1, 2, 10]
    assert len(data_files(table)) == 3


def test_an_older_generation_that_commits_first_is_a_conflict(spark, tmp_path, monkeypatch):
    table = tmp_path / "t"
    write_rows(spark, table, id_rows(1))
    run_before_commits(monkeypatch, lambda: write_rows(spark, table, id_rows(10), run=RUN))
    replace = {"run": RUN, "on_rerun": "replace", "generation": 1}
    with pytest.raises(ConcurrentTransactionException):
        write_rows(spark, table, id_rows(20), **replace)
    assert write_rows(spark, table, id_rows(20), **replace).committed
    assert ids(table) == [1, 20]


def test_two_concurrent_runs_both_write(spark, tmp_path, monkeypatch):
    table = tmp_path / "t"
    write_rows(spark, table, id_rows(1))
    run_before_commits(monkeypatch, lambda: write_rows(spark, table, id_rows(2), run="b"))
    result = write_rows(spark, table, id_rows(3), run="a")
    assert (result.version, result.read_version, result.committed) == (2, 0, True)
    assert ids(table) == [1, 2, 3]
    assert [write_rows(spark, table, id_rows(9), run=run).version for run in ("a", "b")] == [2, 1]


def test_the_transaction_of_a_run_expires_after_the_retention(spark, tmp_path):
    """The protocol lets readers drop a `txn` that is older than `delta.setTransactionRetentionDuration`."""
    table = tmp_path / "t"
    write_rows(
        spark,
        table,
        id_rows(1),
        run="a",
        properties={"delta.setTransactionRetentionDuration": "interval 1 millisecond"},
    )
    assert write_rows(spark, table, id_rows(1), run="a").committed
    assert ids(table) == [1, 1]

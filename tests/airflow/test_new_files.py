"""A copy task starts no job if the worker sees that all files of the folder are loaded."""

from __future__ import annotations

import json
import os
from datetime import timedelta

import pytest
from airflow.providers.common.compat.sdk import AirflowException

from airflow_provider_deltalite.operators.delta import DeltaCopyOperator
from deltalite import new_files
from deltalite.errors import InvalidRequestError, InvalidTableAddressError
from deltalite.loaded_files.listing import SourceFolder, list_files
from deltalite.loaded_files.manifest import Manifest
from deltalite.loaded_files.record import add_loaded_files
from deltalite.protocol.actions import LOADED_FILES_APP_ID
from deltalite.results import OperationResult, QuarantineResult
from deltalite.storage.local import LocalLogStore
from deltalite.storage.local_tree import LocalTree
from deltalite.txn.quarantine import quarantine_app_id


@pytest.fixture
def landing(tmp_path):
    folder = tmp_path / "landing"
    folder.mkdir()
    for number in (1, 2):
        (folder / f"{number}.csv").write_text("id\n1\n")
    return folder


@pytest.fixture
def loaded_table(table, landing):
    """A table that has loaded the files of the folder."""
    files = list_files(SourceFolder(tree=LocalTree(str(landing)), address=str(landing)), "", None)
    number = add_loaded_files(LocalLogStore(str(table)), Manifest(), files, loaded_ms=1).number
    table.create(table.txn(LOADED_FILES_APP_ID, number))
    return table


def copy_task(table, landing, **parameters):
    defaults = {"task_id": "load", "retries": 2, "retry_delay": timedelta(0)}
    source = {"format": "csv", "path": str(landing)}
    return DeltaCopyOperator(table=str(table), **{**defaults, "source": source, **parameters})


def test_a_task_without_a_new_file_starts_no_job_and_says_why(loaded_table, landing, spark_submit, context):
    for parameters in ({}, {"pattern": "1.*"}, {"file_names": ["2.csv"]}, {"max_files": 1}):
        result = copy_task(loaded_table, landing, **parameters).execute(context)
        assert (result["skipped"], result["committed"], result["version"]) == (True, False, 0)
        assert result["operation"] == "COPY INTO"
        assert result["skip_reason"].startswith(f"The table has loaded all matching files in {landing} (")
    assert not spark_submit.was_called


@pytest.mark.parametrize(
    ("change", "parameters"),
    [
        (lambda folder: (folder / "3.csv").write_text("id\n"), {}),
        (lambda folder: os.utime(folder / "1.csv", (1, 1)), {}),
        (lambda folder: None, {"force": True}),
        (lambda folder: None, {"pattern": "*.json"}),
        (lambda folder: None, {"file_names": ["no.csv"]}),
    ],
    ids=["a new file", "a changed file", "force", "no matching file", "a missing file"],
)
def test_the_job_decides_if_there_may_be_work(loaded_table, landing, spark_submit, context, change, parameters):
    change(landing)
    spark_submit.set_script("raise SystemExit(1)")
    with pytest.raises(AirflowException, match="Error code is: 1"):
        copy_task(loaded_table, landing, **parameters).execute(context)
    assert spark_submit.was_called


def test_the_job_decides_if_an_attempt_has_stored_bad_records(
    loaded_table, landing, spark_submit, context, tmp_path, make_table
):
    quarantine = make_table(tmp_path / "bad")
    task = copy_task(loaded_table, landing, quarantine=str(quarantine))
    assert task.execute(context)["skip_reason"], "there is no quarantine table"
    app_id = task.prepare_request(task._request(), context).identity.app_id
    quarantine.create(quarantine.txn("another run", 0), quarantine.txn(quarantine_app_id(app_id, "/another/table"), 0))
    assert task.execute(context)["skip_reason"]
    quarantine.commit(1, quarantine.txn(quarantine_app_id(app_id, str(loaded_table)), 0))
    spark_submit.set_script("raise SystemExit(1)")
    with pytest.raises(AirflowException, match="Error code is: 1"):
        task.execute(context)
    assert spark_submit.was_called
    store, request = LocalLogStore(str(loaded_table)), task.prepare_request(task._request(), context)
    assert task.find_result_after_job(store, request, failed=False).skip_reason, "the job has removed the bad records"
    assert task.find_result_after_job(store, request, failed=True) is None


@pytest.mark.parametrize("state", ["no table", "a newer file", "no matching file", "no folder"])
def test_a_successful_job_with_neither_commit_nor_output_found_no_file(
    request, table, landing, spark_submit, context, state
):
    source = {"format": "csv", "path": str(landing)}
    match state:
        case "a newer file":  # the job has listed the folder before
            request.getfixturevalue("loaded_table")
            (landing / "3.csv").write_text("id\n1\n")
        case "no matching file":
            request.getfixturevalue("loaded_table")
            source["path"] = f"{landing}/2026-*/"
        case "no folder":
            request.getfixturevalue("loaded_table")
            source["path"] = str(landing / "missing")
    spark_submit.set_script("")
    result = copy_task(table, landing, source=source).execute(context)
    assert (result["skipped"], result["committed"]) == (True, False)
    assert result["version"] == (None if state == "no table" else 0)
    assert result["skip_reason"].startswith(f"The job found no file in {source['path']} to load.")
    spark_submit.set_script("raise SystemExit(1)")
    with pytest.raises(AirflowException, match="Error code is: 1"):
        copy_task(table, landing, source=source).execute(context)


def test_a_validation_whose_output_is_lost_has_no_count(table, landing, spark_submit, context, capsys):
    spark_submit.set_script("")
    result = copy_task(table, landing, validate_only=5).execute(context)
    assert (result["skipped"], result["committed"], result["metrics"], "skip_reason" in result) == (
        False, False, {}, False,
    )  # fmt: skip
    assert "its output did not reach this worker" in capsys.readouterr().out


def test_a_commit_whose_output_is_lost_is_the_result_of_the_copy(loaded_table, landing, spark_submit, context):
    (landing / "3.csv").write_text("id\n1\n")
    task = copy_task(loaded_table, landing)
    app_id = task.prepare_request(task._request(), context).identity.app_id
    actions = [{"commitInfo": {"timestamp": 5, "operation": "COPY INTO"}}, loaded_table.txn(app_id, 0)]
    commit = "".join(f"{json.dumps(action)}\n" for action in actions)
    spark_submit.set_script(f"""
        from pathlib import Path
        Path({f"{loaded_table}/_delta_log/{1:020}.json"!r}).write_text({commit!r})
        """)
    result = task.execute(context)
    assert (result["version"], result["committed"], result["skipped"], "skip_reason" in result) == (
        1, True, False, False,
    )  # fmt: skip


def test_the_job_decides_about_a_folder_with_many_files(loaded_table, landing, spark_submit, context, monkeypatch):
    monkeypatch.setattr(new_files, "_MAX_LISTED_FILES", 1)
    spark_submit.set_script("raise SystemExit(1)")
    with pytest.raises(AirflowException, match="Error code is: 1"):
        copy_task(loaded_table, landing).execute(context)
    assert spark_submit.was_called


def test_a_wrong_constant_fails_when_the_dag_is_parsed(table, landing):
    with pytest.raises(InvalidRequestError, match="on_rerun='replace'"):
        copy_task(table, landing, on_rerun="replace")
    with pytest.raises(InvalidRequestError, match="both select files"):
        copy_task(table, landing, pattern="*", file_names=["a"])


def test_the_quarantine_belongs_to_the_addresses_and_shows_in_the_log(table, landing, capsys):
    task = copy_task(table, landing, quarantine="/lake/bad")
    assert task.addresses(task._request()) == [str(table), "/lake/bad"]
    with pytest.raises(InvalidTableAddressError, match=r"contains '\.\.'"):
        copy_task(table, landing, quarantine="/lake/../bad")
    quarantine = QuarantineResult(table="/lake/bad", version=3, rows=2)
    result = OperationResult(
        table=str(table), operation="COPY INTO", version=1, read_version=0, committed=True, skipped=False,
        app_id="run", txn_version=0, timestamp=1, quarantine=quarantine,
    )  # fmt: skip
    task.log_result(result)
    assert "Quarantined 2 rows in version 3 of /lake/bad (run run)." in capsys.readouterr().out

"""The outcome of a submission: each case of `after_success` and of `after_failure`."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

from airflow_provider_deltalite import secrets
from airflow_provider_deltalite.failures import (
    DeltaConflictError,
    DeltaJobError,
    DeltaStorageError,
    FailedTable,
    error_class_named,
    failure,
    raise_for_airflow,
)
from airflow_provider_deltalite.outcome import after_failure, after_success
from deltalite import errors
from deltalite.errors import CorruptLogError, InvalidTableAddressError, SourceNotFoundError, StorageError
from deltalite.results import AuditResult, JobError, OperationResult
from deltalite.storage.fsspec_store import FsspecLogStore
from deltalite.version import DOCUMENTATION

SUBMIT_ERROR = AirflowException("Cannot execute: spark-submit")
REPORTED_RESULT = OperationResult(
    table="/t",
    operation="WRITE",
    version=3,
    read_version=2,
    committed=True,
    skipped=False,
    app_id="a",
    txn_version=0,
    timestamp=1,
    metrics={"numFiles": 1},
)
RESULT_IN_LOG = OperationResult.from_dict(
    {**REPORTED_RESULT.as_dict(), "committed": False, "skipped": True, "metrics": {}}
)


def job_report(exit_code, *, result=None, error=None):
    """A stand-in for the hook after a job that ended with this exit code and reported this result or error."""
    return SimpleNamespace(exit_code_of_job=lambda _raised: exit_code, result=result, error=error)


def commit_in_log():
    return RESULT_IN_LOG


def no_commit_in_log():
    return None


def fail_if_called():
    raise AssertionError("the log was read")


def fail_to_read():
    raise StorageError("no answer", remedy="Try again.")


def raised_error(job, find_result):
    """The error that the task raises after this failed job. `find_result` reads the table's log."""
    with pytest.raises(AirflowException) as caught:
        after_failure(job, SUBMIT_ERROR, find_result)
    return caught.value


def test_a_successful_job_with_a_result_does_not_make_the_task_read_the_log():
    assert after_success(job_report(0, result=REPORTED_RESULT), fail_if_called) == REPORTED_RESULT


def test_audits_that_the_result_line_omits_come_from_the_log(caplog):
    audit = {
        "name": "a",
        "kind": "rows",
        "on": "table",
        "level": "fail",
        "passed": True,
        "measured": 0,
        "threshold": "x",
    }
    reported = replace(REPORTED_RESULT, audits=None)
    logged = replace(RESULT_IN_LOG, audits=(AuditResult(**audit),))
    job = job_report(0, result=reported)
    assert after_success(job, lambda: logged) == replace(REPORTED_RESULT, audits=logged.audits)
    assert after_success(job, lambda: replace(logged, version=4)) == reported
    assert after_success(job, no_commit_in_log) == reported
    assert after_success(job, fail_to_read) == reported
    assert "does not know the results of the audits" in caplog.text
    assert "whether the job committed" not in caplog.text


def test_after_a_lost_marker_the_result_comes_from_the_log_as_a_commit_of_this_attempt():
    result = after_success(job_report(0), commit_in_log)
    assert (result.version, result.committed, result.skipped) == (3, True, False)
    assert after_success(job_report(0), no_commit_in_log) is None


def test_the_exit_code_of_an_error_that_a_retry_cannot_fix_fails_the_task_at_once():
    task_error = raised_error(
        job_report(51, error=JobError(kind="SchemaMismatchError", message="column x")), fail_if_called
    )
    assert type(task_error) is AirflowFailException
    assert str(task_error).splitlines()[0] == "SchemaMismatchError: column x"
    assert task_error.__suppress_context__, "otherwise the log would show spark-submit's command before the cause"


def test_a_job_that_ends_with_the_exit_code_of_a_conflict_is_retried():
    task_error = raised_error(
        job_report(84, error=JobError(kind="ConcurrentAppendException", message="lost")), fail_if_called
    )
    assert type(task_error) is DeltaConflictError
    assert str(task_error).splitlines()[0] == "ConcurrentAppendException: lost"


def test_a_storage_failure_raises_the_storage_error_of_the_provider():
    assert type(raised_error(job_report(70), no_commit_in_log)) is DeltaStorageError


def test_an_error_without_its_message_keeps_its_class():
    task_error = raised_error(job_report(31), no_commit_in_log)
    assert type(task_error) is AirflowFailException
    assert "TableNotFoundError: The job ended with exit code 31" in str(task_error)


def test_a_process_that_died_after_its_commit_is_a_success_of_the_task(caplog):
    result = after_failure(job_report(134), SUBMIT_ERROR, commit_in_log)
    assert (result.version, result.committed, result.skipped) == (3, True, False)
    assert "Ignoring exit code 134 of the job: the job had already finished version 3 of /t" in caplog.text


def test_a_result_reported_before_the_process_died_is_used_if_the_log_confirms_it():
    assert after_failure(job_report(134, result=REPORTED_RESULT), SUBMIT_ERROR, commit_in_log) == REPORTED_RESULT


def test_a_result_that_the_log_does_not_confirm_is_ignored():
    assert type(raised_error(job_report(134, result=REPORTED_RESULT), no_commit_in_log)) is DeltaJobError


def test_a_reported_result_is_used_if_the_log_is_unreadable():
    assert after_failure(job_report(134, result=REPORTED_RESULT), SUBMIT_ERROR, fail_to_read) == REPORTED_RESULT


@pytest.mark.parametrize("code", [31, 50, 52])
def test_an_exit_code_that_no_report_confirms_does_not_hide_a_commit(code):
    assert after_failure(job_report(code), SUBMIT_ERROR, commit_in_log).version == 3


def test_a_process_that_died_without_a_commit_is_retried_and_a_kill_is_explained():
    task_error = raised_error(job_report(-9), no_commit_in_log)
    assert type(task_error) is DeltaJobError
    assert str(task_error).startswith("The job was killed, often because memory ran out") and str(SUBMIT_ERROR) in str(
        task_error
    )


def test_a_reported_error_decides_if_the_exit_code_is_unknown():
    error = JobError(kind="ConstraintViolationError", message="null")
    assert type(raised_error(job_report(1, error=error), no_commit_in_log)) is AirflowFailException
    task_error = raised_error(
        job_report(1, error=JobError(kind="AnalysisException", message="no column x")), no_commit_in_log
    )
    assert type(task_error) is DeltaJobError
    assert str(task_error).splitlines()[0] == "AnalysisException: no column x"


def test_the_log_decides_if_the_job_does_not_know_its_commit():
    error = JobError(kind="CommitStateUnknownError", message="no answer")
    assert after_failure(job_report(90, error=error), SUBMIT_ERROR, commit_in_log).version == 3
    task_error = raised_error(job_report(90, error=error), no_commit_in_log)
    assert type(task_error) is AirflowFailException
    assert str(task_error).splitlines()[0] == "CommitStateUnknownError: no answer"


def test_a_log_that_cannot_be_read_does_not_hide_the_failure_of_the_job(caplog):
    assert str(raised_error(job_report(134), fail_to_read)).splitlines()[0] == str(SUBMIT_ERROR)
    assert "does not know whether the job committed" in caplog.text


def test_the_message_has_cause_table_remedy_and_link_and_no_group_command():
    error = JobError(kind="SchemaMismatchError", message="column 'x\n::endgroup::' Cast it.", remedy="Cast it.")
    with pytest.raises(AirflowException) as caught:
        after_failure(
            job_report(51, error=error),
            SUBMIT_ERROR,
            fail_if_called,
            lambda: FailedTable(table="/lake/orders", version=7),
        )
    assert str(caught.value).splitlines() == [
        "SchemaMismatchError: column 'x",
        "    : :endgroup::'",
        "Table: /lake/orders",
        "Version: 7, the newest",
        "What to do: Cast it.",
        f"Documentation: {DOCUMENTATION}/troubleshooting.md#schemamismatcherror",
    ]


def test_the_message_of_a_missing_table_names_no_version():
    error = failure(SourceNotFoundError, "x is missing.", table=FailedTable(table="/lake/orders", version=-1))
    assert str(error).splitlines()[2] == "Version: none, because the table does not exist"


def test_the_message_shows_no_secret_because_callbacks_get_it():
    table = FailedTable(table="s3://key:planted-secret@bucket/t")
    error = failure(
        InvalidTableAddressError, "source has password=planted-secret.", "Not token=planted-secret.", table=table
    )
    assert "planted" not in str(error) and "s3://key:***@bucket/t" in str(error)


def test_an_error_without_a_known_class_links_to_the_general_section_of_the_documentation():
    last_line = str(raised_error(job_report(-9), no_commit_in_log)).splitlines()[-1]
    assert last_line == f"Documentation: {DOCUMENTATION}/troubleshooting.md#the-task-failed-without-a-listed-error"


def test_an_error_of_the_worker_ends_the_log_after_its_folded_traceback(caplog):
    with (
        pytest.raises(AirflowFailException) as caught,
        raise_for_airflow(logging.getLogger("a.task"), lambda _: FailedTable(table="/lake/orders")),
    ):
        raise CorruptLogError("The commit 3 is no JSON.", remedy="Restore it.")
    assert str(caught.value).splitlines()[:4] == [
        "CorruptLogError: The commit 3 is no JSON.",
        "Table: /lake/orders",
        "Version: not read",
        "What to do: Restore it.",
    ]
    lines = [record.getMessage() for record in caplog.records]
    assert (lines[0], lines[-1]) == ("::group::Traceback", "::endgroup::")
    assert any("test_outcome.py" in line for line in lines)
    cause = caught.value.__cause__
    assert isinstance(cause, CorruptLogError) and cause.__traceback__ is None


def test_a_secret_that_a_storage_client_quotes_is_hidden_in_messages_and_from_airflow(caplog, monkeypatch):
    def time_out(path):
        raise OSError(f"No answer from https://lake.blob.core.windows.net/{path}?sv=1&sig=planted-1")

    masked_values = []
    monkeypatch.setattr(secrets, "mask_secret", masked_values.append)
    store = FsspecLogStore("az://lake/t", SimpleNamespace(_strip_protocol=str, cat_file=time_out))
    with pytest.raises(DeltaStorageError) as caught, raise_for_airflow(logging.getLogger("a.task")):
        store.read("_delta_log/x")
    error = caught.value.__cause__
    assert "sig=***" in str(error)
    assert "planted" not in caplog.text + str(error)
    assert "planted-1" in str(error.__cause__) and "planted-1" in masked_values, "Airflow logs the causes too"


def test_every_class_of_error_has_its_section_in_the_documentation():
    page = (Path(__file__).parents[2] / "docs" / "troubleshooting.md").read_text()
    headings = {line.removeprefix("## ") for line in page.splitlines() if line.startswith("## ")}
    classes = {name for name in vars(errors) if error_class_named(name) is not None}
    assert classes | {"The task failed without a listed error"} <= headings

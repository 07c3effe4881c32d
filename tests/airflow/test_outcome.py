"""What a submission came to: the cases of the two decisions, one by one."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

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
from deltalite.errors import CorruptLogError, InvalidTableAddressError, StorageError
from deltalite.results import JobError, OperationResult
from deltalite.version import DOCUMENTATION

RAISED = AirflowException("Cannot execute: spark-submit")
SAID = OperationResult(
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
IN_LOG = OperationResult.from_dict({**SAID.as_dict(), "committed": False, "skipped": True, "metrics": {}})


def said(exit_code, *, result=None, error=None):
    return SimpleNamespace(exit_code_of_job=lambda _raised: exit_code, result=result, error=error)


def found():
    return IN_LOG


def absent():
    return None


def never_asked():
    raise AssertionError("the log was read")


def unreadable():
    raise StorageError("no answer", remedy="Try again.")


def ended(said, find_commit):
    with pytest.raises(AirflowException) as caught:
        after_failure(said, RAISED, find_commit)
    return caught.value


def test_a_job_that_ended_well_is_believed_without_a_look_into_the_log():
    assert after_success(said(0, result=SAID), never_asked) == SAID


def test_a_lost_line_is_made_up_for_by_the_log_and_counts_as_a_commit_of_this_try():
    result = after_success(said(0), found)
    assert (result.version, result.committed, result.skipped) == (3, True, False)
    assert after_success(said(0), absent) is None


def test_an_exit_code_of_ours_that_another_try_cannot_cure_fails_the_task_at_once():
    failure = ended(said(51, error=JobError(kind="SchemaMismatchError", message="column x")), never_asked)
    assert type(failure) is AirflowFailException
    assert str(failure).splitlines()[0] == "SchemaMismatchError: column x"
    assert failure.__suppress_context__, "the command and its last lines would stand before what matters"


def test_an_exit_code_of_ours_that_another_try_can_cure_is_retried():
    failure = ended(said(84, error=JobError(kind="ConcurrentAppendException", message="lost")), never_asked)
    assert type(failure) is DeltaConflictError
    assert str(failure).splitlines()[0] == "ConcurrentAppendException: lost"


def test_a_storage_that_did_not_answer_is_another_kind_of_failure():
    assert type(ended(said(70), never_asked)) is DeltaStorageError


def test_an_error_without_its_message_still_has_its_class():
    failure = ended(said(31), never_asked)
    assert type(failure) is AirflowFailException
    assert "TableNotFoundError: The job ended with exit code 31" in str(failure)


def test_a_process_that_died_after_its_commit_has_succeeded(caplog):
    result = after_failure(said(134), RAISED, found)
    assert (result.version, result.committed, result.skipped) == (3, True, False)
    assert "Ignoring exit code 134 of the job: it had already finished version 3 of /t" in caplog.text


def test_what_the_job_said_before_it_died_is_kept_where_the_log_confirms_it():
    assert after_failure(said(134, result=SAID), RAISED, found) == SAID


def test_a_result_that_the_log_does_not_confirm_is_not_believed():
    assert type(ended(said(134, result=SAID), absent)) is DeltaJobError


def test_a_process_that_died_without_a_commit_is_retried_and_a_kill_is_explained():
    failure = ended(said(-9), absent)
    assert type(failure) is DeltaJobError
    assert str(failure).startswith("The job was killed, often because memory ran out") and str(RAISED) in str(failure)


def test_an_error_that_was_said_counts_where_the_exit_code_says_nothing():
    error = JobError(kind="ConstraintViolationError", message="null")
    assert type(ended(said(1, error=error), absent)) is AirflowFailException
    failure = ended(said(1, error=JobError(kind="AnalysisException", message="no column x")), absent)
    assert type(failure) is DeltaJobError
    assert str(failure).splitlines()[0] == "AnalysisException: no column x"


def test_a_job_that_could_not_tell_is_answered_by_the_log():
    error = JobError(kind="CommitStateUnknownError", message="no answer")
    assert after_failure(said(90, error=error), RAISED, found).version == 3
    failure = ended(said(90, error=error), absent)
    assert type(failure) is AirflowFailException
    assert str(failure).splitlines()[0] == "CommitStateUnknownError: no answer"


def test_a_log_that_cannot_be_read_does_not_hide_the_failure_of_the_job(caplog):
    assert str(ended(said(134), unreadable)).splitlines()[0] == str(RAISED)
    assert "does not know whether the job committed" in caplog.text


def test_the_message_is_a_block_with_all_that_matters_and_no_line_of_it_is_a_command():
    error = JobError(kind="SchemaMismatchError", message="column 'x\n::endgroup::' Cast it.", remedy="Cast it.")
    with pytest.raises(AirflowException) as caught:
        after_failure(said(51, error=error), RAISED, never_asked, lambda: FailedTable(table="/lake/orders", version=7))
    assert str(caught.value).splitlines() == [
        "SchemaMismatchError: column 'x",
        "    : :endgroup::'",
        "Table: /lake/orders",
        "Version: 7, the newest",
        "What to do: Cast it.",
        f"Documentation: {DOCUMENTATION}/troubleshooting.md#schemamismatcherror",
    ]


def test_the_block_shows_no_secret_since_callbacks_get_it_too():
    table = FailedTable(table="s3://key:planted-secret@bucket/t")
    error = failure(
        InvalidTableAddressError, "source has password=planted-secret.", "Not token=planted-secret.", table=table
    )
    assert "planted" not in str(error) and "s3://key:***@bucket/t" in str(error)


def test_an_error_that_is_not_ours_is_explained_in_its_own_section():
    last = str(ended(said(-9), absent)).splitlines()[-1]
    assert last == f"Documentation: {DOCUMENTATION}/troubleshooting.md#the-task-failed-without-one-of-these"


def test_an_error_of_this_worker_is_the_end_of_the_log_and_its_frames_are_a_group_above(caplog):
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


def test_every_class_of_error_has_its_section_in_the_documentation():
    page = (Path(__file__).parents[2] / "docs" / "troubleshooting.md").read_text()
    headings = {line.removeprefix("## ") for line in page.splitlines() if line.startswith("## ")}
    classes = {name for name in vars(errors) if error_class_named(name) is not None}
    assert classes | {"The task failed without one of these"} <= headings

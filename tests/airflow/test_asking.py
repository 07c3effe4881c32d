"""A task with an audit of level `ask` waits for a person, and runs its job again after an approval.

The job and Airflow's questions are stand-ins. Each test resumes the task with a new operator, as another worker does.
"""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from airflow.providers.common.compat.sdk import DAG, AirflowFailException
from airflow.sdk.execution_time import hitl

from airflow_provider_deltalite.failures import DeltaApprovalNeeded
from airflow_provider_deltalite.operators import _ask
from airflow_provider_deltalite.operators.delta import (
    DeltaCheckOperator,
    DeltaCopyOperator,
    DeltaDeleteOperator,
    DeltaWriteOperator,
)
from deltalite.errors import InstallationError, InvalidRequestError
from tests.support.airflow_versions import since_3_3
from tests.support.asking import AskingJob, answer, code_in, wait_of

AUDIT = {"name": "customers", "rows": "customer IS NULL", "level": "ask"}


@pytest.fixture
def job(table, spark_submit, tmp_path):
    """The job of the task. Its audit measures three bad rows."""
    table.create()
    asking_job = AskingJob(tmp_path)
    asking_job.set_bad_rows(3)
    spark_submit.set_script(asking_job.program)
    return asking_job


@pytest.fixture
def questions(monkeypatch):
    """The questions that tasks have written to Airflow."""
    written = []
    monkeypatch.setattr(hitl, "upsert_hitl_detail", lambda **values: written.append(values))
    return written


@pytest.fixture
def context(context):
    context["ti"].id = "0199a0d4-0000-7000-8000-000000000001"
    return context


def task(table, **parameters):
    defaults = {"task_id": "load", "table": str(table), "source": {"format": "csv"}, "retries": 2, "audits": [AUDIT]}
    return DeltaWriteOperator(**{**defaults, **parameters})


def resume(operator, wait, context, event):
    return operator.resume_execution(wait.method_name, {**wait.kwargs, "event": event}, context)


def commit_count(table):
    """The number of commits after version 0."""
    return len(list((table.root / "_delta_log").glob("*.json"))) - 1


def test_the_question_has_the_values_and_samples_and_the_slot_is_free(table, context, job, questions):
    notified = []
    ask = {
        "timeout": timedelta(hours=2),
        "default": "reject",
        "assigned_users": {"id": "7", "name": "Ada"},
        "notifiers": [notified.append, lambda _context: 1 / 0],
    }
    wait = wait_of(lambda: task(table, ask=ask).execute(context))
    (question,) = questions
    assert question["ti_id"] == context["ti"].id
    assert question["subject"] == f"Publish rows in {table}?"
    assert question["options"] == ["Publish", "Reject"]
    assert question["defaults"] == ["Reject"]
    assert question["assigned_users"] == [{"id": "7", "name": "Ada"}]
    assert "'customers' (rows on new_rows): measured 3 of 9 rows, allowed max_rows=0" in question["body"]
    assert '\n    {"customer": null, "note": "```\\n# x"}\n' in question["body"]
    assert "\n    Rows in /f.\n" in question["body"]
    assert notified == [context]
    assert wait.trigger is not None or wait.timeout == timedelta(hours=2)
    assert "note" not in json.dumps(wait.kwargs), "Airflow's database has sample rows only in the question"
    assert commit_count(table) == 0


def test_an_approval_runs_the_job_again_and_the_commit_names_the_person(table, context, job, questions):
    wait = wait_of(lambda: task(table).execute(context))
    result = resume(task(table), wait, context, answer("Publish", code=code_in(questions[0])))
    assert (result["version"], result["committed"], job.runs) == (1, True, 2)
    (audit,) = result["audits"]
    assert (audit["passed"], audit["measured"], audit["accepted_by"]) == (False, 3, "Ada (id 7)")
    assert audit["accepted_at"] == "2026-01-01T12:00:00+00:00"
    assert "note" not in json.dumps(result)
    # A retry of a killed attempt returns the attempt's commit, and nobody is asked.
    context["ti"].try_number = 2
    retry_result = task(table).execute(context)
    assert (retry_result["skipped"], retry_result["version"], job.runs, len(questions)) == (True, 1, 2, 1)
    assert retry_result["audits"][0]["accepted_by"] == "Ada (id 7)"


def test_a_rejection_and_a_timeout_fail_the_task_for_good(table, context, job, questions):
    wait = wait_of(lambda: task(table).execute(context))
    with pytest.raises(AirflowFailException, match=r"Error: Ada \(id 7\) rejected rows of .*measured 3 of 9 rows"):
        resume(task(table), wait, context, answer("Reject", code=code_in(questions[0])))
    timeout = {"error": "The timeout has passed", "error_type": "timeout"}
    with pytest.raises(AirflowFailException, match="AuditFailedError: Nobody decided in time"):
        resume(task(table), wait, context, timeout)
    with pytest.raises(AirflowFailException, match="could not read the decision"):
        resume(task(table), wait, context, {"error": "x", "error_type": "validation"})
    with pytest.raises(AirflowFailException, match="default after the timeout rejected"):
        resume(task(table), wait, context, answer("Reject", code=code_in(questions[0]), user=None))
    assert (job.runs, commit_count(table)) == (1, 0)


def test_the_default_after_the_timeout_can_publish(table, context, job, questions):
    wait = wait_of(lambda: task(table).execute(context))
    default = answer("Publish", code=code_in(questions[0]), user=None)
    # Airflow keeps the default of the first question of a task.
    with pytest.raises(AirflowFailException, match="the parameter `ask` no longer has it"):
        resume(task(table), wait, context, default)
    ask = {"timeout": timedelta(hours=2), "default": "publish"}
    result = resume(task(table, ask=ask), wait, context, default)
    assert result["audits"][0]["accepted_by"] == "default after the timeout"


def test_only_a_user_who_is_assigned_now_can_accept_values(table, context, job, questions, capsys):
    ask = {"assigned_users": {"id": 8, "name": "Bob"}}
    wait = wait_of(lambda: task(table).execute(context))
    accepting = answer("Publish", code=code_in(questions[0]))
    second_wait = wait_of(lambda: resume(task(table, ask=ask), wait, context, accepting))
    assert (second_wait.kwargs, job.runs) == (wait.kwargs, 1)
    assert "Ada (id 7) may not accept these values any more" in capsys.readouterr().out
    task_with_ada = task(table, ask={"assigned_users": {"id": "7", "name": "A"}})
    assert resume(task_with_ada, second_wait, context, accepting)["committed"]


def test_the_task_asks_again_if_values_got_worse_and_only_the_new_code_accepts_them(
    table, context, job, questions, capsys
):
    wait = wait_of(lambda: task(table).execute(context))
    old_code = code_in(questions[0])
    job.set_bad_rows(4)
    wait = wait_of(lambda: resume(task(table), wait, context, answer("Publish", code=old_code)))
    assert (job.runs, commit_count(table), len(questions)) == (2, 0, 2)
    new_code = code_in(questions[1])
    assert new_code != old_code
    log = capsys.readouterr().out
    assert "asks again, because the number of bad rows and their share got worse: measured 4 of 9 rows" in log
    assert "\n# x" not in log
    # Airflow still shows the first question, so an answer with its code, or without a code, runs no job.
    wait = wait_of(lambda: resume(task(table), wait, context, answer("Publish", code=old_code)))
    wait = wait_of(lambda: resume(task(table), wait, context, answer("Publish", params=False)))
    ask = {"timeout": timedelta(hours=2), "default": "publish"}
    with pytest.raises(AirflowFailException, match="The default belongs to an older question"):
        resume(task(table, ask=ask), wait, context, answer("Publish", code=old_code, user=None))
    assert job.runs == 2
    result = resume(task(table), wait, context, answer("Publish", code=f" {new_code} "))
    assert (result["version"], result["audits"][0]["measured"], job.runs) == (1, 4, 3)


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"mode": "overwrite"}, "parameter mode"),
        ({"source": {"format": "csv", "path": "/b"}}, "parameter sources"),
        ({"audits": [{**AUDIT, "max_rows": 1}]}, "audit 'customers'"),
        ({"audits": [{**AUDIT, "name": "other"}]}, "audit 'customers', audit 'other'"),
    ],
    ids=str,
)
def test_an_approval_does_not_count_for_a_changed_request(table, context, job, questions, capsys, changes, part):
    wait = wait_of(lambda: task(table).execute(context))
    approving = answer("Publish", code=code_in(questions[0]))
    wait = wait_of(lambda: resume(task(table, **changes), wait, context, approving))
    assert (job.runs, commit_count(table), len(questions)) == (2, 0, 2)
    assert f"the request changed while the task waited: {part}." in capsys.readouterr().out
    assert code_in(questions[0]) != code_in(questions[1])
    result = resume(task(table, **changes), wait, context, answer("Publish", code=code_in(questions[1])))
    assert result["audits"][0]["accepted_by"] == "Ada (id 7)"


def test_an_approval_does_not_count_for_another_table(table, context, job, questions, tmp_path, capsys):
    wait = wait_of(lambda: task(table).execute(context))
    other = type(table)(tmp_path / "other")
    other.create()
    wait_of(lambda: resume(task(other), wait, context, answer("Publish", code=code_in(questions[0]))))
    assert "the request changed while the task waited: table." in capsys.readouterr().out
    assert (commit_count(table), commit_count(other)) == (0, 0)


def test_an_answer_without_a_code_accepts_only_the_first_question_of_a_task(table, context, job, questions):
    wait = wait_of(lambda: task(table).execute(context))
    assert resume(task(table), wait, context, answer("Publish", params=False))["committed"]


@since_3_3
def test_the_first_question_of_a_later_attempt_needs_no_code(table, context, job, questions):
    context["ti"].try_number = 2
    wait = wait_of(lambda: task(table).execute(context))
    assert resume(task(table), wait, context, answer("Publish", params=False))["committed"]


@since_3_3
def test_after_an_answer_the_task_does_not_join_the_job_that_asked(table, context, job, questions):
    state = context["task_state_store"]
    first_keys = ("spark_job_id_0", "deltalite_nonce_0", "k8s_driver_status_0")
    for key in first_keys:
        state.set(key, "the job that asked")
    wait = wait_of(lambda: task(table, durable=False).execute(context))
    assert not set(first_keys) & set(state.values)
    assert resume(task(table), wait, context, answer("Publish", code=code_in(questions[0])))["committed"]


def test_a_retry_or_a_cleared_task_asks_again(table, context, job, questions):
    wait_of(lambda: task(table).execute(context))
    context["ti"].try_number = 2
    wait = wait_of(lambda: task(table).execute(context))
    assert len(questions) == 2
    wait_of(lambda: resume(task(table), wait, context, answer("Publish", params=False)))
    assert commit_count(table) == 0


def test_a_task_succeeds_if_its_job_is_killed_after_the_commit(table, context, job, questions):
    wait = wait_of(lambda: task(table).execute(context))
    job.kill_after_commit()
    result = resume(task(table), wait, context, answer("Publish", code=code_in(questions[0])))
    assert (result["version"], result["committed"], result["audits"][0]["accepted_by"]) == (1, True, "Ada (id 7)")


def test_a_kill_of_a_waiting_task_does_nothing(table, context, job, questions):
    operator = task(table)
    wait_of(lambda: operator.execute(context))
    operator.on_kill()
    assert commit_count(table) == 0


def test_a_question_that_does_not_reach_the_worker_fails_the_task(table, spark_submit, context, questions):
    table.create()
    spark_submit.set_script("sys.exit(110)")
    with pytest.raises(DeltaApprovalNeeded, match="ended with exit code 110") as failure:
        task(table).execute(context)
    assert "so nobody was asked" in str(failure.value)
    assert not questions


def test_a_mapped_delete_asks_too(table, context, job, questions):
    context["ti"].map_index = 3
    operator = DeltaDeleteOperator(task_id="load", table=str(table), condition="id = 1", audits=[AUDIT])
    wait = wait_of(lambda: operator.execute(context))
    result = resume(operator, wait, context, answer("Publish", code=code_in(questions[0])))
    assert result["app_id"].split("/")[3] == "3"


@pytest.mark.parametrize(
    ("ask", "problem"),
    [
        ([], "not a mapping"),
        ({"users": []}, "unknown key 'users'"),
        ({"timeout": 5}, "ask.timeout is 5"),
        ({"timeout": timedelta(0)}, "ask.timeout"),
        ({"timeout": timedelta(1), "default": "yes"}, "ask.default is 'yes'"),
        ({"default": "publish"}, "no effect without ask.timeout"),
        ({"assigned_users": ["me"]}, "ask.assigned_users"),
        ({"assigned_users": []}, "ask.assigned_users"),
        ({"assigned_users": {"id": None, "name": "me"}}, "ask.assigned_users"),
        ({"notifiers": "me"}, "ask.notifiers"),
    ],
    ids=str,
)
def test_wrong_settings_are_rejected_when_the_dag_is_parsed(ask, problem):
    with pytest.raises(InvalidRequestError, match=problem):
        task("/t", ask=ask)
    with pytest.raises(InvalidRequestError, match=problem):
        DeltaDeleteOperator(task_id="t", table="/t", condition="a", ask=ask)
    with pytest.raises(InvalidRequestError, match=problem):
        DeltaCopyOperator(task_id="t", table="/t", source={"format": "csv", "path": "/in/*"}, ask=ask)


def test_a_dag_can_set_ask_in_its_default_arguments_for_tasks_that_never_ask():
    with DAG("sales", schedule=None, default_args={"ask": {"timeout": timedelta(hours=2)}}):
        operator = task("/t", audits=[{**AUDIT, "level": "warn"}])
    assert operator.ask == {"timeout": timedelta(hours=2)}


@pytest.mark.parametrize("version", ["1.9.0", "1.20.3", "1.20rc1"])
def test_an_old_provider_is_refused_when_the_dag_is_parsed(monkeypatch, version):
    monkeypatch.setattr(_ask, "version", lambda name: version)
    with pytest.raises(InstallationError, match=f"do not work with apache-airflow-providers-standard {version}"):
        task("/t")


@pytest.mark.parametrize("version", ["1.21", "1.100.0", "2.0rc1", "2"])
def test_a_newer_provider_can_ask(monkeypatch, version):
    monkeypatch.setattr(_ask, "version", lambda name: version)
    task("/t")


def test_a_check_cannot_ask():
    with pytest.raises(InvalidRequestError, match="a check publishes no rows"):
        DeltaCheckOperator(task_id="t", table="/t", audits=[AUDIT])


def test_an_airflow_without_questions_is_refused_before_anything_is_written(table, monkeypatch, context, job):
    operator = task(table)
    monkeypatch.setattr(_ask, "find_spec", lambda name: None)
    with pytest.raises(InstallationError, match="need Airflow's human-in-the-loop"):
        task(table)
    with pytest.raises(AirflowFailException, match="human-in-the-loop"):
        operator.execute(context)
    assert job.runs == 0


@since_3_3
def test_a_waiting_task_has_the_same_state_as_airflows_operator(table, context, job, questions):
    from airflow.sdk.exceptions import TaskAwaitingInput

    with pytest.raises(TaskAwaitingInput):
        task(table).execute(context)

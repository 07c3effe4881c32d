"""Operators with `submit_with`: the submitter of the example for Livy, against a server with Livy's contract.

`spark-submit` beside the server is a stand-in. `tests/examples/test_livy_submitter.py` runs the same submitter with
Spark.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, AirflowTaskTimeout, TaskDeferred
from airflow.sdk.execution_time import hitl

from airflow_provider_deltalite.failures import DeltaConflictError, DeltaJobError
from airflow_provider_deltalite.job_submitter import JobState
from airflow_provider_deltalite.operators import _deferral, _service_submission
from airflow_provider_deltalite.triggers.driver import SparkDriverTrigger
from deltalite.errors import InvalidRequestError
from tests.support.airflow_versions import since_3_3
from tests.support.asking import AskingJob, answer, code_in, wait_of
from tests.support.background_tasks import BackgroundTask
from tests.support.livy_server import PATH_OF_EXAMPLE, import_example, livy_server
from tests.support.stand_in_jobs import APP_ID, PRINT_ERROR, PRINT_RESULT, job_that_commits
from tests.support.stand_in_jobs import operator as make_operator
from tests.support.waiting import wait_until

RUN_FOR_A_WHILE = "import time\nfor _ in range(600): time.sleep(0.1)\n"


@pytest.fixture
def livy_module(monkeypatch):
    """The module of the example submitter."""
    return import_example(monkeypatch)


@pytest.fixture
def staging(tmp_path):
    return tmp_path / "staging"


@pytest.fixture
def livy(livy_module, spark_submit, staging, table, monkeypatch):
    """A Livy server, and the connection `livy` to it. The table exists."""
    monkeypatch.setattr(_service_submission, "_MIN_PAUSE_SECONDS", 0.1)
    table.create()
    with livy_server(staging) as server:
        connection = {
            "conn_type": "http", "host": "127.0.0.1", "port": server.http.server_port,
            "extra": {"staging": f"file://{staging}"},
        }  # fmt: skip
        monkeypatch.setenv("AIRFLOW_CONN_LIVY", json.dumps(connection))
        yield server


def operator(table, **parameters):
    defaults = {"submit_with": PATH_OF_EXAMPLE, "conn_id": "livy", "shared_folder": True, "status_poll_interval": 0}
    return make_operator(table, **{**defaults, **parameters})


def run_attempt_whose_worker_dies(table, context, monkeypatch) -> None:
    """Run an attempt of the task. Its worker dies while it waits for the job."""

    def die(*_):
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(_service_submission.ServiceSubmission, "_read_state", die)
        with pytest.raises(SystemExit):
            operator(table).execute(context)


def copies(staging) -> list[str]:
    return sorted(path.name for path in staging.rglob("*")) if staging.exists() else []


def test_the_service_gets_the_job_and_its_log_has_the_result(table, livy, spark_submit, context, staging, capsys):
    spark_submit.set_script(PRINT_RESULT)
    task = operator(
        table, conf={"spark.x": "1"}, driver_memory="2G", py_files="file://" + str(staging / "mine.py"), name="etl"
    )
    result = task.execute(context)
    assert (result["version"], result["metrics"]) == (4, {"numOutputRows": 2})
    assert len(livy.created) == 1
    argv = spark_submit.argv
    assert argv[argv.index("--name") + 1].startswith("etl ")
    assert argv[argv.index("--driver-memory") + 1] == "2G"
    assert "spark.x=1" in argv
    assert [Path(file).suffix for file in argv[argv.index("--py-files") + 1].split(",")] == [".zip", ".py"]
    assert argv[-2].endswith("/write.py") and argv[-1].startswith("deltalite-request-")
    assert copies(staging) == [], "the operator removes the copies"
    log = capsys.readouterr().out
    assert "WARN SparkContext: Running" in log and "DELTALITE-RESULT" not in log


def test_an_object_can_be_given_instead_of_a_path(table, livy, livy_module, spark_submit, context):
    spark_submit.set_script(PRINT_RESULT)
    task = operator(table, submit_with=livy_module.LivySubmitter("livy"), conn_id="spark_default")
    assert task.execute(context)["version"] == 4


@pytest.mark.parametrize(
    ("kind", "code", "error_class"),
    [("SchemaMismatchError", 51, AirflowFailException), ("ConcurrentAppendException", 84, DeltaConflictError)],
)
def test_the_error_in_the_log_decides_whether_the_task_is_retried(
    table, livy, spark_submit, context, staging, kind, code, error_class
):
    spark_submit.set_script(PRINT_ERROR.format(kind=kind, code=code))
    with pytest.raises(AirflowException, match=f"{kind}: column x does not exist") as caught:
        operator(table).execute(context)
    assert type(caught.value) is error_class
    assert copies(staging) == []


def test_a_job_that_dies_after_its_commit_is_a_success(table, livy, spark_submit, context):
    spark_submit.set_script(job_that_commits(table, exit_code=134))
    result = operator(table).execute(context)
    assert (result["version"], result["committed"], result["skipped"]) == (1, True, False)


def test_a_job_that_dies_without_a_commit_is_retried(table, livy, spark_submit, context):
    spark_submit.set_script("sys.exit(134)")
    with pytest.raises(DeltaJobError, match=r"The job 0/\w+ failed"):
        operator(table).execute(context)


def test_a_deferred_job_asks_a_person_and_runs_again_with_the_approval(
    table, livy, spark_submit, context, tmp_path, monkeypatch
):
    job, questions = AskingJob(tmp_path), []
    job.set_bad_rows(3)
    spark_submit.set_script(job.program)
    context["ti"].id = "0199a0d4-0000-7000-8000-000000000001"
    monkeypatch.setattr(hitl, "upsert_hitl_detail", lambda **values: questions.append(values))
    audits = [{"name": "customers", "rows": "customer IS NULL", "level": "ask"}]

    def task():
        return operator(table, deferrable=True, audits=audits, execution_timeout=timedelta(hours=1))

    def resume(wait, event):
        return task().resume_execution(wait.method_name, {**wait.kwargs, "event": event}, context)

    ended = {"status": "ended", "message": ""}
    context["ti"].start_date = datetime.now(UTC) - timedelta(hours=5)
    driver_wait = wait_of(lambda: task().execute(context))
    person_wait = wait_of(lambda: resume(driver_wait, ended))
    approved = answer("Publish", code=code_in(questions[0]))
    second_driver_wait = wait_of(lambda: resume(person_wait, approved))
    deadline_ms = second_driver_wait.trigger.serialize()[1]["deadline_ms"]
    assert deadline_ms > datetime.now(UTC).timestamp() * 1000, "the time in which the person decides does not count"
    monkeypatch.setattr(_deferral, "_now_ms", lambda: deadline_ms - 60_000)  # a minute before the deadline
    # Airflow 3.3 resumes the deferred task if a person answers again. It waits for its driver again.
    same_driver_wait = wait_of(lambda: resume(second_driver_wait, approved))
    assert same_driver_wait.method_name == "execute_complete"
    assert same_driver_wait.kwargs == second_driver_wait.kwargs
    assert same_driver_wait.trigger.serialize() == second_driver_wait.trigger.serialize(), "the deadline stays"
    result = resume(same_driver_wait, ended)
    assert (result["version"], result["audits"][0]["accepted_by"], job.runs) == (1, "Ada (id 7)", 2)


def test_a_task_that_is_not_deferrable_any_more_waits_on_the_worker(table, livy, spark_submit, context):
    spark_submit.set_script(PRINT_RESULT)
    driver_wait = wait_of(lambda: operator(table, deferrable=True).execute(context))
    foreign_event = answer("Publish", code="q1")
    task = operator(table, deferrable=False)
    result = task.resume_execution(driver_wait.method_name, {**driver_wait.kwargs, "event": foreign_event}, context)
    assert result["version"] == 4


@since_3_3
def test_a_retry_joins_a_job_that_still_runs(table, livy, spark_submit, context, staging, monkeypatch):
    spark_submit.set_script("import time; time.sleep(2)\n" + PRINT_RESULT)
    run_attempt_whose_worker_dies(table, context, monkeypatch)
    assert copies(staging) != [], "the job may still read the copies"
    assert operator(table).execute(context)["version"] == 4, "the retry knows the nonce of the job"
    assert len(livy.created) == 1
    assert copies(staging) == []


@since_3_3
def test_a_retry_joins_a_job_although_the_service_does_not_answer_at_first(
    table, livy, livy_module, spark_submit, context, monkeypatch
):
    spark_submit.set_script("import time; time.sleep(2)\n" + PRINT_RESULT)
    run_attempt_whose_worker_dies(table, context, monkeypatch)
    failures = [ConnectionError("no route"), ConnectionError("no route")]
    read_state = livy_module.LivySubmitter.state

    def fail_twice(submitter, job_id):
        if failures:
            raise failures.pop()
        return read_state(submitter, job_id)

    monkeypatch.setattr(livy_module.LivySubmitter, "state", fail_twice)
    assert operator(table).execute(context)["version"] == 4
    assert not failures and len(livy.created) == 1


@since_3_3
def test_a_retry_submits_a_new_job_if_the_service_has_another_job_under_the_same_number(
    table, livy, spark_submit, context, monkeypatch
):
    """Livy counts from zero again after a restart."""
    spark_submit.set_script(PRINT_RESULT)
    run_attempt_whose_worker_dies(table, context, monkeypatch)
    livy.batches[0].name = "the job of another user"
    assert operator(table).execute(context)["version"] == 4
    assert len(livy.created) == 2


def test_a_stopped_task_kills_its_job(table, livy, spark_submit, context, staging):
    spark_submit.set_script(RUN_FOR_A_WHILE)
    task = operator(table)
    with BackgroundTask(lambda: task.execute(context)) as background:
        wait_until(lambda: livy.requests)
        task.on_kill()
    assert [type(error) for error in background.errors] == [DeltaJobError]
    assert livy.deleted == [0]
    assert copies(staging) == []


def test_a_deferred_task_is_finished_by_another_worker(table, livy, spark_submit, context, staging):
    spark_submit.set_script(PRINT_RESULT)
    with pytest.raises(TaskDeferred) as caught:
        operator(table, deferrable=True, conf={"spark.my.password": "planted"}).execute(context)
    deferral = caught.value
    path, arguments = deferral.trigger.serialize()
    stored = json.dumps([path, arguments, deferral.kwargs])
    assert "planted" not in stored
    assert arguments["submitter"] == [PATH_OF_EXAMPLE, {"conn_id": "livy"}]
    assert copies(staging) != []
    trigger = SparkDriverTrigger(**json.loads(json.dumps(arguments)))
    livy.batches[0]._reader.join()
    assert trigger._state() == "ended"
    kwargs = {**json.loads(json.dumps(deferral.kwargs)), "event": {"status": "ended", "message": ""}}
    assert operator(table, deferrable=True).resume_execution(deferral.method_name, kwargs, context)["version"] == 4
    assert copies(staging) == []


def test_the_trigger_kills_a_deferred_job(table, livy, spark_submit, context, staging):
    spark_submit.set_script(RUN_FOR_A_WHILE)
    wait_of(lambda: operator(table, deferrable=True).execute(context)).trigger._kill()
    assert livy.deleted == [0]
    assert copies(staging) == []


def test_a_worker_kills_a_deferred_job_at_the_deadline(table, livy, spark_submit, context, staging):
    spark_submit.set_script(RUN_FOR_A_WHILE)
    deferral = wait_of(lambda: operator(table, deferrable=True).execute(context))
    kwargs = {**deferral.kwargs, "event": {"status": "timeout", "message": ""}}
    with pytest.raises(AirflowTaskTimeout):
        operator(table).resume_execution(deferral.method_name, kwargs, context)
    assert livy.deleted == [0]
    assert copies(staging) == []


def test_the_trigger_removes_the_files_of_a_job_that_it_cannot_kill(
    table, livy, livy_module, spark_submit, context, staging, monkeypatch, caplog
):
    spark_submit.set_script(RUN_FOR_A_WHILE)
    trigger = wait_of(lambda: operator(table, deferrable=True).execute(context)).trigger
    monkeypatch.setattr(livy_module.LivySubmitter, "kill", lambda *_: _raise(OSError("no route")))
    trigger._kill()
    assert copies(staging) == []
    assert "Could not kill the job" in caplog.text and "which may still run and commit: no route" in caplog.text
    assert "Could not remove the files" not in caplog.text


def test_the_trigger_says_which_of_the_two_steps_of_a_kill_failed(
    table, livy, livy_module, spark_submit, context, monkeypatch, caplog
):
    spark_submit.set_script(RUN_FOR_A_WHILE)
    trigger = wait_of(lambda: operator(table, deferrable=True).execute(context)).trigger
    monkeypatch.setattr(livy_module.LivySubmitter, "clean_up", lambda *_: _raise(OSError("no space")))
    trigger._kill()
    assert livy.deleted == [0]
    assert "Could not remove the files of the job" in caplog.text and "no space" in caplog.text
    assert "Could not kill" not in caplog.text


def test_a_service_that_does_not_answer_for_a_while_does_not_fail_the_task(
    table, livy, livy_module, spark_submit, context, monkeypatch, capsys
):
    spark_submit.set_script(PRINT_RESULT)
    state, errors = livy_module.LivySubmitter.state, [OSError("the network is down")] * 2
    monkeypatch.setattr(
        livy_module.LivySubmitter, "state", lambda *arguments: _raise(errors.pop()) if errors else state(*arguments)
    )
    assert operator(table).execute(context)["version"] == 4
    assert "Could not read the state of the job" in capsys.readouterr().out


def _raise(error):
    raise error


def test_a_job_that_the_service_has_lost_fails_the_attempt(table, livy, spark_submit, context, staging, monkeypatch):
    spark_submit.set_script(RUN_FOR_A_WHILE)
    monkeypatch.setattr(livy, "create", lambda path, body: _create_and_lose(livy, path, body))
    with pytest.raises(DeltaJobError, match="no longer exists"):
        operator(table).execute(context)
    assert copies(staging) == []


def _create_and_lose(server, path, body):
    answer = type(server).create(server, path, body)
    server.batches.clear()
    return answer


def test_the_operator_keeps_the_files_of_a_job_whose_service_refuses_requests(
    table, livy, livy_module, spark_submit, context, staging, monkeypatch
):
    """The job may run, so its files stay for the next attempt, which joins it."""
    spark_submit.set_script(RUN_FOR_A_WHILE)
    refusal = InvalidRequestError("no access", remedy="log in")
    monkeypatch.setattr(livy_module.LivySubmitter, "state", lambda *_: _raise(refusal))
    with pytest.raises(DeltaJobError, match="which may still run: no access"):
        operator(table).execute(context)
    assert copies(staging) != []


def test_the_log_of_a_job_may_be_lost(table, livy, livy_module, spark_submit, context, monkeypatch):
    spark_submit.set_script(job_that_commits(table))
    monkeypatch.setattr(livy_module.LivySubmitter, "read_log", lambda *_: _raise(OSError("no log")))
    assert operator(table).execute(context)["app_id"] == APP_ID


def test_the_submitter_rejects_a_parameter_that_the_service_does_not_know(table, livy, context, staging):
    with pytest.raises(AirflowFailException, match="Livy has no field for keytab"):
        operator(table, keytab="/k").execute(context)
    assert livy.created == [] and copies(staging) == []


def test_a_refused_batch_leaves_no_copies(table, livy, context, staging):
    with pytest.raises(AirflowFailException, match="cannot be added to user sessions"):
        operator(table, files="file:///etc/passwd").execute(context)
    assert copies(staging) == []


def test_a_local_table_is_rejected_unless_the_author_confirms_that_it_is_shared(table, livy, context):
    with pytest.raises(AirflowFailException, match="LivySubmitter runs the job elsewhere"):
        operator(table, shared_folder=False).execute(context)


@pytest.mark.parametrize("path", ["livy_of_example.Missing", "no_such_module.LivySubmitter"])
def test_a_path_that_names_no_class_fails_for_good(table, livy, context, path):
    with pytest.raises(AirflowFailException, match="Could not make the job submitter"):
        operator(table, submit_with=path).execute(context)


def test_a_name_without_a_module_is_an_import_error_of_the_dag(table):
    with pytest.raises(InvalidRequestError, match="submit_with is 'livy'"):
        operator(table, submit_with="livy")


def test_the_states_of_livy_between_start_and_end_count_as_running(livy_module):
    assert {livy_module.STATES.get(state, JobState.RUNNING) for state in ("starting", "recovering", "busy")} == {
        JobState.RUNNING
    }

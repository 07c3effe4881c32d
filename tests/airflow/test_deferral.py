"""Operators give the worker's slot back while their driver runs in a cluster, and finish the task afterwards.

The clusters and `spark-submit` are stand-ins. Each test resumes the task with a new operator, as another worker does.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowTaskTimeout, TaskDeferred

from airflow_provider_deltalite.failures import DeltaConflictError, DeltaJobError
from airflow_provider_deltalite.operators.delta import DeltaCheckpointOperator, DeltaWriteOperator
from airflow_provider_deltalite.triggers.driver import SparkDriverTrigger
from deltalite.markers import error_marker, result_marker
from deltalite.results import OperationResult
from tests.support.airflow_versions import since_3_3
from tests.support.clusters.yarn import write_sites
from tests.support.kubernetes_client import NAMESPACE, POD
from tests.support.resource_manager import PRINT_YARN_ID, RUNNING_STATE, YARN_ID
from tests.support.stand_in_jobs import APP_ID, commit_as_driver, job_that_commits

TRACEBACK = """Traceback (most recent call last):
  File "write.py", line 1, in <module>
deltalite.errors.SchemaMismatchError: the column x is missing"""
ENDED = {"status": "ended", "message": ""}


def operator(table, **parameters) -> DeltaWriteOperator:
    """The task `load`, which defers. It confirms that the cluster shares the folder of the table."""
    defaults = {"task_id": "load", "table": str(table), "source": {"format": "csv", "path": "/in"}, "retries": 2}
    return DeltaWriteOperator(**{**defaults, "shared_folder": True, "deferrable": True, **parameters})


def deferral_of(task, context) -> TaskDeferred:
    """Run a task until it defers."""
    with pytest.raises(TaskDeferred) as caught:
        task.execute(context)
    return caught.value


def resume(task, deferral: TaskDeferred, context, event=ENDED):
    """Resume a task as Airflow does, with arguments that were stored as JSON."""
    kwargs = {**json.loads(json.dumps(deferral.kwargs)), "event": event}
    return task.resume_execution(deferral.method_name, kwargs, context)


@pytest.fixture
def yarn_with_job(table, spark_submit, yarn):
    """A table, and a YARN cluster in which the submitted application runs."""
    table.create()
    spark_submit.set_script(PRINT_YARN_ID)
    yarn.answers = [RUNNING_STATE]
    return yarn


def test_a_task_in_yarn_defers_after_the_submission_and_returns_the_result_afterwards(
    table, spark_submit, context, yarn_with_job
):
    deferral = deferral_of(operator(table), context)
    assert "spark.yarn.submit.waitAppCompletion=false" in spark_submit.argv
    path, arguments = deferral.trigger.serialize()
    assert path == "airflow_provider_deltalite.triggers.driver.SparkDriverTrigger"
    assert (arguments["conn_id"], arguments["driver_id"], arguments["poll_interval"]) == ("spark_default", YARN_ID, 10)
    assert (deferral.timeout, arguments["deadline_ms"]) == (None, None)
    commit_as_driver(table)
    spark_submit.call_file.unlink()
    yarn_with_job.answers = [yarn_with_job.finished_state()]
    result = resume(operator(table), deferral, context)
    assert (result["version"], result["committed"], result["skipped"]) == (1, True, False)
    assert not spark_submit.was_called
    assert list(context["outlet_events"].events) == []


@pytest.mark.parametrize("has_state_store", [pytest.param(True, marks=since_3_3), False])
def test_a_task_whose_deferral_has_lost_its_values_returns_the_commit_of_its_job(
    table, spark_submit, context, yarn_with_job, has_state_store
):
    if not has_state_store:
        context.pop("task_state_store", None)
    deferral_of(operator(table), context)
    spark_submit.call_file.unlink()
    commit_as_driver(table)
    yarn_with_job.answers = [yarn_with_job.finished_state()]
    result = operator(table).resume_execution("execute_complete", {"event": ENDED}, context)
    assert (result["version"], result["skipped"]) == (1, True)
    assert not spark_submit.was_called


@since_3_3
def test_a_task_whose_deferral_has_lost_its_values_joins_its_job(table, spark_submit, context, kubernetes, capsys):
    deferral = deferral_of(operator(table), context)
    spark_submit.call_file.unlink()
    kubernetes.phases = ["Succeeded"]
    kubernetes.log = f"{result_marker(result_of_job(table), nonce=deferral.kwargs['nonce'])}\n"
    result = operator(table).resume_execution("execute_complete", {"event": ENDED}, context)
    assert (result["version"], result["committed"]) == (7, True)
    assert not spark_submit.was_called
    assert "continues as a retry" in capsys.readouterr().out


def result_of_job(table) -> OperationResult:
    """The result of a job that has made version 7."""
    return OperationResult(
        table=str(table), operation="WRITE", version=7, read_version=6, committed=True, skipped=False, app_id=APP_ID,
        txn_version=0, timestamp=5, metrics={},
    )  # fmt: skip


@pytest.mark.parametrize("has_state_store", [True, False])
def test_a_task_in_kubernetes_takes_its_result_from_the_log_of_the_pod(table, context, kubernetes, has_state_store):
    """The worker cannot know the version otherwise, because the log of the table has no commit.

    Before Airflow 3.3 there is no state store, so only the deferral has the nonce of the driver's markers.
    """
    if not has_state_store:
        context.pop("task_state_store", None)
    deferral = deferral_of(operator(table), context)
    assert deferral.trigger.driver_id == f"{NAMESPACE}:{POD}"
    assert deferral.trigger.poll_interval == 20
    assert kubernetes.deleted_pods == []
    (secret,) = [secret for name, secret in kubernetes.secrets.items() if name.startswith("deltalite-job-")]
    assert secret.metadata.owner_references[0]["name"] == POD
    marker = result_marker(result_of_job(table), nonce=deferral.kwargs["nonce"])
    kubernetes.phases, kubernetes.log = ["Succeeded"], f"{marker}\n"
    result = resume(operator(table), deferral, context)
    assert (result["version"], result["committed"]) == (7, True)
    assert kubernetes.deleted_pods == [POD]


def test_neither_trigger_nor_deferral_holds_a_secret(table, context, yarn_with_job, monkeypatch, tmp_path):
    write_sites(tmp_path, {"yarn-site": {"yarn.nodemanager.log-container-debug-info.enabled": "false"}})
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    task = operator(table, conf={"spark.hadoop.fs.s3a.secret.key": "planted"}, env_vars={"DB_PASSWORD": "planted"})
    deferral = deferral_of(task, context)
    assert "planted" not in json.dumps([deferral.trigger.serialize(), deferral.kwargs])
    assert deferral.kwargs.keys() == {"driver_id", "nonce", "state_before_job", "deadline_ms"}


@since_3_3
def test_a_retry_joins_the_driver_and_defers_again(table, spark_submit, context, yarn_with_job):
    first = deferral_of(operator(table), context)
    spark_submit.call_file.unlink()
    second = deferral_of(operator(table), context)
    assert not spark_submit.was_called
    assert second.trigger.serialize() == first.trigger.serialize()
    assert second.kwargs == first.kwargs, "the retry knows the nonce of the driver's markers"


def test_a_retry_after_the_commit_does_not_defer(table, spark_submit, context, yarn_with_job):
    deferral_of(operator(table), context)
    commit_as_driver(table)
    assert operator(table).execute(context)["skipped"] is True


@pytest.mark.parametrize(
    ("exit_code", "error_class", "message"),
    [(51, AirflowFailException, "SchemaMismatchError"), (84, DeltaConflictError, "ConcurrentAppendException")],
)
def test_a_failure_has_the_type_of_the_drivers_error(table, context, yarn_with_job, exit_code, error_class, message):
    deferral = deferral_of(operator(table), context)
    diagnostics = f"User application exited with status {exit_code}"
    yarn_with_job.answers = [yarn_with_job.finished_state("FAILED", diagnostics=diagnostics)]
    with pytest.raises(error_class, match=message):
        resume(operator(table), deferral, context)


def test_a_failure_in_a_pod_has_the_message_and_the_traceback_of_its_log(table, context, kubernetes, capsys):
    deferral = deferral_of(operator(table), context)
    marker = error_marker("SchemaMismatchError", "the column x is missing", nonce=deferral.kwargs["nonce"])
    kubernetes.phases, kubernetes.log, kubernetes.exit_code = ["Failed"], f"{TRACEBACK}\n{marker}\n", 51
    with pytest.raises(AirflowFailException, match="SchemaMismatchError: the column x is missing"):
        resume(operator(table), deferral, context)
    assert "Traceback of the job" in capsys.readouterr().out


@pytest.mark.parametrize("is_committed", [False, True])
def test_a_killed_application_fails_the_task_unless_it_has_committed(table, context, yarn_with_job, is_committed):
    deferral = deferral_of(operator(table), context)
    yarn_with_job.answers = [yarn_with_job.finished_state("KILLED")]
    if is_committed:
        commit_as_driver(table)
        assert resume(operator(table), deferral, context)["version"] == 1
    else:
        with pytest.raises(DeltaJobError, match="KILLED"):
            resume(operator(table), deferral, context)


def test_a_pod_that_no_longer_exists_fails_the_task_with_a_retry(table, context, kubernetes):
    deferral = deferral_of(operator(table), context)
    kubernetes.phases = [None]
    with pytest.raises(DeltaJobError, match="no longer exists"):
        resume(operator(table), deferral, context)


def test_a_worker_waits_itself_if_the_triggerer_could_not_watch_the_driver(
    table, context, yarn_with_job, capsys, monkeypatch
):
    deferral = deferral_of(operator(table), context)
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    yarn_with_job.answers = [RUNNING_STATE, yarn_with_job.finished_state(before_answer=lambda: commit_as_driver(table))]
    event = {"status": "unwatched", "message": "http://rm:8088 did not answer."}
    assert resume(operator(table), deferral, context, event)["version"] == 1
    log = capsys.readouterr().out
    assert "could not watch the driver" in log and "http://rm:8088 did not answer." in log


def test_an_answer_to_an_old_question_does_not_end_the_wait_for_the_driver(table, context, yarn_with_job, capsys):
    deferral = deferral_of(operator(table), context)
    with pytest.raises(TaskDeferred) as caught:
        resume(operator(table), deferral, context, {"chosen_options": ["Publish"], "params_input": {}})
    assert caught.value.trigger.serialize() == deferral.trigger.serialize()
    assert caught.value.kwargs == deferral.kwargs
    assert f"Waiting again for the driver {YARN_ID}" in capsys.readouterr().out


def test_the_deadline_counts_from_the_start_of_the_attempt_and_kills_the_driver(table, context, yarn_with_job):
    start = datetime(2026, 3, 1, tzinfo=UTC)
    context["ti"].start_date = start
    parameters = {"execution_timeout": timedelta(hours=1)}
    deferral = deferral_of(operator(table, **parameters), context)
    assert deferral.trigger.deadline_ms == int((start + timedelta(hours=1)).timestamp() * 1000)
    assert deferral.timeout == timedelta(minutes=5), "the deadline is over, and only Airflow's margin remains"
    with pytest.raises(AirflowTaskTimeout, match=f"1:00:00.*{YARN_ID}"):
        resume(operator(table, **parameters), deferral, context, {"status": "timeout", "message": ""})
    assert yarn_with_job.kill_paths == [f"/ws/v1/cluster/apps/{YARN_ID}/state"]


@since_3_3
def test_the_driver_is_killed_if_airflow_ends_the_deferral_at_its_timeout(table, context, yarn_with_job):
    from airflow.sdk.bases.operator import TRIGGER_FAIL_REPR, TriggerFailureReason
    from airflow.sdk.exceptions import TaskDeferralTimeout

    deferral_of(operator(table, execution_timeout=timedelta(hours=1)), context)
    with pytest.raises(TaskDeferralTimeout):
        operator(table).resume_execution(
            TRIGGER_FAIL_REPR, {"error": TriggerFailureReason.TRIGGER_TIMEOUT.value}, context
        )
    assert yarn_with_job.kill_paths == [f"/ws/v1/cluster/apps/{YARN_ID}/state"]


def test_a_kill_of_the_resumed_task_reaches_the_driver(table, context, yarn_with_job):
    deferral = deferral_of(operator(table), context)
    task = operator(table)
    state_after_kill = yarn_with_job.finished_state("KILLED", before_answer=task.on_kill)
    yarn_with_job.answers = [state_after_kill, yarn_with_job.finished_state("KILLED")]
    with pytest.raises(DeltaJobError):
        resume(task, deferral, context)
    assert yarn_with_job.kill_paths == [f"/ws/v1/cluster/apps/{YARN_ID}/state"]


@pytest.mark.parametrize("had_checkpoint", [True, False])
def test_a_checkpoint_is_compared_with_the_log_before_the_job(table, context, yarn_with_job, had_checkpoint):
    """A checkpoint that existed before a failed job is not the job's result."""

    def checkpoint():
        return DeltaCheckpointOperator(
            task_id="checkpoint", table=str(table), retries=2, shared_folder=True, deferrable=True
        )

    file = table.root / "_delta_log" / "00000000000000000000.checkpoint.parquet"
    if had_checkpoint:
        file.write_bytes(b"PAR1")
    deferral = deferral_of(checkpoint(), context)
    assert deferral.kwargs["state_before_job"] == {"version": 0, "has_checkpoint": had_checkpoint}
    file.write_bytes(b"PAR1")
    yarn_with_job.answers = [yarn_with_job.finished_state("FAILED")]
    if had_checkpoint:
        with pytest.raises(DeltaJobError):
            resume(checkpoint(), deferral, context)
    else:
        assert resume(checkpoint(), deferral, context)["version"] == 0


def test_a_worker_that_cannot_read_the_log_before_the_job_does_not_read_it_afterwards(table, context, yarn_with_job):
    deferral = deferral_of(operator(table), context)
    commit_as_driver(table)
    deferral.kwargs["state_before_job"] = None
    yarn_with_job.answers = [yarn_with_job.finished_state()]
    with pytest.raises(Exception, match="this worker cannot read the log"):
        resume(operator(table), deferral, context)


# --- jobs whose driver no triggerer can watch ---


def set_connection(monkeypatch, **connection) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", **connection}))


UNWATCHABLE = [
    pytest.param({"host": "local[*]"}, "'local\\[\\*\\]' and deploy mode 'client'", id="local"),
    pytest.param({"host": "spark://host:7077"}, "deploy_mode='cluster'", id="standalone"),
    pytest.param({"host": "yarn"}, "deploy mode 'client'", id="yarn-client"),
    pytest.param(
        {"host": "yarn", "extra": {"deploy-mode": "cluster"}}, "yarn_resourcemanager_webapp_address", id="untracked"
    ),
]


@pytest.mark.parametrize(("connection", "message"), UNWATCHABLE)
def test_an_explicit_deferrable_is_an_error_before_the_submission(
    table, spark_submit, context, monkeypatch, connection, message
):
    set_connection(monkeypatch, **connection)
    table.create()
    with pytest.raises(AirflowFailException, match=f"(?s)InvalidRequestError: deferrable=True needs.*{message}"):
        operator(table).execute(context)
    assert not spark_submit.was_called


@pytest.mark.parametrize(("connection", "message"), UNWATCHABLE)
def test_the_setting_default_deferrable_lets_the_task_wait_on_the_worker(
    table, spark_submit, context, monkeypatch, connection, message, capsys
):
    monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", "True")
    set_connection(monkeypatch, **connection)
    table.create()
    spark_submit.set_script(PRINT_YARN_ID + job_that_commits(table))
    assert operator(table, deferrable=None).execute(context)["version"] == 1
    assert "This task waits on the worker: deferrable=True needs" in capsys.readouterr().out


def test_the_error_for_a_pod_without_tracking_tells_the_author_how_to_track_it(
    table, spark_submit, context, kubernetes
):
    with pytest.raises(AirflowFailException, match="Leave track_driver_via_k8s_api out"):
        operator(table, track_driver_via_k8s_api=False).execute(context)
    assert not spark_submit.was_called


def test_an_authentication_object_of_the_author_makes_a_deferral_an_error(table, spark_submit, context, yarn_with_job):
    with pytest.raises(AirflowFailException, match="yarn_rm_auth"):
        operator(table, yarn_rm_auth=lambda request: request).execute(context)
    assert not spark_submit.was_called


@pytest.mark.parametrize(("default", "deferrable", "is_deferred"), [("True", None, True), ("True", False, False)])
def test_the_default_of_the_deployment_applies_unless_the_author_decides(
    table, context, yarn_with_job, monkeypatch, default, deferrable, is_deferred
):
    monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", default)
    task = operator(table, deferrable=deferrable)
    if is_deferred:
        assert isinstance(deferral_of(task, context).trigger, SparkDriverTrigger)
    else:
        yarn_with_job.answers = [yarn_with_job.finished_state(before_answer=lambda: commit_as_driver(table))]
        assert task.execute(context)["version"] == 1

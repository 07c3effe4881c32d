"""Airflow's hook and operator track, join and kill jobs in clusters. The clusters are stand-ins.

An HTTP server replaces YARN's ResourceManager.
"""

from __future__ import annotations

import json

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

from airflow_provider_deltalite.clusters.yarn_application import YarnError
from airflow_provider_deltalite.failures import DeltaConflictError, DeltaJobError
from airflow_provider_deltalite.operators import _spark_submission
from airflow_provider_deltalite.operators.delta import DeltaCheckpointOperator, DeltaWriteOperator
from tests.support.airflow_versions import since_3_3
from tests.support.background_tasks import BackgroundTask
from tests.support.resource_manager import FAILED_STATE, MISSING_STATE, PRINT_YARN_ID, RUNNING_STATE, YARN_ID
from tests.support.stand_in_jobs import commit_as_driver, job_that_commits
from tests.support.waiting import wait_until


def operator(table, **parameters) -> DeltaWriteOperator:
    """The task `load`, which confirms that the cluster shares the folder of the table."""
    defaults = {"task_id": "load", "table": str(table), "source": {"format": "csv", "path": "/in"}, "retries": 2}
    return DeltaWriteOperator(**{**defaults, "shared_folder": True, **parameters})


@pytest.fixture
def untracked_yarn(spark_submit, monkeypatch):
    """A YARN cluster. The connection names no ResourceManager."""
    connection = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))


@since_3_3
def test_yarn_works_with_default_arguments_and_logs_its_limits(table, spark_submit, context, untracked_yarn, capsys):
    table.create()
    spark_submit.set_script(PRINT_YARN_ID + job_that_commits(table))
    result = operator(table).execute(context)
    assert (result["version"], result["committed"]) == (1, True)
    assert "yarn_resourcemanager_webapp_address" in capsys.readouterr().out
    assert "spark.yarn.submit.waitAppCompletion=true" in spark_submit.argv


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"conf": {"spark.yarn.submit.waitAppCompletion": "false"}},
            "not tracked, and `conf` sets .*waitAppCompletion to 'false'",
        ),
        ({"durable": True}, "durable=True needs .*yarn_resourcemanager_webapp_address"),
        ({"yarn_track_via_rm_api": True}, "yarn_resourcemanager_webapp_address"),
        ({"track_driver_via_k8s_api": True}, "Kubernetes"),
    ],
)
def test_impossible_tracking_is_rejected_with_the_missing_setting(
    table, spark_submit, context, untracked_yarn, parameters, message
):
    with pytest.raises(AirflowFailException, match=f"(?s)InvalidRequestError: .*{message}"):
        operator(table, **parameters).execute(context)
    assert not spark_submit.was_called


def test_a_job_with_wait_app_completion_cannot_be_tracked(table, spark_submit, context, yarn):
    with pytest.raises(AirflowFailException, match="waitAppCompletion is 'true'"):
        operator(table, conf={"spark.yarn.submit.waitAppCompletion": "true"}).execute(context)
    assert not spark_submit.was_called


@since_3_3
def test_a_job_in_yarn_is_tracked_and_its_result_comes_from_the_log(table, spark_submit, context, yarn):
    table.create()
    spark_submit.set_script(PRINT_YARN_ID)
    yarn.answers = [yarn.finished_state(before_answer=lambda: commit_as_driver(table))]
    conf = {"spark.x": "1"}
    result = operator(table, conf=conf).execute(context)
    assert (result["version"], result["committed"], result["skipped"]) == (1, True, False)
    assert "spark.yarn.submit.waitAppCompletion=false" in spark_submit.argv
    assert context["task_state_store"].values["spark_job_id_0"] == YARN_ID
    assert conf == {"spark.x": "1"}, "the task must not change the author's dictionary"


@since_3_3
def test_a_retry_joins_the_running_job_and_returns_its_result(table, spark_submit, context, yarn):
    table.create()
    context["task_state_store"].set("spark_job_id_0", YARN_ID)
    yarn.answers = [RUNNING_STATE, yarn.finished_state(before_answer=lambda: commit_as_driver(table))]
    joined_result = operator(table).execute(context)
    assert (joined_result["version"], joined_result["committed"], joined_result["skipped"]) == (1, True, False)
    assert not spark_submit.was_called


@since_3_3
def test_a_retry_submits_a_new_job_if_the_resource_manager_has_lost_the_application(table, spark_submit, context, yarn):
    table.create()
    context["task_state_store"].set("spark_job_id_0", "application_1600000000000_0001")
    spark_submit.set_script(PRINT_YARN_ID)
    yarn.answers = [MISSING_STATE, MISSING_STATE, yarn.finished_state(before_answer=lambda: commit_as_driver(table))]
    result = operator(table).execute(context)
    assert (result["version"], result["committed"]) == (1, True)
    assert context["task_state_store"].values["spark_job_id_0"] == YARN_ID


@since_3_3
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"http_status": 403}, "HTTP 403"),
        ({"http_status": 404}, "HTTP 404"),
        ({"http_status": 500}, "HTTP 500"),
        ({"no": "state"}, "unexpected payload"),
    ],
)
def test_a_retry_submits_no_job_if_no_resource_manager_names_the_state(
    table, spark_submit, context, yarn, answer, message
):
    """A web server in front of YARN answers 404 for each path if its own configuration is wrong."""
    table.create()
    context["task_state_store"].set("spark_job_id_0", YARN_ID)
    yarn.answers = [answer]
    yarn.shows_metrics = False
    with pytest.raises(YarnError, match=f"may still run, so this attempt submits no job.*{message}"):
        operator(table).execute(context)
    assert not spark_submit.was_called


@since_3_3
@pytest.mark.parametrize("earlier_state", [MISSING_STATE, FAILED_STATE])
def test_a_task_that_is_stopped_after_it_lost_its_earlier_job_submits_nothing(
    table, spark_submit, context, yarn, earlier_state, monkeypatch
):
    table.create()
    context["task_state_store"].set("spark_job_id_0", "application_1600000000000_0001")
    yarn.answers = [earlier_state]
    load = operator(table)
    monkeypatch.setattr(_spark_submission, "store_nonce", lambda *_: load.on_kill())
    with pytest.raises(AirflowException, match="stopped before it submitted"):
        load.execute(context)
    assert not spark_submit.was_called
    assert yarn.kill_paths == []


def test_a_retry_after_a_successful_job_returns_its_result_without_asking_the_cluster(
    table, spark_submit, context, yarn
):
    table.create()
    spark_submit.set_script(PRINT_YARN_ID)
    yarn.answers = [yarn.finished_state(before_answer=lambda: commit_as_driver(table))]
    first_result = operator(table).execute(context)
    request_count = len(yarn.requested_paths)
    retry_result = operator(table).execute(context)
    assert len(yarn.requested_paths) == request_count
    assert retry_result == {**first_result, "committed": False, "skipped": True}


@since_3_3
def test_a_cleared_task_submits_again_with_write_and_returns_the_commit_with_skip(table, spark_submit, context, yarn):
    table.create()
    spark_submit.set_script(PRINT_YARN_ID)
    yarn.answers = [yarn.finished_state(before_answer=lambda: commit_as_driver(table))]
    first_result = operator(table, mode="overwrite").execute(context)
    context["ti"].max_tries += 1
    assert operator(table, mode="append").execute(context) == {**first_result, "committed": False, "skipped": True}
    yarn.answers = [yarn.finished_state(before_answer=lambda: commit_as_driver(table, version=2, txn=1))]
    rerun_result = operator(table, mode="overwrite").execute(context)
    assert (rerun_result["version"], rerun_result["txn_version"], rerun_result["skipped"]) == (2, 1, False)
    assert context["task_state_store"].values["spark_job_id_1"] == YARN_ID


@since_3_3
def test_a_cleared_task_that_commits_nothing_runs_again_too(table, spark_submit, context, yarn):
    table.create()
    spark_submit.set_script(PRINT_YARN_ID)
    yarn.answers = [yarn.finished_state("FAILED")]
    checkpoint = DeltaCheckpointOperator(task_id="checkpoint", table=str(table), retries=2, shared_folder=True)
    with pytest.raises(DeltaJobError):
        checkpoint.execute(context)
    context["ti"].max_tries += 1
    spark_submit.call_file.unlink()
    with pytest.raises(DeltaJobError):
        checkpoint.execute(context)
    assert spark_submit.was_called
    assert {"spark_job_id_0", "spark_job_id_1"} <= set(context["task_state_store"].values)


@since_3_3
def test_the_exit_code_that_yarn_reports_decides_whether_the_task_is_retried(table, spark_submit, context, yarn):
    table.create()
    spark_submit.set_script(PRINT_YARN_ID)
    yarn.answers = [yarn.finished_state("FAILED", diagnostics="User application exited with status 51")]
    with pytest.raises(AirflowFailException, match=r"SchemaMismatchError: .*exit code 51"):
        operator(table).execute(context)
    context["task_state_store"].values.clear()
    yarn.answers = [yarn.finished_state("FAILED", diagnostics="User application exited with status 84")]
    with pytest.raises(DeltaConflictError, match="ConcurrentAppendException"):
        operator(table).execute(context)


@since_3_3
def test_a_joined_job_in_yarn_that_fails_after_its_commit_is_a_success(table, spark_submit, context, yarn):
    table.create()
    context["task_state_store"].set("spark_job_id_0", YARN_ID)
    yarn.answers = [
        RUNNING_STATE,
        yarn.finished_state("FAILED", diagnostics="Container killed", before_answer=lambda: commit_as_driver(table)),
    ]
    assert operator(table).execute(context)["version"] == 1


@since_3_3
@pytest.mark.parametrize("is_joined", [True, False])
def test_a_kill_reaches_the_application_of_this_and_of_an_earlier_attempt(
    table, spark_submit, context, yarn, is_joined
):
    table.create()
    load = operator(table)
    spark_submit.set_script(PRINT_YARN_ID)
    if is_joined:
        context["task_state_store"].set("spark_job_id_0", YARN_ID)
    state_after_kill = yarn.finished_state("KILLED", before_answer=load.on_kill)
    yarn.answers = [*([RUNNING_STATE] if is_joined else []), state_after_kill, yarn.finished_state("KILLED")]
    with pytest.raises(DeltaJobError, match="KILLED"):
        load.execute(context)
    assert yarn.kill_paths == [f"/ws/v1/cluster/apps/{YARN_ID}/state"]
    assert spark_submit.was_called is not is_joined


@pytest.mark.parametrize("has_yarn_program", [True, False])
def test_a_kill_of_an_untracked_job_in_yarn_ends_spark_submit_and_the_application(
    table, spark_submit, context, untracked_yarn, tmp_path, capsys, has_yarn_program
):
    table.create()
    spark_submit.set_script(f"print({YARN_ID!r}, flush=True)\nimport time; time.sleep(600)")
    if has_yarn_program:
        yarn_program = spark_submit.program.parent / "yarn"
        yarn_program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path / "yarn_arguments"}\n')
        yarn_program.chmod(0o755)
    load = operator(table)
    with BackgroundTask(lambda: load.execute(context)) as background:
        wait_until(lambda: load._hook and load._hook._yarn_application_id)
        load.on_kill()
    assert [type(error) for error in background.errors] == [DeltaJobError]
    if has_yarn_program:
        assert (tmp_path / "yarn_arguments").read_text() == f"application -kill {YARN_ID}\n"
    else:
        assert f"Could not kill {YARN_ID}: this worker has no program 'yarn'" in capsys.readouterr().out


def test_the_deploy_mode_in_the_spark_settings_is_the_deploy_mode_of_the_task(
    table, spark_submit, context, monkeypatch
):
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "yarn"}))
    table.create()
    spark_submit.set_script(PRINT_YARN_ID + job_that_commits(table))
    settings = {"spark.submit.deployMode": "cluster"}
    assert operator(table, conf=settings, durable=False).execute(context)["version"] == 1
    argv = spark_submit.argv
    assert argv[argv.index("--deploy-mode") + 1] == "cluster" and "spark.yarn.maxAppAttempts=1" in argv


def test_the_author_can_set_how_often_yarn_starts_the_driver(table, spark_submit, context, untracked_yarn):
    table.create()
    spark_submit.set_script(PRINT_YARN_ID + job_that_commits(table))
    operator(table, conf={"spark.yarn.maxAppAttempts": "3"}).execute(context)
    assert [value for value in spark_submit.argv if "maxAppAttempts" in value] == ["spark.yarn.maxAppAttempts=3"]


@since_3_3
def test_an_application_that_a_later_line_quotes_is_not_killed(table, spark_submit, context, yarn):
    table.create()
    load = operator(table)
    spark_submit.set_script(PRINT_YARN_ID + "print('the row application_1_2 of application_')\n")
    yarn.answers = [yarn.finished_state("KILLED", before_answer=load.on_kill), yarn.finished_state("KILLED")]
    with pytest.raises(DeltaJobError):
        load.execute(context)
    assert yarn.kill_paths == [f"/ws/v1/cluster/apps/{YARN_ID}/state"]

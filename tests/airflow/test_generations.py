"""The generation of a task attempt decides whether it returns an earlier commit or writes again."""

from __future__ import annotations

import pytest
from airflow.providers.common.compat.sdk import AirflowException

from airflow_provider_deltalite.failures import DeltaJobError
from deltalite.requests import OnRerun, WriteRequest
from tests.support.airflow_versions import NEVER_EXPIRE, since_3_3
from tests.support.stand_in_jobs import APP_ID, COPY_REQUEST, PRINT_RESULT, job_that_commits, operator


def test_a_run_that_has_committed_is_skipped_without_a_process(table, spark_submit, context, capsys):
    table.create()
    table.commit(1, table.txn(APP_ID), table.add())
    table.commit(2, table.add())
    result = operator(table).execute(context)
    assert (result["version"], result["skipped"], result["committed"]) == (1, True, False)
    assert not spark_submit.was_called
    assert "SKIPPED" in capsys.readouterr().out


def test_a_commit_of_another_run_does_not_skip_this_run(table, spark_submit, context):
    table.create()
    table.commit(1, table.txn(APP_ID + "x"), table.add())
    spark_submit.set_script(PRINT_RESULT)
    assert operator(table).execute(context)["version"] == 4


def test_the_same_run_id_in_another_namespace_is_another_run(table, spark_submit, context, monkeypatch):
    table.create()
    table.commit(1, table.txn(APP_ID), table.add())
    spark_submit.set_script(PRINT_RESULT)
    assert operator(table).execute(context)["skipped"] is True
    monkeypatch.setenv("AIRFLOW__DELTALITE__NAMESPACE", "other")
    assert operator(table).execute(context)["skipped"] is False
    table.commit(2, table.txn(APP_ID.replace("airflow/", "other/")), table.add())
    assert operator(table).execute(context)["version"] == 2
    monkeypatch.delenv("AIRFLOW__DELTALITE__NAMESPACE")
    assert operator(table).execute(context)["version"] == 1


@pytest.mark.parametrize("has_state_store", [True, False])
def test_a_cleared_overwrite_runs_again_and_a_cleared_append_is_skipped(table, spark_submit, context, has_state_store):
    """Without a state store, `max_tries` shows whether the task was cleared."""
    if not has_state_store:
        context.pop("task_state_store", None)
    table.create()
    table.commit(1, table.txn(APP_ID, 0), table.add())
    spark_submit.set_script(PRINT_RESULT)
    assert operator(table, mode="overwrite").execute(context)["skipped"] is True
    context["ti"].max_tries += 1
    assert operator(table, mode="overwrite").execute(context)["skipped"] is False
    assert operator(table, mode="append").execute(context)["skipped"] is True


@since_3_3
@pytest.mark.parametrize("retries", [0, 9])
def test_an_edit_of_retries_between_attempts_neither_repeats_nor_skips_a_write(table, spark_submit, context, retries):
    table.create()
    spark_submit.set_script(job_that_commits(table, exit_code=134))
    assert operator(table, mode="overwrite").execute(context)["committed"] is True
    context["ti"].try_number = 2
    assert operator(table, mode="overwrite", retries=retries).execute(context)["skipped"] is True
    context["ti"].try_number, context["ti"].max_tries = 3, 2 + retries + 1
    spark_submit.set_script(PRINT_RESULT)
    assert operator(table, mode="overwrite", retries=retries + 1).execute(context)["skipped"] is False


@pytest.mark.parametrize(("on_rerun", "generation"), [("skip", 0), ("write", 1), ("replace", 1)])
def test_a_failed_task_that_is_cleared_writes_under_every_policy(table, spark_submit, context, on_rerun, generation):
    table.create()
    request_copy = table.root.parent.parent / "request.json"
    spark_submit.set_script("sys.exit(134)")
    with pytest.raises(DeltaJobError):
        operator(table, on_rerun=on_rerun).execute(context)
    context["ti"].max_tries += 1
    spark_submit.set_script(COPY_REQUEST.format(copy=str(request_copy)) + PRINT_RESULT)
    assert operator(table, on_rerun=on_rerun).execute(context)["committed"] is True
    identity = WriteRequest.from_json(request_copy.read_text()).identity
    assert (identity.app_id, identity.txn_version, identity.on_rerun) == (APP_ID, generation, OnRerun(on_rerun))


def test_a_cleared_task_does_not_join_the_tracked_job_of_its_earlier_generation(table, spark_submit, context):
    spark_submit.set_script(PRINT_RESULT)
    load = operator(table, mode="overwrite")
    load.execute(context)
    first_key = load.external_id_key
    load.execute(context)
    assert load.external_id_key == first_key
    context["ti"].max_tries += 1
    load.execute(context)
    assert load.external_id_key != first_key


@since_3_3
def test_the_generation_is_stored_before_the_job_starts_and_never_expires(table, spark_submit, context):
    table.create()
    with pytest.raises(AirflowException, match="does not show what this run did"):
        operator(table, mode="overwrite").execute(context)
    state = context["task_state_store"]
    assert state.values["deltalite_generation"] == {"max_tries": 2, "generation": 0, "clears": None}
    assert state.retentions["deltalite_generation"] is NEVER_EXPIRE


@since_3_3
def test_an_unavailable_state_store_fails_the_task_before_a_job_starts(table, spark_submit, context, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("the API server does not answer")

    for name in ("set", "get"):
        monkeypatch.setattr(context["task_state_store"], name, fail)
        with pytest.raises(RuntimeError, match="does not answer"):
            operator(table, mode="overwrite").execute(context)
    assert not spark_submit.was_called


def test_a_task_with_on_rerun_skip_needs_no_state_store(table, spark_submit, context):
    context.pop("task_state_store", None)
    spark_submit.set_script(PRINT_RESULT)
    assert operator(table, mode="append").execute(context)["txn_version"] == 0

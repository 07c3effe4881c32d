"""A person answers the question of a task through Airflow's REST API. The job is a stand-in."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest

from tests.faults.programs import write_ids
from tests.support.asking import AskingJob, code_in
from tests.system.stand_in import write_asking_stand_in

pytestmark = [pytest.mark.airflow, pytest.mark.slow, pytest.mark.campaign]

DAG = """
from datetime import timedelta
from airflow.sdk import DAG
from airflow_provider_deltalite.operators.delta import DeltaWriteOperator

with DAG("asked", schedule=None):
    DeltaWriteOperator(
        task_id="load",
        table="{{{{ var.value.lake }}}}/asked",
        source={{"format": "csv", "path": "/in"}},
        spark_binary={program!r},
        audits=[{{"name": "customers", "rows": "customer IS NULL", "level": "ask"}}],
        ask={{"timeout": timedelta(hours=1)}},
    )
"""
WAITING = ("awaiting_input", "deferred")


def endpoint(run_id):
    return f"dags/asked/dagRuns/{quote(run_id, safe='')}/taskInstances/load/-1/hitlDetails"


def wait_for_question(airflow, run_id, *, times):
    """Return the question of a task that waits, after the task's processes have ended this number of `times`.

    The scheduler fails a task that is queued again before it knows that the last process has ended. No person answers
    so fast, but this test does, so it waits for the executor's events.
    """

    def has_ended():
        log = (airflow.process_logs / "scheduler.log").read_text(errors="replace")
        return (
            len(re.findall(r"Received executor event .*TaskInstanceKey\(dag_id='asked', task_id='load'", log)) >= times
        )

    airflow.wait_for_task("asked", run_id, "load", *WAITING)
    airflow.until(f"the executor has reported {times} processes", has_ended)
    return airflow.ask("GET", endpoint(run_id))


def respond(airflow, run_id, option, code):
    airflow.ask("PATCH", endpoint(run_id), {"chosen_options": [option], "params_input": {"code": code}})


def test_a_person_publishes_or_rejects_rows_in_airflow(whole_airflow):
    home = whole_airflow.home
    job = AskingJob(home)
    job.set_bad_rows(3)
    program = home / "asking-spark"
    write_asking_stand_in(program, job.program)
    table = home / "lake" / "asked"
    write_ids(None, str(table), run="another", ids=[0])
    whole_airflow.add_dag("asked", DAG.format(program=str(program)))

    run_id = whole_airflow.trigger("asked")
    question = wait_for_question(whole_airflow, run_id, times=1)
    assert question["subject"] == f"Publish rows in {table}?"
    assert "measured 3 of 9 rows" in question["body"]
    assert '"customer": null' in question["body"]
    respond(whole_airflow, run_id, "Reject", code_in(question))
    whole_airflow.wait_for_run("asked", run_id, state="failed")
    log = whole_airflow.task_log("asked", run_id, "load")
    assert re.search("AuditFailedError: .* rejected rows", log)

    # A cleared task asks again. Airflow keeps the text of the first question, so the log has the new values.
    job.set_bad_rows(4)
    whole_airflow.clear("asked", run_id, "load")
    old_question = wait_for_question(whole_airflow, run_id, times=3)
    assert "measured 3 of 9 rows" in old_question["body"]
    respond(whole_airflow, run_id, "Publish", code_in(old_question))
    new_code = whole_airflow.until("the task asks again", lambda: last_code(whole_airflow, run_id, times=3))
    wait_for_question(whole_airflow, run_id, times=4)
    assert not (table / "_delta_log" / f"{1:020}.json").exists()
    respond(whole_airflow, run_id, "Publish", new_code)
    whole_airflow.wait_for_run("asked", run_id)
    result = whole_airflow.xcom("asked", run_id, "load")
    assert (result["version"], result["audits"][0]["measured"]) == (1, 4)
    assert result["audits"][0]["accepted_by"]


def last_code(airflow, run_id, *, times):
    """The code of the last question in the task's log; None until the task has asked this number of `times`."""
    codes = re.findall(
        r"Waiting for a decision on these audits \(code (\w+)\)", airflow.task_log("asked", run_id, "load")
    )
    return codes[-1] if len(codes) >= times else None

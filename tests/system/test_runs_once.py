"""Killed processes and cleared tasks under a real scheduler: the table contains the rows of each run once.

The tasks of one DAG append rows with their task ids to one table. The test kills jobs before or after their commits.
The scheduler notices a kill and starts the next attempt. `make test` kills the worker of one task, and stops another
task as a user does. The campaign also kills a worker after the commit of its job, and two drivers.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from airflow_provider_deltalite.clusters.processes import kill
from deltalite import DeltaTable

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow]

PLANTED_SECRETS = {name: f"planted-{name}-0123456789" for name in ("conf", "env", "option")}
JOB = Path(__file__).with_name("stopping_write.py")
DAG = f"""
from datetime import datetime, timedelta
from airflow.sdk import DAG
from airflow_provider_deltalite.operators.delta import DeltaWriteOperator

LAKE = "{{{{ var.value.lake }}}}"

def load(name, **parameters):
    defaults = {{
        "table": LAKE + "/runs",
        "source": {{"format": "csv", "path": LAKE + "/in.csv",
                    "options": {{"header": "true", "api_key": {PLANTED_SECRETS["option"]!r}}}, "schema": "id INT"}},
        "query": f"SELECT id, '{{name}}' AS who FROM source",
        "retries": 3, "retry_delay": timedelta(seconds=0),
        "application": {str(JOB)!r},
        "env_vars": {{"GATE": LAKE + "/gates/" + name, "MY_SECRET": {PLANTED_SECRETS["env"]!r}}},
        "conf": {{"spark.ui.enabled": "false", "spark.hadoop.fs.s3a.access.key": {PLANTED_SECRETS["conf"]!r}}},
        "driver_memory": "512m",
    }}
    return DeltaWriteOperator(task_id=name, **{{**defaults, **parameters}})

with DAG("runs_once", schedule=None, start_date=datetime(2026, 1, 1), max_active_tasks=2):
    # The tasks run one after another, so a stopped job never takes the slot that a retry needs.
    first, killed = load("worker_before"), load("killed", on_rerun="write")
    first >> killed
"""
CAMPAIGN_TASKS = """
    first >> load("driver_before") >> killed
    # The campaign clears the last task.
    load("worker_after") >> load("driver_after") >> load("replaced", on_rerun="replace")
"""
ROW_COUNT = 3


class Gates:
    """The gates of one task: the test decides where `stopping_write` stops the task's jobs."""

    def __init__(self, airflow, folder: Path, task: str) -> None:
        self._airflow = airflow
        self.folder = folder / task
        self.task = task
        self.folder.mkdir(parents=True, exist_ok=True)

    def plan(self, number: int, point: str) -> None:
        """Let the job with this number stop at a point: `written`, `before` or `after`."""
        (self.folder / f"{number}.plan").write_text(point)

    def wait(self, number: int, point: str) -> None:
        """Wait until the job has stopped at the point."""
        stop_file = self.folder / f"{number}.{point}"
        self._airflow.until(f"job {number} of {self.task} stops at '{point}'", stop_file.exists, timeout=240)

    def go(self, number: int) -> None:
        """Let the job continue."""
        (self.folder / f"{number}.go").touch()

    @property
    def started_jobs(self) -> int:
        return len(list(self.folder.glob("*.started")))


@pytest.fixture(scope="module")
def lake(whole_airflow):
    """The folder of the tables, with the input file."""
    lake = Path(whole_airflow.environment["AIRFLOW_VAR_LAKE"])
    lake.mkdir(parents=True, exist_ok=True)
    (lake / "in.csv").write_text("id\n" + "".join(f"{number}\n" for number in range(ROW_COUNT)))
    return lake


def rows_of(lake) -> Counter:
    """Return the number of rows that each task has written."""
    return Counter(row["who"] for row in DeltaTable(str(lake / "runs")).to_arrow().to_pylist())


def is_jvm(process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.name() == "java"
    return False


def arguments_of_all_processes() -> str:
    command_lines = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            command_lines += process.cmdline()
    return "\n".join(command_lines)


@pytest.fixture(scope="module")
def observed_run(whole_airflow, lake, pytestconfig):
    """Run the DAG, and kill one job of each task. Returns the observations by their names."""
    airflow, is_campaign = whole_airflow, pytestconfig.getoption("--campaign")
    gates = {
        name: Gates(airflow, lake / "gates", name)
        for name in ("worker_before", "worker_after", "driver_before", "driver_after", "killed", "replaced")
    }
    gates["worker_before"].plan(1, "before")
    gates["worker_before"].plan(2, "before")
    gates["worker_after"].plan(1, "after")
    gates["driver_before"].plan(1, "before")
    gates["driver_after"].plan(1, "after")
    gates["killed"].plan(1, "written")
    airflow.add_dag("runs_once", DAG + CAMPAIGN_TASKS * is_campaign)
    run_id = airflow.trigger("runs_once", run_id="once")
    observed = {"run_id": run_id, "gates": gates}

    def processes(task):
        return airflow.processes_of_task("runs_once", run_id, task)

    gates["worker_before"].wait(1, "before")
    if is_campaign:
        gates["worker_after"].wait(1, "after")
    observed["arguments"] = arguments_of_all_processes()
    orphaned_processes = processes("worker_before").kill_worker()
    if is_campaign:
        kill(processes("worker_after").kill_worker())

    # The retry stops before its commit, and the orphaned job continues.
    gates["worker_before"].wait(2, "before")
    gates["worker_before"].go(1)
    psutil.wait_procs(orphaned_processes, timeout=120)
    gates["worker_before"].go(2)

    if is_campaign:
        gates["driver_before"].wait(1, "before")
        kill(processes("driver_before").descendants)
        gates["driver_after"].wait(1, "after")
        started_processes = processes("driver_after").descendants
        kill([process for process in started_processes if is_jvm(process)])
        kill(started_processes)

    gates["killed"].wait(1, "written")
    job_processes = processes("killed").descendants
    staged_files = list(lake.joinpath("runs").rglob("*.parquet"))
    airflow.ask("PATCH", f"dags/runs_once/dagRuns/{run_id}/taskInstances/killed", {"new_state": "failed"})
    _, survivors = psutil.wait_procs(job_processes, timeout=30)
    observed["processes left by the kill"] = survivors
    observed["removed files"] = len(set(staged_files) - set(lake.joinpath("runs").rglob("*.parquet")))
    kill(survivors)
    observed["rows after the kill"] = rows_of(lake)["killed"]
    airflow.wait_for_run("runs_once", run_id, state="failed", timeout=300)
    return observed


def test_an_orphaned_job_commits_while_the_retry_is_about_to_commit(whole_airflow, lake, observed_run):
    task = whole_airflow.task("runs_once", "once", "worker_before")
    result = whole_airflow.xcom("runs_once", "once", "worker_before")
    assert (task["state"], task["try_number"], observed_run["gates"]["worker_before"].started_jobs) == ("success", 2, 2)
    assert (result["committed"], result["skipped"]) == (False, True)
    assert rows_of(lake)["worker_before"] == ROW_COUNT


def test_the_page_lists_the_table_although_no_task_declares_its_asset(whole_airflow, observed_run):
    whole_airflow.until(
        "the table is listed", lambda: "/lake/runs<" in whole_airflow.page("deltalite/lake?q=runs_once"), timeout=120
    )


@pytest.mark.campaign
def test_a_retry_finds_the_commit_of_a_killed_worker_and_starts_no_job(whole_airflow, lake, observed_run):
    task = whole_airflow.task("runs_once", "once", "worker_after")
    assert (task["state"], task["try_number"], observed_run["gates"]["worker_after"].started_jobs) == ("success", 2, 1)
    assert whole_airflow.xcom("runs_once", "once", "worker_after")["skipped"] is True
    assert rows_of(lake)["worker_after"] == ROW_COUNT


@pytest.mark.campaign
def test_a_driver_killed_before_its_commit_is_retried(whole_airflow, lake, observed_run):
    task = whole_airflow.task("runs_once", "once", "driver_before")
    assert (task["state"], task["try_number"], observed_run["gates"]["driver_before"].started_jobs) == ("success", 2, 2)
    assert whole_airflow.xcom("runs_once", "once", "driver_before")["committed"] is True
    assert rows_of(lake)["driver_before"] == ROW_COUNT


@pytest.mark.campaign
def test_a_jvm_killed_after_the_commit_does_not_fail_the_task(whole_airflow, lake, observed_run):
    task = whole_airflow.task("runs_once", "once", "driver_after")
    assert (task["state"], task["try_number"], observed_run["gates"]["driver_after"].started_jobs) == ("success", 1, 1)
    assert whole_airflow.xcom("runs_once", "once", "driver_after")["committed"] is True
    assert rows_of(lake)["driver_after"] == ROW_COUNT


def test_a_task_that_a_user_stops_ends_its_job_and_the_job_removes_its_files(observed_run):
    assert observed_run["processes left by the kill"] == []
    assert observed_run["removed files"] > 0
    assert observed_run["rows after the kill"] == 0


@pytest.mark.campaign
def test_cleared_tasks_follow_on_rerun(whole_airflow, lake, observed_run):
    airflow = whole_airflow
    first_results = {name: airflow.xcom("runs_once", "once", name) for name in ("driver_before", "replaced")}
    airflow.clear("runs_once", "once", "driver_before", "replaced", "killed")
    airflow.wait_for_run("runs_once", "once", timeout=300)
    skipped_result = airflow.xcom("runs_once", "once", "driver_before")
    first_result = {key: value for key, value in first_results["driver_before"].items() if key != "phases"}
    assert skipped_result == {**first_result, "committed": False, "skipped": True}
    second_result = airflow.xcom("runs_once", "once", "replaced")
    assert second_result["version"] > first_results["replaced"]["version"] and second_result["txn_version"] == 1
    assert airflow.xcom("runs_once", "once", "killed")["committed"] is True
    airflow.clear("runs_once", "once", "killed")
    airflow.wait_for_run("runs_once", "once", timeout=300)
    tasks_that_write_once = ("worker_before", "worker_after", "driver_before", "driver_after", "replaced")
    # The task `killed` has on_rerun='write', so it writes again after the second clear.
    assert rows_of(lake) == {**dict.fromkeys(tasks_that_write_once, ROW_COUNT), "killed": 2 * ROW_COUNT}


def test_the_commit_has_a_link_and_an_ended_application_has_none(whole_airflow, lake, observed_run):
    path = "dags/runs_once/dagRuns/once/taskInstances/worker_before/links"
    links = whole_airflow.ask("GET", path)["extra_links"]
    version = whole_airflow.xcom("runs_once", "once", "worker_before")["version"]
    assert links["Delta commit"] == f"https://files.example{lake}/runs/_delta_log/{version:020}.json"
    assert not links["Spark application"]


@pytest.mark.campaign
def test_the_log_of_a_task_shows_the_commit_and_the_cause_of_a_kill_and_has_few_groups(whole_airflow, observed_run):
    events = [
        json.loads(line)["event"] for line in whole_airflow.task_log("runs_once", "once", "driver_before").splitlines()
    ]
    assert any(event.startswith("Committed version") for event in events)
    assert events.count("::group::Spark") <= 6
    assert any(
        "The job was killed, often because memory ran out" in json.dumps(json.loads(line))
        for line in whole_airflow.task_log("runs_once", "once", "driver_before").splitlines()
    )


def test_no_secret_is_in_a_log_a_rendered_field_an_xcom_an_argument_or_the_table(whole_airflow, lake, observed_run):
    airflow = whole_airflow
    assert str(JOB) in observed_run["arguments"]
    texts_by_place = {"arguments": observed_run["arguments"]}
    for task in airflow.tasks("runs_once", "once"):
        name = task["task_id"]
        texts_by_place[f"the fields of {name}"] = json.dumps(task["rendered_fields"])
        texts_by_place[f"the log of {name}"] = airflow.task_log("runs_once", "once", name)
        if task["state"] == "success":
            texts_by_place[f"the result of {name}"] = json.dumps(airflow.xcom("runs_once", "once", name))
    for file in (lake / "runs" / "_delta_log").glob("*.json"):
        texts_by_place[file.name] = file.read_text()
    matches = {place: re.findall(r"planted-\w+", text) for place, text in texts_by_place.items()}
    assert {place: names for place, names in matches.items() if names} == {}
    assert "***" in texts_by_place["the fields of killed"]

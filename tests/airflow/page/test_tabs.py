"""The tabs of a DAG, a DAG run and a task: what their tasks did to tables."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from airflow_provider_deltalite.page.database import Attempt, TaskResult
from deltalite.storage.local import LocalLogStore
from tests.airflow.page.conftest import Rights, task_metadata
from tests.airflow.page.written_pages import RUN, words, write_commit
from tests.unit.builders import create

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def sales_page(delta_page, run_table):
    """The page for a user who may read the DAG `sales`, whose task `load` committed in its first attempt."""
    delta_page.users["ann"] = Rights(assets=False, dag_ids={"sales"})
    delta_page.key = delta_page.add_asset(run_table, writer=("sales", "load"))
    return delta_page


def attempt(number: int, state: str) -> Attempt:
    start = START + timedelta(minutes=number)
    return Attempt(try_number=number, state=state, start=start, end=start + timedelta(seconds=65))


def result(table, *, task_id="load", version=1, **values) -> TaskResult:
    value = {"table": str(table), "operation": "WRITE", "version": version, "committed": True, "skipped": False}
    return TaskResult(task_id=task_id, map_index=-1, value={**value, **values})


def test_the_page_of_a_task_shows_the_outcome_of_each_attempt(sales_page, run_table):
    sales_page.database.attempts_of["sales", RUN, "load", -1] = [attempt(1, "failed"), attempt(2, "success")]
    sales_page.database.results_of["sales", RUN] = [result(run_table, committed=False, skipped=True)]
    html = sales_page.get(f"/task/sales/load/{{MAP_INDEX}}/{RUN}")
    text = words(html)
    assert "2 success Skipped: this run has already committed version 1" in text
    assert "1 failed Committed version 1, then failed" in text
    assert "1 min 5 s" in text
    assert f'href="/airflow/deltalite/tables/{sales_page.key}/versions/1"' in html
    assert "raw : version 12" in text and "Passed &#39;ids&#39; (rows on batch): measured 0" in text
    assert "+1 500" in text and "numOutputBytes" in text


def test_an_incremental_source_is_named_once(sales_page, run_table):
    flow = {"flow": "sales/load/raw", "sourceTableId": "t", "afterVersion": 3, "toVersion": 12}
    sources = {
        "sourceVersions": '{"raw": 12, "names": 5}',
        "flows": json.dumps({"raw": flow, "one": {**flow, "afterVersion": 11}}),
    }
    write_commit(run_table, 2, operation="WRITE", userMetadata=task_metadata(), operationParameters=sources)
    sales_page.database.attempts_of["sales", RUN, "load", -1] = [attempt(1, "success")]
    for path in (f"/task/sales/load/-1/{RUN}", f"/tables/{sales_page.key}/versions/2"):
        text = words(sales_page.get(path))
        assert "names : version 5 raw : flow sales/load/raw, versions 4 to 12" in text
        assert "one : flow sales/load/raw, version 12" in text
        assert "raw : version 12" not in text.split("Version 1")[0]


@pytest.mark.parametrize(
    ("state", "values", "outcome"),
    [
        ("success", {"version": 9}, "Committed version 9"),
        ("success", {"version": 9, "committed": False}, "Read version 9"),
        ("success", {"version": None, "skipped": True, "skip_reason": "no new version"}, "Skipped: no new version"),
        ("success", {"version": 7, "skipped": True, "skip_reason": "no new version"}, "Skipped: no new version"),
        ("running", {"version": 9}, "Not finished; no commit so far"),
        ("failed", {"version": 9}, "No commit"),
    ],
)
def test_an_attempt_without_a_commit_in_the_log_shows_the_result(sales_page, run_table, state, values, outcome):
    sales_page.database.attempts_of["sales", "manual__2", "load", -1] = [attempt(1, state)]
    sales_page.database.results_of["sales", "manual__2"] = [result(run_table, **values)]
    assert outcome in words(sales_page.get("/task/sales/load/-1/manual__2"))


PHASES = {"start": 10, "plan": 2.5, "write": 87.496, "commit": 0.004}


def task_page(page, table, state, **values) -> str:
    """Return the page of a task whose second attempt has this state, with a result in Airflow."""
    page.database.attempts_of["sales", RUN, "load", -1] = [attempt(1, "failed"), attempt(2, state)]
    page.database.results_of["sales", RUN] = [result(table, **values)]
    return page.get(f"/task/sales/load/-1/{RUN}")


@pytest.mark.parametrize("state", ["success", "failed", "up_for_retry"])
def test_the_phases_of_a_job_are_a_bar_and_a_list(sales_page, run_table, state):
    html = task_page(sales_page, run_table, state, phases=dict(reversed(PHASES.items())))
    text = words(html)
    assert "Phases of the job The job of try 2 took 1 min 40 s." in text
    names_and_lengths = [("Start", "10 s"), ("Plan", "2 s"), ("Write", "1 min 27 s"), ("Commit", "4 ms")]
    positions = [text.index(f" {name} {length} ") for name, length in names_and_lengths]
    assert positions == sorted(positions), "the list has the order of the phases"
    bar = html.partition('<svg class="phases"')[2].partition("</svg>")[0]
    parts = re.findall(r'class="phase-(\w+)" x="([0-9.]+)" y="0" width="([0-9.]+)"', bar)
    assert parts == [("start", "0.0", "100.0"), ("plan", "100.0", "25.0"), ("write", "125.0", "875.0")]
    assert "viewBox" in bar and 'aria-hidden="true"' in bar


@pytest.mark.parametrize(
    ("seconds", "text"), [(59 * 60 + 59, "59 min 59 s"), (36_000, "10 h 0 min"), (7_559, "2 h 5 min")]
)
def test_a_long_phase_has_hours(sales_page, run_table, seconds, text):
    html = task_page(sales_page, run_table, "success", phases={"write": seconds})
    assert f"The job of try 2 took {text}." in words(html)


@pytest.mark.parametrize(("seconds", "has_phases"), [(0, False), (1, True)])
def test_an_attempt_without_a_job_does_not_show_the_phases_of_an_earlier_attempt(
    sales_page, run_table, seconds, has_phases
):
    """Airflow keeps the result of a cleared task until the next attempt starts, which may fail before its start."""
    first, second = attempt(1, "success"), attempt(2, "failed")
    sales_page.database.attempts_of["sales", RUN, "load", -1] = [first, second]
    stored = replace(result(run_table, phases=PHASES), stored_at=first.end + timedelta(seconds=seconds))
    sales_page.database.results_of["sales", RUN] = [stored]
    html = sales_page.get(f"/task/sales/load/-1/{RUN}")
    assert ("Phases of the job" in html) is has_phases


@pytest.mark.parametrize("state", ["running", "queued", "deferred", None])
def test_an_attempt_that_has_not_ended_shows_no_phases(sales_page, run_table, state):
    assert "Phases of the job" not in task_page(sales_page, run_table, state, phases=PHASES)


@pytest.mark.parametrize(
    "phases",
    [
        None, [], "write", {}, {"other": 1}, {"write": 0}, {"write": "1"}, {"write": True}, {"write": None},
        {"write": -1}, {"write": float("nan")}, {"write": float("inf")}, {"write": 10**400}, {"write": {"write": 1}},
    ],
)  # fmt: skip
def test_phases_without_a_valid_number_of_seconds_are_not_shown(sales_page, run_table, phases):
    assert "Phases of the job" not in task_page(sales_page, run_table, "success", phases=phases)


def test_only_phases_with_a_known_name_and_valid_seconds_are_shown(sales_page, run_table):
    phases = {"<b>": 5, **{f"p{number}": 1 for number in range(100_000)}, "plan": "1", "write": 3, "commit": 1}
    html = task_page(sales_page, run_table, "success", phases=phases)
    assert "The job of try 2 took 4 s." in words(html)
    assert re.findall(r'"phase-(\w+)" x="([0-9.]+)"', html) == [("write", "0.0"), ("commit", "750.0")]
    assert html.count("<dt><svg") == 2


def test_the_page_of_a_task_with_an_unknown_table_shows_only_the_result(sales_page, tmp_path):
    sales_page.database.attempts_of["sales", RUN, "other", -1] = [attempt(1, "success")]
    sales_page.database.results_of["sales", RUN] = [result(tmp_path / "unknown", task_id="other", version=3)]
    text = words(sales_page.get(f"/task/sales/other/-1/{RUN}"))
    assert "WRITE, version 3" in text and "add its asset to the outlets" in text


def test_a_version_of_an_unknown_table_has_no_link_to_another_outlet(sales_page, tmp_path):
    sales_page.database.attempts_of["sales", "r", "load", -1] = [attempt(1, "success")]
    sales_page.database.results_of["sales", "r"] = [result(tmp_path / "unknown", version=7)]
    html = sales_page.get("/task/sales/load/-1/r")
    assert "Committed version 7" in html and str(tmp_path / "unknown") in html
    assert sales_page.key not in html


def test_an_attempt_with_several_outlets_refers_to_the_tables_below(sales_page, tmp_path):
    root = tmp_path / "lake" / "second"
    create(LocalLogStore(str(root)))
    write_commit(root, 1, operation="WRITE", userMetadata=task_metadata())
    second_key = sales_page.add_asset(root, asset_id=2, writer=("sales", "load"))
    sales_page.database.attempts_of["sales", RUN, "load", -1] = [attempt(1, "failed")]
    html = sales_page.get(f"/task/sales/load/-1/{RUN}")
    assert "See the tables below" in html and "Committed version" not in html
    for key in (sales_page.key, second_key):
        assert f'href="/airflow/deltalite/tables/{key}/versions/1"' in html


def test_a_table_appears_at_once_after_its_first_commit(sales_page, tmp_path):
    root = tmp_path / "lake" / "new"
    key = sales_page.add_asset(root, asset_id=2, writer=("sales", "first"))
    sales_page.database.attempts_of["sales", RUN, "first", -1] = [attempt(1, "running")]
    html = sales_page.get(f"/task/sales/first/-1/{RUN}")
    assert "The table has no commit yet." in html and "TableNotFoundError" not in html
    create(LocalLogStore(str(root)))
    write_commit(root, 1, operation="WRITE", userMetadata=task_metadata(task_id="first"))
    assert f"/tables/{key}/versions/1" in sales_page.get(f"/task/sales/first/-1/{RUN}")


def test_the_page_of_a_task_says_that_it_wrote_no_table_or_has_not_started(sales_page):
    sales_page.database.attempts_of["sales", RUN, "mail", -1] = [attempt(1, "success")]
    assert "This task wrote no Delta table" in sales_page.get(f"/task/sales/mail/-1/{RUN}")
    assert "No attempt yet" in sales_page.get(f"/task/sales/mail/-1/{RUN}x")


def test_the_tab_of_a_run_lists_the_results_of_its_tasks(sales_page, run_table):
    run_id = "scheduled__2026-03-01T00:00:00+00:00"
    audits = [{"name": "a", "passed": False}, {"name": "b", "passed": True}]
    sales_page.database.results_of["sales", run_id] = [
        result(run_table, audits=audits),
        TaskResult(task_id="mail", map_index=-1, value={"sent": 3}),
    ]
    html = sales_page.get(f"/dag-run/sales/{run_id}")
    assert "Committed version 1" in html and "1 of 2 did not pass" in html and "mail" not in html
    assert "/airflow/deltalite/task/sales/load/-1/scheduled__2026-03-01T00%3A00%3A00%2B00%3A00" in html
    assert "No result yet" in sales_page.get("/dag-run/sales/other")


def test_the_tab_of_a_dag_lists_the_tables_in_the_results_of_its_newest_runs(delta_page, tmp_path):
    for number, name in enumerate(("old", "written", "other")):
        create(LocalLogStore(str(tmp_path / "lake" / name)))
        delta_page.add_asset(tmp_path / "lake" / name, asset_id=number)
    delta_page.users["ann"] = Rights(dag_ids={"sales"})
    database = delta_page.database
    database.results_of["sales", "run 1"] = [result(tmp_path / "lake" / "old")]
    database.results_of["sales", "run 2"] = [result(tmp_path / "lake" / "written"), result(tmp_path / "unknown")]
    database.results_of |= {("sales", "run 3"): [result("s3://x*")], ("sales", "run 4"): []}
    database.results_of["stock", "run 1"] = [result(tmp_path / "lake" / "other")]
    tables = lambda: re.findall(r">lake/(\w+)</a>", delta_page.get("/dag/sales"))
    assert tables() == ["written"]
    delta_page.users["ann"].may_read_xcoms = lambda _dag_id: False
    assert tables() == []
    delta_page.users["ann"] = Rights(assets=False, dag_ids={"sales"})  # the result gives no right to the table
    assert tables() == []


def test_the_tab_of_a_dag_lists_its_tables(sales_page, tmp_path):
    sales_page.add_asset(tmp_path / "other", asset_id=2, writer=("stock", "load"))
    html = sales_page.get("/dag/sales")
    assert ">lake/sales</a>" in html and "other" not in html


def test_the_tab_of_a_run_says_why_a_task_skipped(sales_page, run_table):
    skipped = {"skipped": True, "committed": False}
    sales_page.database.results_of["sales", RUN] = [
        result(run_table, **skipped, version=7, skip_reason="no new version"),
        result(run_table, **skipped, version=1),
    ]
    text = words(sales_page.get(f"/dag-run/sales/{RUN}"))
    assert "Skipped: no new version" in text and "committed version 7" not in text
    assert "Skipped: this run has already committed version 1" in text

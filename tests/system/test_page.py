"""The page in a real Airflow and a real browser: from a task to its version, and back to the task's log."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from tests.support.airflow_versions import NEVER_EXPIRE
from tests.support.browser import is_browser_installed, open_browser
from tests.support.delta_page import open_list, open_table

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.slow,
    pytest.mark.campaign,
    pytest.mark.skipif(not is_browser_installed(), reason="needs Debian's packages chromium and chromium-driver"),
]

# The first attempt commits and fails, and the second one finds the commit, as with a worker that dies.
DAG = """
import json
import time
from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, Variable, task
from airflow_provider_deltalite.assets.delta import delta_asset

TABLE = Path(Variable.get("lake")) / "page" / "orders"
COMMENT = "<b onclick=alert(1)>planted</b>"
FIELD = {"name": "order_id", "type": "long", "nullable": False, "metadata": {"comment": COMMENT}}

with DAG("page_sales", schedule=None, default_args={"retries": 1, "retry_delay": timedelta(seconds=1)}):

    @task(outlets=[delta_asset(str(TABLE))])
    def load(ti=None):
        if ti.try_number > 1:
            result = {"table": str(TABLE), "operation": "WRITE", "version": 0, "skipped": True, "committed": False}
            return {**result, "phases": {"start": 61.5, "plan": 0.25}}
        run = {"dag_id": ti.dag_id, "task_id": ti.task_id, "run_id": ti.run_id, "map_index": -1, "try_number": 1}
        now_ms = time.time_ns() // 1_000_000
        actions = [
            {"commitInfo": {"timestamp": now_ms, "operation": "WRITE", "operationMetrics": {"numOutputRows": "1500"},
                            "userMetadata": json.dumps(run)}},
            {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
            {"metaData": {"id": "orders", "format": {"provider": "parquet", "options": {}}, "partitionColumns": [],
                          "schemaString": json.dumps({"type": "struct", "fields": [FIELD]}), "configuration": {},
                          "createdTime": now_ms}},
            {"add": {"path": "part-0.parquet", "size": 52_000, "modificationTime": now_ms, "partitionValues": {},
                     "dataChange": True, "stats": '{"numRecords":1500}'}},
        ]
        (TABLE / "_delta_log").mkdir(parents=True)
        text = "".join(json.dumps(action) + "\\n" for action in actions)
        (TABLE / "_delta_log" / f"{0:020}.json").write_text(text)
        raise RuntimeError("the worker fails after its commit")

    load()
"""


def test_a_person_clicks_from_a_task_to_its_version_and_to_the_log(whole_airflow, tmp_path):
    whole_airflow.add_dag("page_sales", DAG)
    run_id = whole_airflow.run("page_sales", timeout=240)
    airflow = f"http://127.0.0.1:{whole_airflow.port}"
    task_page = f"{airflow}/dags/page_sales/runs/{quote(run_id, safe='')}/tasks/load"
    with open_browser() as browser:
        browser.open(airflow)  # logs in, because every user of this Airflow is an admin
        browser.until("the user is logged in", lambda: "Dags" in browser.text())

        browser.open(f"{task_page}/plugin/delta-task")
        browser.enter_frame()
        attempts = browser.text("table")
        assert "2 success Skipped: this run has already committed version 0" in attempts
        assert "1 failed Committed version 0, then failed" in attempts
        phases = " ".join(browser.text("dl.phase-list").split())
        assert phases.startswith("Start 1 min 2 s from the start") and " Plan 250 ms read logs" in phases
        browser.take_picture(tmp_path / "task.png")

        browser.click("tbody td a")
        browser.until("the version is shown", lambda: "What changed" in browser.text())
        assert "This is the first version of the table." in browser.text() and "page_sales.load" in browser.text()
        browser.click("button[data-copy]")
        browser.until("the text is copied", lambda: browser.text("button[data-copy]") == "Copied")
        browser.leave_frame()
        browser.take_picture(tmp_path / "version.png")

        open_list(browser, airflow)
        assert browser.text("tbody tr:has([title$='/page/orders']) .badge") == "healthy"
        browser.take_picture(tmp_path / "lake.png")
        browser.click("tbody th a:has(+ [title$='/page/orders'])")
        browser.until("the table is shown", lambda: "Table features" in browser.text())
        assert "<b onclick=alert(1)>planted</b>" in browser.text()  # the comment of a column, as text
        assert browser.run("return document.querySelectorAll('[onclick]').length") == 0
        assert browser.run("return document.documentElement.dataset.theme") == "light"
        browser.run("localStorage.setItem('theme', 'dark')")
        browser.leave_frame()
        if NEVER_EXPIRE is None:  # Airflow 3.1 shows the list again after a reload
            open_table(browser, airflow, "page/orders")
        else:
            browser.open(browser.url)  # Airflow's address contains the address of the frame
            browser.enter_frame()
        browser.until(
            "the page is dark", lambda: browser.run("return document.documentElement.dataset.theme") == "dark"
        )
        browser.until("the table is shown", lambda: "Table features" in browser.text())
        browser.take_picture(tmp_path / "table-dark.png")

        browser.click("td a[target=_top]")
        browser.leave_frame()
        browser.until("the log is shown", lambda: browser.url == f"{task_page}?try_number=1")
        for view in (
            f"dags/page_sales/runs/{quote(run_id, safe='')}/plugin/delta-run",
            "dags/page_sales/plugin/delta-dag",
        ):
            browser.open(f"{airflow}/{view}")
            browser.enter_frame()
            browser.until("the table is named", lambda: "page/orders" in browser.text())
            browser.leave_frame()
        refusals = [message for message in browser.messages() if "Content Security Policy" in message]
        assert refusals == []

"""The page in a real Airflow and a real browser, for two users with different rights."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support.airflow_processes import WholeAirflow
from tests.support.browser import Browser, is_browser_installed, open_browser
from tests.support.delta_page import open_table
from tests.support.postgres import postgres

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.slow,
    pytest.mark.campaign,
    pytest.mark.skipif(not is_browser_installed(), reason="needs Debian's packages chromium and chromium-driver"),
]
PASSWORDS = {"ann": "planted-password-1", "bob": "planted-password-2"}

# Each run adds a version to the table of the DAG, without Spark.
WRITER = """
import json
import time
from pathlib import Path

from airflow.sdk import DAG, Variable, task
from airflow_provider_deltalite.assets.delta import delta_asset

TABLE = Path(Variable.get("lake")) / "{name}"

with DAG("page_{name}", schedule=None):

    @task(outlets=[delta_asset(str(TABLE))])
    def load(ti=None):
        run = {{"dag_id": ti.dag_id, "task_id": ti.task_id, "run_id": ti.run_id, "map_index": -1, "try_number": 1}}
        schema = {{"type": "struct", "fields": [{{"name": "id", "type": "long", "nullable": True, "metadata": {{}}}}]}}
        now_ms = time.time_ns() // 1_000_000
        actions = [
            {{"commitInfo": {{"timestamp": now_ms, "operation": "WRITE", "userMetadata": json.dumps(run)}}}},
            {{"protocol": {{"minReaderVersion": 1, "minWriterVersion": 2}}}},
            {{"metaData": {{"id": "{name}", "format": {{"provider": "parquet", "options": {{}}}},
                          "partitionColumns": [], "schemaString": json.dumps(schema), "configuration": {{}},
                          "createdTime": now_ms}}}},
        ]
        (TABLE / "_delta_log").mkdir(parents=True)
        (TABLE / "_delta_log" / f"{{0:020}}.json").write_text("\\n".join(map(json.dumps, actions)))
        return {{"table": str(TABLE), "operation": "WRITE", "version": 0, "skipped": False, "committed": True}}

    load()
"""
MAINTENANCE = """
from airflow.sdk import DAG, Param, task

with DAG("page_mend", schedule=None, params={"table": Param(type="string"), "storage_conn_id": None}):

    @task
    def mend(params=None):
        return params["table"]

    mend()
"""


@pytest.fixture
def airflow(tmp_path):
    """An Airflow in which `ann` is an admin, and `bob` may read only the DAG `page_stock`."""
    passwords = tmp_path / "passwords.json"
    passwords.write_text(json.dumps(PASSWORDS))
    variables = {
        "AIRFLOW_VAR_LAKE": str(tmp_path / "lake"),
        "AIRFLOW__CORE__AUTH_MANAGER": "page_auth_manager.PageAuthManager",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "ann:admin,bob:viewer",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
        "AIRFLOW__DELTALITE__UI_PREVIEW": "True",
        "AIRFLOW__DELTALITE__UI_MAINTENANCE_DAG": "page_mend",
        "PYTHONPATH": str(Path(__file__).parent),
    }
    login = {"username": "ann", "password": PASSWORDS["ann"]}
    with (
        postgres() as database,
        WholeAirflow(tmp_path / "airflow", database=database, variables=variables, login=login) as running,
    ):
        yield running


def log_in(browser: Browser, airflow: str, user: str) -> None:
    """Log in on Airflow's login page."""
    browser.open(airflow)
    browser.type("input[name=username]", user)
    browser.type("input[name=password]", PASSWORDS[user])
    browser.click("button[type=submit]")
    browser.until("the user is logged in", lambda: "Dags" in browser.text())


def test_two_users_see_and_do_what_their_rights_allow(airflow, tmp_path):
    airflow.add_dag("page_mend", MAINTENANCE)
    runs = {}
    for name in ("sales", "stock"):
        airflow.add_dag(f"page_{name}", WRITER.format(name=name))
        runs[name] = airflow.run(f"page_{name}", timeout=240)
    url = f"http://127.0.0.1:{airflow.port}"

    with open_browser() as browser:
        log_in(browser, url, "ann")
        task_page = f"{url}/dags/page_sales/runs/{quote(runs['sales'], safe='')}/tasks/load"
        browser.open(f"{task_page}/plugin/delta-task")
        browser.enter_frame()
        browser.click("tbody td a")
        browser.until("the version is shown", lambda: "What changed" in browser.text())
        assert "Show rows" in browser.text()
        browser.click(".by a[target=_top]")
        browser.leave_frame()
        browser.until("the log of the task is shown", lambda: browser.url == f"{task_page}?try_number=1")

        open_table(browser, url, "sales")
        sales = browser.run("return location.pathname")
        browser.click("form.maintenance button")
        browser.until("the run is named", lambda: "Airflow has started the run" in browser.text())
        browser.take_picture(tmp_path / "started.png")
        [run] = airflow.wait_for_runs("page_mend", 1)
        assert run["conf"] == {"table": str(tmp_path / "lake" / "sales")}
        assert (run["triggering_user_name"], run["triggered_by"]) == ("ann", "ui")
        browser.click("[role=status] a[target=_top]")
        browser.leave_frame()
        browser.until("the run is shown", lambda: "/dags/page_mend/runs/" in browser.url)
        assert [message for message in browser.messages() if "Content Security Policy" in message] == []

    with open_browser() as browser:
        log_in(browser, url, "bob")
        open_table(browser, url, "stock")
        stock = browser.run("return location.pathname")
        assert browser.run("return document.querySelectorAll('form').length") == 0
        browser.open(f"{url}/deltalite/lake")
        assert "lake/stock" in browser.text() and "sales" not in browser.text()
        browser.open(f"{url}{stock}/versions/0")
        assert "You may not see rows." in browser.text() and "Show rows" not in browser.text()
        browser.open(f"{url}{sales}")
        assert "Not found" in browser.text()
        post_script = "return fetch(PATH, {method: 'POST', body: 'token=x'}).then((answer) => answer.status)"
        for path, expected in ((stock, 403), (sales, 404)):
            assert browser.run(post_script.replace("PATH", json.dumps(f"{path}/maintenance"))) == expected
    assert len(airflow.runs("page_mend")) == 1

"""The button that starts the maintenance of a table: who sees it, and which requests start a run."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import pytest

from airflow_provider_deltalite.page import form_tokens
from airflow_provider_deltalite.page.database import DagState
from airflow_provider_deltalite.page.form_tokens import FormTokens
from airflow_provider_deltalite.page.run_start import RunStartAnswer
from deltalite.storage.local import LocalLogStore
from tests.airflow.page.conftest import Rights
from tests.airflow.page.test_hostile_texts import PAYLOADS, check_is_harmless
from tests.unit.builders import create

DAG = "table_maintenance"
READY = DagState(is_paused=False, has_import_errors=False)
BUTTON = "Start the maintenance"


@pytest.fixture
def table(delta_page, tmp_path):
    """The key of a table; the deployment names a maintenance DAG, and `ann` may start it."""
    create(LocalLogStore(str(tmp_path / "orders")))
    delta_page.settings = {"maintenance_dag": DAG}
    delta_page.users["ann"] = Rights(startable_dag_ids={DAG})
    delta_page.database.dags[DAG] = READY
    return delta_page.add_asset(tmp_path / "orders")


def token_in(html_page: str) -> str:
    [token] = re.findall(r'name="token" value="([^"]+)"', html_page)
    return html.unescape(token)


def start(page, key: str, **form: str):
    return page.post(f"/tables/{key}/maintenance", **form)


def test_a_click_starts_a_run_for_the_table_and_leads_to_it(delta_page, table, tmp_path):
    token = token_in(delta_page.get(f"/tables/{table}"))
    answer = start(delta_page, table, token=token)
    assert answer.status_code == 303
    assert answer.headers["location"] == f"/airflow/deltalite/tables/{table}?started=manual__new#advice"
    assert delta_page.starts == [(DAG, {"table": str(tmp_path / "orders")})]
    link = 'href="/airflow/dags/table_maintenance/runs/manual__new"'
    assert link not in delta_page.get(f"/tables/{table}?started=manual__new")  # Airflow has no such run
    delta_page.database.runs.add((DAG, "manual__new"))
    assert link in delta_page.get(f"/tables/{table}?started=manual__new")


def test_the_run_gets_the_connection_with_which_the_user_reads_the_table(delta_page, table):
    key = delta_page.add_asset("s3://lake/<b>$(id)'", asset_id=2, conn_id="lake")
    token = delta_page.form_tokens.token("ann", f"start {DAG} for {key}")
    assert start(delta_page, key, token=token).status_code == 303
    assert delta_page.starts == [(DAG, {"table": "s3://lake/<b>$(id)'", "storage_conn_id": "lake"})]


def test_without_the_setting_there_is_no_button_and_no_route(delta_page, table):
    delta_page.settings = {}
    assert BUTTON not in delta_page.get(f"/tables/{table}")
    token = delta_page.form_tokens.token("ann", f"start  for {table}")
    assert start(delta_page, table, token=token).status_code == 404
    assert delta_page.starts == []


def test_without_the_right_there_is_no_button_and_a_valid_form_is_refused(delta_page, table):
    delta_page.users["ann"] = Rights(dag_ids={DAG})
    page = delta_page.get(f"/tables/{table}")
    assert BUTTON not in page and DAG not in page
    answer = start(delta_page, table, token=delta_page.form_tokens.token("ann", f"start {DAG} for {table}"))
    assert answer.status_code == 403 and "You may not start this DAG" in answer.text
    assert delta_page.starts == []


def test_a_user_cannot_start_the_maintenance_of_a_table_that_the_user_may_not_see(delta_page, table):
    delta_page.users["ann"] = Rights(assets=False, startable_dag_ids={DAG})
    token = delta_page.form_tokens.token("ann", f"start {DAG} for {table}")
    assert start(delta_page, table, token=token).status_code == 404
    assert delta_page.starts == []


def test_a_form_without_a_valid_token_is_refused(delta_page, table, tmp_path, monkeypatch):
    create(LocalLogStore(str(tmp_path / "other")))
    other = delta_page.add_asset(tmp_path / "other", asset_id=2)
    action = f"start {DAG} for {table}"
    valid = delta_page.form_tokens.token("ann", action)
    for token in (
        "",
        "x",
        valid[:-1],
        delta_page.form_tokens.token("bob", action),
        token_in(delta_page.get(f"/tables/{other}")),
        FormTokens("another secret").token("ann", action),
        FormTokens("").token("ann", action),
    ):
        answer = start(delta_page, table, token=token)
        assert answer.status_code == 403 and "Reload the page of the table" in answer.text
    assert start(delta_page, table).status_code == 403
    assert start(delta_page, table, token=valid, padding="x" * 5_000).status_code == 413
    monkeypatch.setattr(form_tokens, "_MAX_AGE_SECONDS", -1)
    assert start(delta_page, table, token=valid).status_code == 403
    assert delta_page.starts == []


def test_a_get_never_starts_a_run(delta_page, table):
    token = token_in(delta_page.get(f"/tables/{table}"))
    delta_page.get(f"/tables/{table}/maintenance?token={token}", status=405)
    assert delta_page.starts == []


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        (None, "This Airflow has no such DAG."),
        (replace(READY, is_paused=True), "The DAG is paused"),
        (replace(READY, has_import_errors=True), "Airflow cannot import the file of the DAG."),
    ],
)
def test_a_dag_that_cannot_start_has_a_reason_instead_of_a_button(delta_page, table, state, sentence):
    token = token_in(delta_page.get(f"/tables/{table}"))
    delta_page.database.dags = {} if state is None else {DAG: state}
    page = delta_page.get(f"/tables/{table}")
    assert sentence in page and BUTTON not in page
    answer = start(delta_page, table, token=token)
    assert answer.status_code == 409 and sentence in answer.text
    assert delta_page.starts == []


@pytest.mark.parametrize("payload", PAYLOADS)
def test_texts_of_airflow_and_of_the_setting_are_escaped(delta_page, table, payload):
    delta_page.start_answer = RunStartAnswer(status=400, problem=payload)
    answer = start(delta_page, table, token=token_in(delta_page.get(f"/tables/{table}")))
    assert answer.status_code == 400
    check_is_harmless(answer.text)
    delta_page.users["ann"] = Rights(startable_dag_ids={payload})
    delta_page._client = None
    delta_page.settings = {"maintenance_dag": payload}
    delta_page.database.dags[payload] = READY
    delta_page.database.runs.add((payload, payload))
    check_is_harmless(delta_page.answer(f"/tables/{table}?started={delta_page.encode(payload)}").text)

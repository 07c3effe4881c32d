"""The page in Airflow's API server, with Airflow's login, auth manager and database."""

from __future__ import annotations

import html
import re
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient

from deltalite.storage.local import LocalLogStore
from tests.examples.dag_runs import EXAMPLES
from tests.unit.builders import create

pytestmark = [pytest.mark.airflow, pytest.mark.slow]


@pytest.fixture(scope="module")
def api_server(airflow_db, tmp_path_factory):
    """A client of the API server without a login, and a function that returns the cookie of a user with a role."""
    from airflow.api_fastapi.app import create_app, purge_cached_app
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    from airflow_provider_deltalite.page import registration
    from airflow_provider_deltalite.plugin import DeltaLitePlugin

    table = tmp_path_factory.mktemp("lake") / "orders"
    create(LocalLogStore(str(table)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS", "False")
        patch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", "planted" * 12)
        patch.setenv("AIRFLOW__API__SECRET_KEY", "planted" * 5)
        patch.setenv("AIRFLOW__DELTALITE__UI_ENABLED", "True")
        patch.setenv("AIRFLOW__DELTALITE__UI_TABLES", str(table))
        patch.setenv("AIRFLOW__DELTALITE__UI_MAINTENANCE_DAG", "table_maintenance")
        patch.setattr(DeltaLitePlugin, "fastapi_apps", registration.fastapi_apps())
        patch.setattr(DeltaLitePlugin, "external_views", registration.external_views())
        purge_cached_app()
        app = create_app(apps="core")

        def token_of(role):
            return app.state.auth_manager.generate_jwt(SimpleAuthManagerUser(username="ann", role=role))

        yield TestClient(app), token_of
        purge_cached_app()


@pytest.mark.parametrize("path", ["/deltalite/lake", "/deltalite/tables/0", "/deltalite/task/d/t/-1/r"])
def test_a_request_without_a_login_is_refused(api_server, path):
    client, _ = api_server
    answer = client.get(path)
    assert answer.status_code == 401
    assert "You are not logged in" in answer.text


def test_a_request_with_a_forged_token_is_refused(api_server):
    client, _ = api_server
    answer = client.get("/deltalite/lake", headers={"Cookie": "_token=forged"})
    assert answer.status_code in (401, 403)
    assert "Search tables" not in answer.text


@pytest.mark.parametrize(("role", "status"), [("viewer", 200), ("admin", 200), (None, 403)])
def test_the_auth_manager_decides_about_a_user(api_server, role, status):
    client, token_of = api_server
    cookie = {"Cookie": f"_token={token_of(role)}"}
    assert "Search tables" in client.get("/deltalite/lake", headers=cookie).text
    assert client.get("/deltalite/dag/unknown_dag", headers=cookie).status_code == status


def test_the_files_of_the_page_are_served(api_server):
    client, _ = api_server
    for name, kind in (("page.css", "text/css"), ("page.js", "javascript"), ("icon.svg", "image/svg+xml")):
        answer = client.get(f"/deltalite/static/{name}")
        assert answer.status_code == 200 and kind in answer.headers["content-type"]


def test_airflow_lists_the_views_of_the_page(api_server):
    client, token_of = api_server
    answer = client.get("/api/v2/plugins", headers={"Authorization": f"Bearer {token_of('admin')}"})
    [plugin] = [plugin for plugin in answer.json()["plugins"] if plugin["name"] == "deltalite"]
    assert [view["destination"] for view in plugin["external_views"]] == ["nav", "dag", "dag_run", "task_instance"]


def log_lines(dag_id: str) -> list[tuple[str, str]]:
    """The events and users in Airflow's event log of a DAG, the oldest first."""
    from airflow.models import Log
    from airflow.utils.session import create_session
    from sqlalchemy import select

    query = select(Log.event, Log.owner).where(Log.dag_id == dag_id).order_by(Log.id)
    with create_session() as session:
        return [tuple(row) for row in session.execute(query)]


@pytest.fixture
def maintenance_dag(airflow_db):
    """The example DAG of the button, as Airflow's database has it after the file was parsed: paused."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager

    from tests.support.airflow_versions import DagBag, sync_bag_to_db

    DagBundlesManager().sync_bundles_to_db()
    bag = DagBag(EXAMPLES / "table_maintenance.py")
    assert bag.import_errors == {}
    sync_bag_to_db(bag, "dags-folder", None)
    return "table_maintenance"


def test_the_button_starts_a_run_as_airflow_does_for_users_who_may_start_it(api_server, maintenance_dag):
    client, token_of = api_server
    admin, viewer = ({"Cookie": f"_token={token_of(role)}"} for role in ("admin", "viewer"))
    api = {"Authorization": f"Bearer {token_of('admin')}"}
    dag = f"/api/v2/dags/{maintenance_dag}"
    run_ids = lambda: {run["dag_run_id"] for run in client.get(f"{dag}/dagRuns", headers=api).json()["dag_runs"]}
    earlier_ids = run_ids()  # tests of the example may have run the DAG in the same database
    lake = client.get("/deltalite/lake", headers=admin).text
    [table] = re.findall(r'href="(/deltalite/tables/\w+)">lake0/orders<', lake)
    assert "The DAG is paused" in client.get(table, headers=admin).text
    assert client.patch(dag, headers=api, json={"is_paused": False}).status_code == 200

    assert "Start the maintenance" not in client.get(table, headers=viewer).text
    [token] = re.findall(r'name="token" value="([^"]+)"', client.get(table, headers=admin).text)
    form, lines_before = {"token": html.unescape(token)}, log_lines(maintenance_dag)
    assert client.post(f"{table}/maintenance", headers=viewer, data=form).status_code == 403
    assert client.post(f"{table}/maintenance", headers=admin).status_code == 403
    assert run_ids() == earlier_ids

    referer = {"Referer": f"http://testserver{table}"}
    answer = client.post(f"{table}/maintenance", headers={**admin, **referer}, data=form, follow_redirects=False)
    assert answer.status_code == 303, answer.text
    [run] = [
        run
        for run in client.get(f"{dag}/dagRuns", headers=api).json()["dag_runs"]
        if run["dag_run_id"] not in earlier_ids
    ]
    assert run["conf"]["table"].endswith("/lake0/orders")
    assert (run["run_type"], run["triggered_by"], run["triggering_user_name"]) == ("manual", "ui", "ann")
    assert log_lines(maintenance_dag)[len(lines_before) :] == [("trigger_dag_run", "ann")]
    page = client.get(answer.headers["location"], headers=admin).text
    assert f'href="/dags/table_maintenance/runs/{quote(run["dag_run_id"], safe="")}"' in page

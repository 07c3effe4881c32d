"""The page in Airflow's API server, with Airflow's login, auth manager and database."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

pytestmark = [pytest.mark.airflow, pytest.mark.slow]


@pytest.fixture(scope="module")
def api_server(airflow_db):
    """A client of the API server without a login, and a function that returns the cookie of a user with a role."""
    from airflow.api_fastapi.app import create_app, purge_cached_app
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    from airflow_provider_deltalite.page import registration
    from airflow_provider_deltalite.plugin import DeltaLitePlugin

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS", "False")
        patch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", "planted" * 12)
        patch.setenv("AIRFLOW__DELTALITE__UI_ENABLED", "True")
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

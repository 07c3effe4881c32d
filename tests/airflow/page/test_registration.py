"""The entries of the page in Airflow's menu and tabs, its settings, and its link."""

from __future__ import annotations

import asyncio
import runpy
import sys

import pytest
from airflow.api_fastapi.core_api.datamodels.plugins import ExternalViewResponse

from airflow_provider_deltalite.page import registration
from airflow_provider_deltalite.page.settings import read_settings


@pytest.fixture
def enabled(monkeypatch):
    """Switch the page on."""
    monkeypatch.setenv("AIRFLOW__DELTALITE__UI_ENABLED", "True")


@pytest.mark.parametrize(
    ("base_url", "path"), [("", ""), ("http://localhost:8080", ""), ("https://company.example/airflow/", "/airflow")]
)
def test_the_views_lie_below_the_path_of_airflow(monkeypatch, enabled, base_url, path):
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", base_url)
    views = {view.destination: view for view in map(ExternalViewResponse.model_validate, registration.external_views())}
    assert views.keys() == {"nav", "dag", "dag_run", "task_instance"}
    assert views["nav"].href == f"{path}/deltalite/lake"
    assert views["task_instance"].href == f"{path}/deltalite/task/{{DAG_ID}}/{{TASK_ID}}/{{MAP_INDEX}}/{{RUN_ID}}"
    assert len({view.url_route for view in views.values()}) == 4
    assert all(view.icon.startswith(f"{path}/deltalite/static/") for view in views.values())


@pytest.mark.parametrize(
    ("enabled", "base_url", "counts"),
    [
        ("True", "http://localhost:8080", (1, 1, 4)),
        (None, "http://localhost:8080", (1, 0, 0)),
        ("False", "http://localhost:8080", (1, 0, 0)),
        ("maybe", "http://localhost:8080", (1, 0, 0)),
        ("True", "http://[x", (1, 0, 0)),
    ],
)
def test_the_plugin_keeps_its_macros_whatever_the_settings_are(monkeypatch, caplog, enabled, base_url, counts):
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", base_url)
    if enabled is not None:
        monkeypatch.setenv("AIRFLOW__DELTALITE__UI_ENABLED", enabled)
    monkeypatch.delitem(sys.modules, "airflow_provider_deltalite.plugin", raising=False)  # another test imports it
    plugin = runpy.run_module("airflow_provider_deltalite.plugin")["DeltaLitePlugin"]
    assert (len(plugin.macros), len(plugin.fastapi_apps), len(plugin.external_views)) == counts
    assert ("Omitting the page" in caplog.text) == (enabled == "maybe" or base_url.endswith("[x"))
    assert registration.task_page("d", "r", "t", -1) is None or counts == (1, 1, 4)


@pytest.mark.parametrize(
    ("base_url", "map_index", "page"),
    [
        ("https://a.example/x/", -1, "https://a.example/x/dags/d/runs/m%2B1/tasks/g.t/plugin/delta-task"),
        ("http://a", 3, "http://a/dags/d/runs/m%2B1/tasks/g.t/mapped/3/plugin/delta-task"),
        ("", -1, None),
        ("/airflow", -1, None),
    ],
)
def test_a_tab_has_an_address_only_if_airflow_has_a_web_address(monkeypatch, enabled, base_url, map_index, page):
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", base_url)
    assert registration.task_page("d", "m+1", "g.t", map_index) == page


def test_the_app_is_built_once_at_the_first_request(monkeypatch):
    built, answered = [], []

    async def app(scope, receive, send):
        answered.append(scope)

    monkeypatch.setattr(registration, "_build", lambda: built.append(1) or app)

    async def ask_three_times():
        lazy_app = registration.LazyApp()
        await asyncio.gather(*(lazy_app({"number": number}, None, None) for number in range(3)))

    asyncio.run(ask_three_times())
    assert (len(built), len(answered)) == (1, 3)


@pytest.mark.parametrize(
    ("name", "value", "attribute", "expected"),
    [
        ("UI_TABLES", "s3://a/*, /lake/{x,y}/**\n /b", "roots", ("s3://a/*", "/lake/{x,y}/**", "/b")),
        ("UI_TABLES", "", "roots", ()),
        ("UI_STORAGE_CONN_IDS", '{"s3://a": "aws"}', "storage_conn_ids", {"s3://a": "aws"}),
        ("UI_TIMEOUT", "2.5", "timeout_seconds", 2.5),
    ],
)
def test_a_setting_is_parsed(monkeypatch, name, value, attribute, expected):
    monkeypatch.setenv(f"AIRFLOW__DELTALITE__{name}", value)
    settings = read_settings()
    assert getattr(settings, attribute) == expected
    assert settings.problems == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("UI_STORAGE_CONN_IDS", "aws"),
        ("UI_STORAGE_CONN_IDS", '{"s3://a": 1}'),
        ("UI_TIMEOUT", "soon"),
        ("UI_TIMEOUT", "0"),
        ("UI_TIMEOUT", "nan"),
        ("UI_TIMEOUT", "1e9"),
    ],
)
def test_an_invalid_setting_is_a_problem_and_the_default_applies(monkeypatch, name, value):
    monkeypatch.setenv(f"AIRFLOW__DELTALITE__{name}", value)
    settings = read_settings()
    assert len(settings.problems) == 1 and name.lower() in settings.problems[0]
    assert (settings.storage_conn_ids, settings.timeout_seconds) == ({}, 10.0)


@pytest.mark.parametrize(("value", "shows_rows", "problems"), [("True", True, 0), ("", False, 0), ("maybe", False, 1)])
def test_rows_need_a_valid_setting(monkeypatch, value, shows_rows, problems):
    if value:
        monkeypatch.setenv("AIRFLOW__DELTALITE__UI_PREVIEW", value)
    settings = read_settings()
    assert (settings.shows_rows, len(settings.problems)) == (shows_rows, problems)

"""The rights of users: every page needs a login, and a user sees only the tables of readable assets and DAGs."""

from __future__ import annotations

import re

import pytest
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from fastapi.routing import APIRoute

from airflow_provider_deltalite.page import access
from airflow_provider_deltalite.page.database import TaskResult
from airflow_provider_deltalite.page.known_tables import TaskName, WrittenTable
from deltalite.storage.local import LocalLogStore
from tests.airflow.page.conftest import Rights
from tests.unit.builders import create


@pytest.fixture
def two_tables(delta_page, tmp_path):
    """The keys of a table of the DAG `sales`, and of a table that only the settings name."""
    for name in ("sales", "root"):
        create(LocalLogStore(str(tmp_path / "lake" / name)))
    delta_page.settings = {"roots": (str(tmp_path / "lake" / "root"),)}
    sales = delta_page.add_asset(tmp_path / "lake" / "sales", writer=("sales", "load"), consumers=("report",))
    root = delta_page.key_of(tmp_path / "lake" / "root")
    return {"sales": sales, "root": root}


def refuse_and_record(page) -> list[tuple[str, str | None]]:
    """Let the storage refuse every table. Returns a list that gets the address and the connection of each attempt."""
    attempts = []

    def open_table(address, conn_id):
        attempts.append((address, conn_id))
        raise PermissionError(f"no access with {conn_id}")

    page.open_table = open_table
    return attempts


def test_every_route_needs_a_login(delta_page):
    assert delta_page.client
    routes = [route for route in delta_page.app.routes if isinstance(route, APIRoute)]
    assert len(routes) == 11
    for route in routes:
        path = re.sub(r"\{[^}]+\}", "0", route.path)
        is_change = route.path == "/tables/{key}/maintenance"
        assert route.methods == ({"POST"} if is_change else {"GET"})
        answer = (delta_page.post if is_change else delta_page.answer)(path, user=None)
        assert answer.status_code == 401 and "You are not logged in" in answer.text


@pytest.mark.parametrize(
    ("rights", "visible"),
    [
        (Rights(assets=True), {"sales", "root"}),
        (Rights(assets=False), set()),
        (Rights(assets=False, asset_ids={1}), {"sales"}),
        (Rights(assets=False, dag_ids={"sales"}), {"sales"}),
        (Rights(assets=False, dag_ids={"report"}), {"sales"}),
        (Rights(assets=False, dag_ids={"other"}), set()),
    ],
)
def test_a_user_sees_the_tables_of_readable_assets_and_dags(delta_page, two_tables, rights, visible):
    delta_page.users["ann"] = rights
    html = delta_page.get("/lake")
    assert {name for name in two_tables if f">lake/{name}</a>" in html} == visible
    for name, key in two_tables.items():
        for path in (f"/tables/{key}", f"/tables/{key}/versions/0"):
            delta_page.get(path, status=200 if name in visible else 404)


def written(address, dag_id="sales", conn_id=None):
    return WrittenTable(task=TaskName(dag_id=dag_id, task_id="load"), address=str(address), conn_id=conn_id)


@pytest.mark.parametrize(
    ("rights", "is_visible"),
    [
        (Rights(assets=True), False),
        (Rights(assets=False, dag_ids={"sales"}), True),
        (Rights(assets=True, dag_ids={"other"}), False),
    ],
)
def test_a_user_sees_a_table_that_a_task_of_a_readable_dag_wrote(delta_page, tmp_path, rights, is_visible):
    create(LocalLogStore(str(tmp_path / "orders")))
    delta_page.database.written = [written(tmp_path / "orders")]
    delta_page.users["ann"] = rights
    assert ("/orders</a>" in delta_page.get("/lake")) == is_visible
    page = delta_page.get(f"/tables/{delta_page.key_of(tmp_path / 'orders')}", status=200 if is_visible else 404)
    assert (">sales.load</a>" in page) == is_visible


def test_only_complete_addresses_that_tasks_wrote_are_opened(delta_page):
    opened = refuse_and_record(delta_page)
    delta_page.users["ann"] = Rights(assets=False, dag_ids={"sales"})
    delta_page.settings = {"storage_conn_ids": {"s3://lake": "lake"}}
    addresses = (
        "orders",
        "../orders",
        "Truncated. You can",
        "***",
        "s3://***/x",
        "http://host/x",
        "{'a': 1}",
        "",
        "C:\\x",
        "s3:orders",
        "file:orders",
    )
    delta_page.database.written = [
        *map(written, addresses),
        written("s3://lake/a"),
        written("s3://lake/b", conn_id="of_task"),
        written("/data/c", conn_id="of_task"),
    ]
    delta_page.get("/lake")
    assert sorted(opened) == [("/data/c", None), ("s3://lake/a", "lake"), ("s3://lake/b", "of_task")]


def test_the_connection_of_a_task_is_only_for_users_who_may_read_its_dag(delta_page):
    opened = refuse_and_record(delta_page)
    delta_page.database.written = [written("s3://lake/a", conn_id="of_task")]
    delta_page.add_asset("s3://lake/a", asset_id=1)
    for rights in (Rights(assets=True), Rights(assets=False, dag_ids={"sales"})):
        delta_page.users["ann"] = rights
        delta_page.get("/lake")
    assert opened == [("s3://lake/a", None), ("s3://lake/a", "of_task")]


def test_a_table_that_a_task_wrote_and_that_is_gone_is_not_in_the_list(delta_page, tmp_path):
    delta_page.users["ann"] = Rights(dag_ids={"sales"})
    delta_page.database.written = [written(tmp_path / "dropped")]
    assert "dropped" not in delta_page.get("/lake")


def test_a_table_that_a_user_may_not_see_looks_like_an_unknown_one(delta_page, two_tables):
    delta_page.users["ann"] = Rights(assets=False)
    forbidden, unknown = (delta_page.get(f"/tables/{key}", status=404) for key in (two_tables["sales"], "0" * 20))
    assert forbidden == unknown


@pytest.mark.parametrize("path", ["/dag/sales", "/dag-run/sales/r", "/task/sales/load/-1/r"])
def test_the_tabs_of_a_dag_need_the_right_to_read_it(delta_page, two_tables, path):
    delta_page.users["ann"] = Rights(assets=True, dag_ids={"report"})
    delta_page.get(path, status=403)
    delta_page.users["ann"] = Rights(assets=False, dag_ids={"sales"})
    delta_page.get(path)


def test_a_user_never_reads_with_the_connection_of_an_asset_that_the_user_may_not_see(delta_page):
    opened = refuse_and_record(delta_page)
    delta_page.users = {
        "ann": Rights(assets=False, dag_ids={"team_b"}),
        "bob": Rights(assets=False, dag_ids={"team_a"}),
    }
    key = delta_page.add_asset("s3://a/pay", asset_id=1, writer=("team_a", "load"), conn_id="conn_a")
    delta_page.add_asset("s3a://a/pay/", asset_id=2, consumers=("team_b",))
    for path in ("/lake", f"/tables/{key}", "/dag/team_b"):
        html = delta_page.get(path)
        assert "no access with None" in html and "conn_a" not in html and "team_a" not in html
    assert opened == [("s3://a/pay", None)]
    assert "no access with conn_a" in delta_page.get("/lake", user="bob")


def test_problems_of_the_settings_are_for_users_who_may_read_assets(delta_page):
    delta_page.settings = {"roots": ("s3://secret*/orders",)}
    assert "secret" in delta_page.get("/lake")
    delta_page.users["ann"] = Rights(assets=False)
    assert "secret" not in delta_page.get("/lake")


def test_no_address_of_a_request_or_of_an_xcom_is_opened(delta_page, tmp_path):
    delta_page.users["ann"] = Rights(assets=True, dag_ids={"sales"})
    create(LocalLogStore(str(tmp_path / "secret")))
    opened = []
    delta_page.open_table = lambda address, _: opened.append(address)
    value = {"table": str(tmp_path / "secret"), "operation": "WRITE", "version": 0}
    delta_page.database.results_of["sales", "r"] = [TaskResult(task_id="load", map_index=-1, value=value)]
    for path in (f"/lake?q={tmp_path}/secret", "/task/sales/load/-1/r", "/dag-run/sales/r"):
        delta_page.get(path)
    delta_page.get(f"/tables/{delta_page.key_of(tmp_path / 'secret')}", status=404)
    delta_page.get(f"/tables/{str(tmp_path / 'secret').replace('/', '%2F')}", status=404)
    assert opened == []


def test_the_connection_of_a_table_opens_it(delta_page):
    opened = refuse_and_record(delta_page)
    delta_page.settings = {"storage_conn_ids": {"s3://lake": "lake", "s3://lake/b": "lake_b"}}
    delta_page.add_asset("s3://lake/a", asset_id=1)
    delta_page.add_asset("s3a://lake/b/t", asset_id=2)
    delta_page.add_asset("s3://lake/c", asset_id=3, conn_id="of_asset")
    delta_page.add_asset("s3://lake/d", asset_id=4, conn_id="of_asset", watched_table="s3://lake/d",
                         watched_conn_id="of_watcher")  # fmt: skip
    delta_page.get("/lake")
    assert sorted(opened) == [
        ("s3://lake/a", "lake"),
        ("s3://lake/b/t", "lake_b"),
        ("s3://lake/c", "of_asset"),
        ("s3://lake/d", "of_watcher"),
    ]


@pytest.mark.parametrize(("role", "may_read"), [("VIEWER", False), ("USER", False), ("OP", True), ("ADMIN", True)])
def test_the_simple_auth_manager_allows_rows_to_the_roles_op_and_admin(monkeypatch, role, may_read):
    monkeypatch.setattr(access, "get_auth_manager", SimpleAuthManager)
    rights = access.AirflowRights(SimpleAuthManagerUser(username="ann", role=role))
    assert rights.may_read_rows() is may_read


def test_rows_need_the_permission_for_the_custom_view(monkeypatch):
    """An auth manager with roles refuses a view without a permission."""

    class Manager(SimpleAuthManager):
        def is_authorized_custom_view(self, *, method, resource_name, user):
            return (method, resource_name, user.username) == ("GET", "Delta table rows", "ann")

    monkeypatch.setattr(access, "get_auth_manager", Manager)
    may_read = {
        name: access.AirflowRights(SimpleAuthManagerUser(username=name, role="ADMIN")).may_read_rows()
        for name in ("ann", "bob")
    }
    assert may_read == {"ann": True, "bob": False}

"""The page with stand-ins for Airflow's database and auth manager, and tables that the library writes."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
import uvicorn
from fastapi import FastAPI, HTTPException, Request
from fastapi.testclient import TestClient

from airflow_provider_deltalite.page.app import build_app
from airflow_provider_deltalite.page.cache import BoundedCache
from airflow_provider_deltalite.page.database import DagState
from airflow_provider_deltalite.page.form_tokens import FormTokens
from airflow_provider_deltalite.page.freshness import Schedule
from airflow_provider_deltalite.page.known_tables import AssetFacts, TaskName, WrittenTable, key_of
from airflow_provider_deltalite.page.read_pool import ReadPool
from airflow_provider_deltalite.page.reading import TableReader
from airflow_provider_deltalite.page.registration import URL_PREFIX
from airflow_provider_deltalite.page.roots import Roots
from airflow_provider_deltalite.page.run_start import RunStartAnswer
from airflow_provider_deltalite.page.services import Services
from airflow_provider_deltalite.page.settings import PageSettings
from deltalite.storage.local import LocalLogStore
from deltalite.storage.opening import open_store
from tests.airflow.page.written_pages import RUN, write_commit
from tests.support.ports import free_ports
from tests.unit.builders import NOON_MS, create

if TYPE_CHECKING:
    from httpx import Response


@dataclass
class Rights:
    """The rights of a user."""

    assets: bool = True
    asset_ids: set[int] = field(default_factory=set)
    dag_ids: set[str] = field(default_factory=set)
    rows: bool = True
    startable_dag_ids: set[str] = field(default_factory=set)
    user_id: str = "ann"

    def may_read_assets(self) -> bool:
        return self.assets

    def may_read_asset(self, asset_id: int) -> bool:
        return self.assets or asset_id in self.asset_ids

    def readable_dag_ids(self) -> frozenset[str]:
        return frozenset(self.dag_ids)

    def may_read_rows(self) -> bool:
        return self.rows

    def may_start_runs(self, dag_id: str) -> bool:
        return dag_id in self.startable_dag_ids

    def may_read_dag(self, dag_id: str) -> bool:
        return dag_id in self.dag_ids

    may_read_runs = may_read_tasks = may_read_xcoms = may_read_dag


@dataclass
class StandInDatabase:
    """Airflow's database as lists, which tests change."""

    facts: list[AssetFacts] = field(default_factory=list)
    written: list[WrittenTable] = field(default_factory=list)
    runs: set[tuple[str, str]] = field(default_factory=set)
    attempts_of: dict[tuple[Any, ...], list[Any]] = field(default_factory=dict)
    results_of: dict[tuple[str, str], list[Any]] = field(default_factory=dict)
    dags: dict[str, DagState] = field(default_factory=dict)
    schedules_of: dict[str, Schedule] = field(default_factory=dict)

    def assets(self):
        return self.facts

    def written_tables(self):
        return self.written

    def existing_runs(self, runs):
        return frozenset(self.runs & set(runs))

    def schedules(self, dag_ids):
        return {dag_id: self.schedules_of[dag_id] for dag_id in dag_ids if dag_id in self.schedules_of}

    def dag_state(self, dag_id):
        return self.dags.get(dag_id)

    def attempts(self, *task_instance):
        return self.attempts_of.get(task_instance, [])

    def newest_runs(self, dag_id, limit):
        return [run_id for result_dag_id, run_id in self.results_of if result_dag_id == dag_id][-limit:][::-1]

    def results(self, dag_id, run_id, task_id=None, map_index=None):
        results = self.results_of.get((dag_id, run_id), [])
        return [r for r in results if task_id is None or (r.task_id, r.map_index) == (task_id, map_index)]


@dataclass
class Page:
    """The page, with attributes that tests change.

    `open_table` opens the store of an address and a connection. `starts` has the DAG id and the conf of each run that
    the page has started. `start_answer` is the answer of Airflow to the next start.
    """

    database: StandInDatabase = field(default_factory=StandInDatabase)
    users: dict[str, Rights] = field(default_factory=lambda: {"ann": Rights()})
    settings: dict[str, Any] = field(default_factory=dict)
    open_table: Callable[..., Any] = lambda address, _conn_id: open_store(address)
    now: float = 0.0
    known_seconds: float = 0.0
    form_tokens: FormTokens = field(default_factory=lambda: FormTokens("secret"))
    starts: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    start_answer: RunStartAnswer = field(default_factory=lambda: RunStartAnswer(status=200, run_id="manual__new"))
    _client: TestClient | None = None
    app: FastAPI | None = None

    @property
    def client(self) -> TestClient:
        if self._client is None:
            pool, cache = ReadPool(), BoundedCache(10_000_000, clock=lambda: self.now)
            services = Services(
                user_of=_user,
                rights_of=self.users.__getitem__,
                database=self.database,
                settings=PageSettings(**{"timeout_seconds": 20.0, **self.settings}),
                tables=TableReader(self.open_table, pool, cache, now_ms=lambda: NOON_MS),
                roots=Roots(lambda address: self.open_table(address, None), pool, cache),
                airflow_path="/airflow",
                form_tokens=self.form_tokens,
                start_run=self._start_run,
                known_seconds=self.known_seconds,
            )
            airflow = FastAPI(root_path="/airflow")
            self.app = build_app(services)
            airflow.mount(URL_PREFIX, self.app)
            self._client = TestClient(airflow)
        return self._client

    def answer(self, path: str, *, user: str | None = "ann") -> Response:
        headers = {} if user is None else {"X-User": user}
        return self.client.get(f"/airflow{URL_PREFIX}{path}", headers=headers, follow_redirects=False)

    def post(self, path: str, *, user: str | None = "ann", **form: str) -> Response:
        headers = {} if user is None else {"X-User": user}
        return self.client.post(f"/airflow{URL_PREFIX}{path}", data=form, headers=headers, follow_redirects=False)

    async def _start_run(self, _request, airflow_path, dag_id, conf) -> RunStartAnswer:
        assert airflow_path == "/airflow"
        self.starts.append((dag_id, conf))
        return self.start_answer

    def get(self, path: str, *, user: str | None = "ann", status: int = 200) -> str:
        """The text of a page. Asserts its status."""
        answer = self.answer(path, user=user)
        assert answer.status_code == status, answer.text
        return answer.text

    def add_asset(
        self, table: Path | str, *, asset_id: int = 1, writer: tuple[str, str] | None = None, **facts: Any
    ) -> str:
        """Declare the asset of a table; returns the table's key."""
        address = str(table)
        uri = f"file://{address}" if address.startswith("/") else address
        producers = () if writer is None else (TaskName(dag_id=writer[0], task_id=writer[1]),)
        self.database.facts.append(AssetFacts(asset_id=asset_id, name=uri, uri=uri, producers=producers, **facts))
        return self.key_of(address)

    def key_of(self, table: Path | str) -> str:
        key = key_of(str(table))
        assert key is not None
        return key

    def encode(self, text: str) -> str:
        """A text as one part of a path."""
        return quote(text, safe="")


async def _user(request: Request) -> str:
    user = request.headers.get("X-User")
    if user is None:
        raise HTTPException(401)
    return user


@pytest.fixture
def delta_page() -> Page:
    return Page()


@pytest.fixture
def served_page(delta_page):
    """The address of the page of `ann`, served to a browser."""

    async def log_in(scope, receive, send):
        if scope["type"] == "http":
            scope["headers"] = [*scope["headers"], (b"x-user", b"ann")]
        await delta_page.client.app(scope, receive, send)

    [port] = free_ports(1)
    server = uvicorn.Server(uvicorn.Config(log_in, port=port, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{port}/airflow{URL_PREFIX}"
    server.should_exit = True
    thread.join()


@pytest.fixture
def run_table(tmp_path):
    """A table whose version 1 was committed by the first attempt of `sales.load`."""
    root = tmp_path / "lake" / "sales"
    create(LocalLogStore(str(root)))
    audits = [{"name": "ids", "kind": "rows", "on": "batch", "level": "error", "passed": True, "measured": 0}]
    write_commit(
        root,
        1,
        operation="WRITE",
        userMetadata=task_metadata(),
        operationMetrics={"numOutputRows": "1500", "numOutputBytes": "2048"},
        operationParameters={
            "mode": "Append",
            "audits": json.dumps([{**audit, "threshold": "max_rows=0"} for audit in audits]),
            "sourceVersions": '{"raw": 12}',
        },
    )
    return root


def task_metadata(**changes: Any) -> str:
    """The user metadata of a task's commit."""
    values = {"dag_id": "sales", "task_id": "load", "run_id": RUN, "map_index": -1, "try_number": 1}
    return json.dumps({**values, **changes})

"""Each page violates no rule of axe-core, in the light and in the dark theme."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from airflow_provider_deltalite.page.database import Attempt, DagState, TaskResult
from airflow_provider_deltalite.page.freshness import Schedule
from deltalite.phases import Phase
from deltalite.storage.local import LocalLogStore
from tests.airflow.page.conftest import Rights, task_metadata
from tests.airflow.page.written_pages import write_commit
from tests.support.axe import is_npm_installed, violations
from tests.support.browser import is_browser_installed, open_browser
from tests.support.feed_table import create_feed_table
from tests.support.valid_table import create_valid_table
from tests.unit.builders import add, append_files, create, struct

pytestmark = [
    pytest.mark.slow,
    pytest.mark.campaign,
    pytest.mark.skipif(not is_browser_installed(), reason="needs Debian's packages chromium and chromium-driver"),
    pytest.mark.skipif(not is_npm_installed(), reason="needs npm"),
]
RUN = "manual__1"


@pytest.fixture
def page_paths(delta_page, tmp_path):
    """The path of one page of each kind, by its name. The pages have every part that a page can have."""
    lake = tmp_path / "lake"
    orders = create_valid_table(lake / "orders")
    create_feed_table(lake / "changes")
    partitioned = create(
        LocalLogStore(str(lake / "sales")),
        *(
            add(f"{country}{day}", partition_values={"country": country, "day": day}, size_bytes=1_000)
            for country in ("DE", "FR")
            for day in ("1", "2")
        ),
        schema=struct(id="long", country="string", day="string"),
        partition_columns=("country", "day"),
        configuration={"delta.appendOnly": "true"},
    )
    append_files(partitioned, 60)
    audit = '[{"name": "ids", "kind": "rows", "on": "batch", "level": "error", "passed": false, "measured": 3}]'
    write_commit(
        lake / "sales",
        61,
        operation="DELETE",
        readVersion=58,
        userMetadata=task_metadata(),
        operationParameters={"mode": "Append", "audits": audit, "sourceVersions": '{"raw": 12}'},
        operationMetrics={"numDeletedRows": "5", "numUpdatedRows": "7", "numOutputRows": "9", "executionTimeMs": "99"},
    )
    create(LocalLogStore(str(lake / "broken")))
    (lake / "broken" / "_delta_log" / f"{0:020}.json").write_text("{")
    delta_page.settings = {"shows_rows": True, "maintenance_dag": "mend", "problems": ("A setting is wrong.",)}
    delta_page.database.dags["mend"] = DagState(is_paused=False, has_import_errors=False)
    delta_page.database.runs |= {("sales", RUN), ("mend", "r")}
    delta_page.users["ann"] = Rights(dag_ids={"sales"}, startable_dag_ids={"mend"})
    start = datetime(2026, 3, 1, tzinfo=UTC)
    delta_page.database.schedules_of["sales"] = Schedule(
        is_paused=False, last_start=start, next_start=start + timedelta(days=1)
    )
    keys = {
        name: delta_page.add_asset(lake / name, asset_id=number, writer=("sales", "load"), consumers=("sales",))
        for number, name in enumerate(("orders", "sales", "broken", "missing", "changes"))
    }
    attempts = [Attempt(try_number=n, state="success", start=start, end=start + timedelta(hours=1)) for n in (1, 2)]
    delta_page.database.attempts_of["sales", RUN, "load", -1] = attempts
    value = {"table": partitioned.root, "operation": "WRITE", "version": 61, "committed": True, "metrics": {"n": 1}}
    value["phases"] = {str(phase): 2.5 for phase in Phase}
    delta_page.database.results_of["sales", RUN] = [TaskResult(task_id="load", map_index=-1, value=value)]
    assert orders.root.endswith("orders")
    return {
        "lake": "/lake",
        "search": "/lake?q=nothing",
        "table": f"/tables/{keys['sales']}?started=r",
        "older versions": f"/tables/{keys['sales']}?before=10",
        "version": f"/tables/{keys['orders']}/versions/4?rows=1&where=",
        "changed rows": f"/tables/{keys['changes']}/versions/2?rows=changed",
        "no changed rows": f"/tables/{keys['orders']}/versions/3?rows=changed&where=id+%3D+1",
        "commit of a task": f"/tables/{keys['sales']}/versions/61?rows=1&where=id+%3D+1",
        "broken table": f"/tables/{keys['broken']}",
        "missing table": f"/tables/{keys['missing']}",
        "dag": "/dag/sales",
        "dag run": f"/dag-run/sales/{RUN}",
        "dag run without a result": "/dag-run/sales/other",
        "task": f"/task/sales/load/-1/{RUN}",
        "task without an attempt": "/task/sales/load/-1/other",
        "error": "/tables/unknown",
    }


def test_no_page_has_a_barrier_in_the_light_and_in_the_dark_theme(page_paths, served_page):
    barriers = {}
    with open_browser() as browser:
        browser.open(f"{served_page}/lake")
        for theme in ("light", "dark"):
            browser.run(f"localStorage.setItem('theme', '{theme}')")
            for name, path in page_paths.items():
                browser.open(served_page + path)
                assert browser.run("return document.documentElement.dataset.theme") == theme
                browser.run("for (const part of document.querySelectorAll('details')) part.open = true")
                barriers[name, theme] = violations(browser)
    assert {page: rules for page, rules in barriers.items() if rules} == {}


def test_an_empty_list_has_no_barrier(served_page):
    with open_browser() as browser:
        browser.open(f"{served_page}/lake")
        assert violations(browser) == []

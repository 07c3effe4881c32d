"""The pages: their content, their states, and the links between them."""

from __future__ import annotations

import json
import re
import shutil
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from airflow_provider_deltalite.page.database import Attempt, TaskResult
from deltalite.protocol.file_names import commit_name
from deltalite.storage.local import LocalLogStore
from deltalite.storage.memory import MemoryLogStore
from tests.airflow.page.conftest import Rights, task_metadata
from tests.support.valid_table import create_valid_table
from tests.unit.builders import add, append_files, commit_actions, create, metadata, struct

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
RUN = "manual__1"


def words(html: str) -> str:
    """The text of a page without markup."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html.partition("<main")[2]))


def reload(page, path: str, expected: str) -> str:
    """Load a page until it shows a text, as a person would; returns the text of the page."""
    deadline = time.monotonic() + 60
    while expected not in (text := words(page.get(path))):
        if time.monotonic() > deadline:
            raise AssertionError(text)
        time.sleep(0.05)
    return text


def write_commit(root, version, *actions, **info) -> None:
    """Write a commit of another writer."""
    lines = [{"commitInfo": {"timestamp": 1, **info}}, *actions]
    (root / commit_name(version)).write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture
def orders(tmp_path):
    """A table with six versions at `lake/orders`."""
    return create_valid_table(tmp_path / "lake" / "orders")


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


# --- the list ---


def test_the_list_shows_a_table_of_an_asset_with_its_measures(delta_page, orders):
    key = delta_page.add_asset(orders.root)
    html = delta_page.get("/lake")
    assert f'href="/airflow/deltalite/tables/{key}"' in html
    assert "1.6 KiB 4 2 WRITE" in words(html)
    assert "optimize: 20.0% of rows soft-deleted" in html


def test_a_broken_table_and_a_slow_one_break_one_row_each(delta_page, tmp_path):
    released = threading.Event()
    slow_store = create(MemoryLogStore())
    slow_store.before = lambda *_: released.wait(60)
    create(LocalLogStore(str(tmp_path / "fine")))
    create(LocalLogStore(str(tmp_path / "broken")))
    (tmp_path / "broken" / commit_name(0)).write_text("{")
    for number, name in enumerate(("fine", "broken")):
        delta_page.add_asset(tmp_path / name, asset_id=number)
    slow_key = delta_page.add_asset("s3://slow/table", asset_id=9)
    delta_page.settings = {"timeout_seconds": 1.0}
    delta_page.open_table = lambda address, _: slow_store if address.startswith("s3") else LocalLogStore(address)
    try:
        text = reload(delta_page, "/lake", "1 failed 1 no answer 1 due")
        assert "CorruptLogError" in text and "The storage did not answer in 1 s." in text
        reload(delta_page, f"/tables/{slow_key}", "The storage did not answer in 1 s.")
    finally:
        released.set()


def test_a_storage_that_hangs_stops_no_other_storage(delta_page, tmp_path):
    released = threading.Event()
    hanging_store = create(MemoryLogStore())
    hanging_store.before = lambda *_: released.wait(60)
    create(LocalLogStore(str(tmp_path / "fine")))
    for number in range(20):
        delta_page.add_asset(f"s3://hangs/table{number}", asset_id=number)
    fine_key = delta_page.add_asset(tmp_path / "fine", asset_id=99)
    delta_page.settings = {"timeout_seconds": 1.0}
    delta_page.open_table = lambda address, _: hanging_store if address.startswith("s3") else LocalLogStore(address)
    try:
        reload(delta_page, "/lake", "4 no answer 1 due 16 not read yet")
        reload(delta_page, f"/tables/{fine_key}", "Table features")
    finally:
        released.set()


def test_the_list_is_searched_and_sorted(delta_page, tmp_path):
    delta_page.users["ann"] = Rights(dag_ids={"dag_small", "dag_large", "dag_none"})
    for number, name in enumerate(("small", "large", "none")):
        root = tmp_path / "lake" / name
        if name != "none":
            create(LocalLogStore(str(root)), add("f", size_bytes=10**number))
        delta_page.add_asset(root, asset_id=number, writer=(f"dag_{name}", "load"))

    def names(query: str) -> list[str]:
        return re.findall(r">lake/(\w+)</a>", delta_page.get(f"/lake?{query}"))

    assert names("sort=size") == ["large", "small"]
    assert names("sort=size&order=asc") == ["small", "large"]
    assert names("sort=name") == ["large", "small"]
    assert names("q=DAG_small") == ["small"]
    assert names("sort=nonsense&q=lake/l") == ["large"]
    assert "No table matches" in delta_page.get("/lake?q=nothing")
    assert "1 asset without a Delta table" in words(delta_page.get("/lake"))


def test_an_empty_list_says_what_to_do(delta_page):
    assert "delta_asset(" in delta_page.get("/lake")


def test_the_list_has_pages_of_a_hundred_rows(delta_page, tmp_path):
    delta_page.open_table = lambda *_: store
    store = create(MemoryLogStore())
    for number in range(101):
        delta_page.add_asset(f"s3://lake/t{number:03}", asset_id=number)
    first, second = (delta_page.get(f"/lake?sort=name&page_number={number}") for number in (1, 2))
    assert "Page 1 of 2" in first and ">lake/t099</a>" in first and ">lake/t100</a>" not in first
    assert ">lake/t100</a>" in second


def test_a_pattern_of_the_settings_adds_the_tables_that_it_matches(delta_page, orders, tmp_path):
    create(LocalLogStore(str(tmp_path / "lake" / "later")))
    delta_page.settings = {"roots": (f"{tmp_path}/lake/*",)}
    text = delta_page.get("/lake")
    assert ">lake/orders</a>" in text and ">lake/later</a>" in text
    # An asset of the same table adds no row.
    delta_page.add_asset(orders.root)
    assert delta_page.get("/lake").count(">lake/orders</a>") == 1


def test_problems_of_the_settings_are_shown(delta_page):
    delta_page.settings = {"problems": ("ui_timeout is wrong",), "roots": ("s3://lake*/orders",)}
    text = delta_page.get("/lake")
    assert "ui_timeout is wrong" in text and "Could not list s3://lake*/orders" in text


# --- a table ---


def test_a_table_shows_advice_versions_schema_properties_and_features(delta_page, tmp_path):
    root = tmp_path / "lake" / "events"
    schema = struct(id="long", address="string")
    create(
        LocalLogStore(str(root)),
        schema=schema,
        partition_columns=("address",),
        description="All events",
        configuration={"delta.appendOnly": "true", "team": "shop"},
    )
    key = delta_page.add_asset(root, writer=("ingest", "load"), consumers=("report",), conn_id="aws_lake")
    assert "ingest" not in delta_page.get(f"/tables/{key}")  # the user may read the asset, and not its DAGs
    delta_page.users["ann"] = Rights(dag_ids={"ingest", "report"})
    text = words(delta_page.get(f"/tables/{key}"))
    assert "All events" in text
    assert "Vacuum due the log shows no vacuum" in text and "DeltaVacuumOperator(" in text
    assert "Optimize not needed" in text
    assert "address partition 1 string" in text
    assert "delta.appendOnly true true: writers must not change or delete rows." in text
    assert "team shop A property of the table&#39;s owner." in text
    assert "Written by ingest.load . Read by report ." in text


def test_the_newest_versions_come_first_and_older_ones_on_the_next_page(delta_page, tmp_path):
    store = append_files(create(LocalLogStore(str(tmp_path / "t"))), 60)
    key = delta_page.add_asset(store.root)
    versions = lambda path: [int(v) for v in re.findall(r'<th scope="row" class="number"><a[^>]*>(\d+)<', path)]
    newest = delta_page.get(f"/tables/{key}")
    assert versions(newest) == list(range(60, 10, -1))
    assert f"/tables/{key}?before=11" in newest
    assert versions(delta_page.get(f"/tables/{key}?before=11")) == list(range(10, -1, -1))
    assert versions(delta_page.get(f"/tables/{key}?before=-5")) == []


def test_a_commit_links_to_its_run_only_if_this_airflow_has_the_run(delta_page, run_table):
    key = delta_page.add_asset(run_table)
    log_page = "/airflow/dags/sales/runs/manual__1/tasks/load?try_number=1"
    text = delta_page.get(f"/tables/{key}")
    assert log_page not in text and "sales.load" in text and "Outside of Airflow" in text
    delta_page.database.runs.add(("sales", RUN))
    assert log_page in delta_page.get(f"/tables/{key}")


def test_a_commit_shows_how_long_it_took_and_which_versions_came_first(delta_page, tmp_path):
    store = append_files(create(LocalLogStore(str(tmp_path / "t"))), 3)
    metrics = {"executionTimeMs": "65400"}
    write_commit(tmp_path / "t", 4, operation="DELETE", readVersion=1, operationMetrics=metrics)
    key = delta_page.add_asset(store.root)
    for path in (f"/tables/{key}", f"/tables/{key}/versions/4"):
        assert "took 1 min 5 s 2 versions of other writers came first" in words(delta_page.get(path))
    write_commit(tmp_path / "t", 5, operation="WRITE", operationMetrics={"execution_time_ms": 18})
    delta_page.now = 60.0
    assert "took 18 ms" in words(delta_page.get(f"/tables/{key}"))


def test_a_second_view_without_a_new_commit_takes_two_requests(delta_page):
    requests = []
    store = create(MemoryLogStore())
    store.before = lambda operation, name: requests.append((operation, name))
    key = delta_page.add_asset("s3://lake/t")
    delta_page.open_table = lambda *_: store
    delta_page.now = 0.0
    delta_page.get(f"/tables/{key}")
    requests.clear()
    delta_page.get(f"/tables/{key}")
    assert requests == []  # the values are young
    delta_page.now = 60.0
    assert "/tables/" + key + "/versions/0" in delta_page.get(f"/tables/{key}")
    assert [operation for operation, _ in requests] == ["read_start", "read_start"]
    commit_actions(store, add("f"))
    delta_page.now = 120.0
    assert ">1</a>" in delta_page.get(f"/tables/{key}")


def test_a_dropped_table_is_no_longer_healthy(delta_page, tmp_path):
    root = tmp_path / "lake" / "t"
    create(LocalLogStore(str(root)))
    key = delta_page.add_asset(root)
    assert "1 due" in words(delta_page.get("/lake"))
    shutil.rmtree(root)
    delta_page.now = 1_000.0
    assert "There is no table at this address" in delta_page.get(f"/tables/{key}")
    assert "1 asset without a Delta table" in words(delta_page.get("/lake"))


def test_a_table_that_cannot_be_read_says_why(delta_page, tmp_path):
    create(LocalLogStore(str(tmp_path / "broken")))
    (tmp_path / "broken" / commit_name(0)).write_text("{")
    broken = delta_page.add_asset(tmp_path / "broken", asset_id=2)
    for path in (f"/tables/{broken}", f"/tables/{broken}/versions/0"):
        text = words(delta_page.get(path))
        assert "The table cannot be read CorruptLogError" in text and "The connection is not set" in text


def test_an_address_without_a_table_says_so(delta_page, tmp_path):
    missing = delta_page.add_asset(tmp_path / "missing")
    assert "There is no table at this address" in delta_page.get(f"/tables/{missing}")
    assert "There is no table at this address" in delta_page.get(f"/tables/{missing}/versions/0")


# --- a version ---


def test_a_version_shows_what_changed_and_texts_to_copy(delta_page, orders):
    commit_actions(orders, metadata(schema=struct(id="long", name="string", day="date", note="string"),
                                    partition_columns=("day",), configuration={"team": "shop"}))  # fmt: skip
    key = delta_page.add_asset(orders.root)
    text = words(delta_page.get(f"/tables/{key}/versions/4"))
    assert "2 → 4" in text and "1 file added, 0 removed, 1 kept" in text and "day=2026-01-01/c.parquet" in text
    assert f"&#34;path&#34;: &#34;{orders.root}&#34;, &#34;version_as_of&#34;: 4}}" in text
    assert f"deltalite diff {orders.root} 3 4" in text and "DeltaRestoreOperator" in text
    changed = words(delta_page.get(f"/tables/{key}/versions/6"))
    assert "note added string" in changed and "team added shop" in changed
    assert "newest" in changed and "DeltaRestoreOperator" not in changed
    assert "first version" in delta_page.get(f"/tables/{key}/versions/0")


@pytest.mark.parametrize(("version", "status"), [("7", 404), ("-1", 404), ("9" * 40, 404), ("x", 422)])
def test_a_version_that_does_not_exist_is_not_found(delta_page, orders, version, status):
    key = delta_page.add_asset(orders.root)
    delta_page.get(f"/tables/{key}/versions/{version}", status=status)


# --- a DAG, a run and a task ---


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


def test_the_attempts_of_a_task_are_told_apart(sales_page, run_table):
    sales_page.database.attempts_of["sales", RUN, "load", -1] = [attempt(1, "failed"), attempt(2, "success")]
    sales_page.database.results_of["sales", RUN] = [result(run_table, committed=False, skipped=True)]
    html = sales_page.get(f"/task/sales/load/{{MAP_INDEX}}/{RUN}")
    text = words(html)
    assert "2 success Skipped, because version 1 is this run&#39;s" in text
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


def test_a_task_whose_table_is_not_known_shows_its_result_only(sales_page, tmp_path):
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


def test_the_versions_of_several_outlets_are_not_one_effect(sales_page, tmp_path):
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


def test_a_task_without_a_table_says_so(sales_page):
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

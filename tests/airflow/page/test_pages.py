"""The pages: their content, their states, and the links between them."""

from __future__ import annotations

import re
import shutil
import threading
import time

import pytest

from deltalite.protocol.file_names import commit_name
from deltalite.storage.local import LocalLogStore
from deltalite.storage.memory import MemoryLogStore
from tests.airflow.page.conftest import Rights
from tests.airflow.page.written_pages import RUN, words, write_commit
from tests.support.valid_table import create_valid_table
from tests.unit.builders import add, append_files, commit_actions, create, metadata, struct


def reload(page, path: str, expected: str) -> str:
    """Load a page until it shows a text, as a person would; returns the text of the page."""
    deadline = time.monotonic() + 60
    while expected not in (text := words(page.get(path))):
        if time.monotonic() > deadline:
            raise AssertionError(text)
        time.sleep(0.05)
    return text


@pytest.fixture
def orders(tmp_path):
    """A table with six versions at `lake/orders`."""
    return create_valid_table(tmp_path / "lake" / "orders")


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
        assert "CorruptLogError" in text and "The read of the table has not ended" in text
        reload(delta_page, f"/tables/{slow_key}", "The read of the table has not ended after")
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
    versions = lambda html: [int(v) for v in re.findall(r'<th scope="row" class="number"><a[^>]*>(\d+)<', html)]
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
    assert requests == []  # the page uses the cached values
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

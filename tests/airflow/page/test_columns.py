"""The statistics of columns on the page of a table: values only for users who may see rows, and never as markup."""

from __future__ import annotations

import json
import re
import threading

import pytest

from airflow_provider_deltalite.page import reading, table_routes
from deltalite.protocol.actions import Protocol
from deltalite.protocol.schema import PrimitiveType, StructField, StructType
from deltalite.storage.memory import MemoryLogStore
from tests.airflow.page.conftest import Rights
from tests.airflow.page.test_hostile_texts import PAYLOADS, SECRET, check_is_harmless
from tests.support.browser import is_browser_installed, open_browser
from tests.support.valid_table import create_valid_table
from tests.unit.builders import add, commit_actions, create, metadata, struct

UNKNOWN = "\N{EN DASH}"


@pytest.fixture
def orders(delta_page, tmp_path):
    """The key of a table with soft-deleted rows and long texts; the deployment shows rows."""
    delta_page.settings = {"shows_rows": True}
    return delta_page.add_asset(create_valid_table(tmp_path / "lake" / "orders").root)


def statistics_cells(html: str) -> dict[str, list[str]]:
    """The cells with the statistics of each column: its nulls, its smallest and its largest value."""
    schema = html.partition('<h2 id="schema">')[2].partition("</table>")[0]
    rows = re.findall(r'<th scope="row" class="depth-\d">(\w+).*?</th>(.*?)</tr>', schema, re.DOTALL)
    return {name: [cell.strip() for cell in re.findall(r"<td[^>]*>(.*?)</td>", cells)][2:-2] for name, cells in rows}


def test_the_schema_has_nulls_and_the_smallest_and_largest_values(delta_page, orders):
    html = delta_page.get(f"/tables/{orders}")
    assert statistics_cells(html) == {
        "id": ["0", "at least 3", "7"],
        "name": ["0", f"at least {'a' * 32}…", "at most w"],
        "day": ["0", "2026-01-01", "2026-01-01"],
    }
    assert ">Smallest</th>" in html and "mark bounds" in html and "data-measures=" not in html
    assert delta_page.get(f"/tables/{orders}/columns").count('data-part="schema"') == 1


@pytest.mark.parametrize("path", ["", "/columns"])
@pytest.mark.parametrize(("is_switched_on", "has_right"), [(False, True), (True, False)])
def test_values_need_the_setting_and_the_right_on_rows(delta_page, orders, path, is_switched_on, has_right):
    delta_page.settings = {"shows_rows": is_switched_on}
    delta_page.users["ann"] = Rights(rows=has_right)
    html = delta_page.get(f"/tables/{orders}{path}")
    assert statistics_cells(html) == {"id": ["0"], "name": ["0"], "day": ["0"]}
    assert "Smallest" not in html and "aaaaaaaa" not in html and "smallest and largest" not in html
    delta_page.users["ann"] = Rights(assets=False)
    delta_page.get(f"/tables/{orders}{path}", status=404)


def test_unknown_statistics_are_dashes(delta_page):
    store = create(MemoryLogStore(), add("f"), schema=struct(id="long", flag="boolean"))
    delta_page.settings = {"shows_rows": True}
    delta_page.open_table = lambda _address, _conn_id: store
    html = delta_page.get(f"/tables/{delta_page.add_asset('s3://lake/t')}")
    assert statistics_cells(html) == {"id": [UNKNOWN, UNKNOWN, UNKNOWN], "flag": [UNKNOWN, UNKNOWN, UNKNOWN]}


def test_an_inexact_null_count_is_shown_as_an_upper_bound(delta_page):
    store = MemoryLogStore()
    text = json.dumps({"numRecords": 1_500, "nullCount": {"id": 7}, "tightBounds": False})
    protocol = Protocol(min_reader_version=1, min_writer_version=2)
    commit_actions(store, protocol, metadata(schema=struct(id="long")), add("f", stats=text), read_version=-1)
    delta_page.open_table = lambda _address, _conn_id: store
    html = delta_page.get(f"/tables/{delta_page.add_asset('s3://lake/t')}")
    assert statistics_cells(html) == {"id": ["at most 1\u202f500"]}


@pytest.mark.parametrize("payload", PAYLOADS)
def test_values_and_names_are_never_markup(delta_page, payload):
    name, store = f"n {payload}", MemoryLogStore()
    schema = StructType((StructField(name, PrimitiveType("string")), StructField("p", PrimitiveType("string"))))
    low, high = sorted([payload, f"password='{SECRET}'"])
    text = json.dumps({"numRecords": 1, "minValues": {name: low}, "maxValues": {name: high}, "nullCount": {name: 0}})
    adds = [add(f"f{n}", stats=text, partition_values={"p": f"{p}{payload}"}) for n, p in enumerate(("", "\u202e\x1b"))]
    create(store, *adds, schema=schema, partition_columns=("p",))
    delta_page.settings = {"shows_rows": True}
    delta_page.open_table = lambda _address, _conn_id: store
    key = delta_page.add_asset("s3://lake/t")
    for path in (f"/tables/{key}", f"/tables/{key}/columns"):
        html = delta_page.get(path)
        check_is_harmless(html)
        assert SECRET not in html and not {"\u202e", "\x1b"} & set(html)
        assert "\\u202e\\x1b" in html and "***" in html


def test_huge_values_and_many_columns_are_bounded(delta_page):
    names = [f"c{number}" for number in range(300)]
    huge = "x" * 10_000
    text = json.dumps({"numRecords": 1, **{kind: dict.fromkeys(names, huge) for kind in ("minValues", "maxValues")}})
    store = create(MemoryLogStore(), add("f", stats=text), schema=struct(**dict.fromkeys(names, "string")))
    delta_page.settings = {"shows_rows": True}
    delta_page.open_table = lambda _address, _conn_id: store
    html = delta_page.get(f"/tables/{delta_page.add_asset('s3://lake/t')}/columns")
    shown = statistics_cells(html)
    assert len(shown) == 300 and len(html) < 200_000
    assert [shown[name][1] != UNKNOWN for name in ("c0", "c199", "c200", "c299")] == [True, True, False, False]
    assert "The first 200 columns have statistics." in html


def test_the_page_keeps_the_schema_if_the_statistics_are_unreadable(delta_page, orders, monkeypatch):
    def fail(*_args):
        raise OSError("no <b>disk</b>")

    monkeypatch.setattr(reading, "read_column_statistics", fail)
    html = delta_page.get(f"/tables/{orders}")
    assert "could not be read. OSError: no &lt;b&gt;disk" in html
    assert statistics_cells(html)["id"] == [UNKNOWN, UNKNOWN, UNKNOWN] and "data-measures=" not in html


@pytest.fixture
def slow_statistics(monkeypatch):
    """An event for which the read of the statistics waits. The page does not wait for them."""
    released, read = threading.Event(), reading.read_column_statistics
    monkeypatch.setattr(reading, "read_column_statistics", lambda *args: released.wait(60) and read(*args))
    monkeypatch.setattr(table_routes, "_COLUMNS_WAIT_SECONDS", 0.1)
    yield released
    released.set()


def test_slow_statistics_follow_the_page(delta_page, orders, slow_statistics):
    delta_page.settings = {"shows_rows": True, "timeout_seconds": 2.0}
    html = delta_page.get(f"/tables/{orders}")
    assert f'data-measures="/airflow/deltalite/tables/{orders}/columns" aria-busy="true"' in html
    assert statistics_cells(html)["id"] == ["…", "…", "…"] and "Table features" in html
    assert delta_page.answer(f"/tables/{orders}/columns").status_code == 202
    slow_statistics.set()
    assert statistics_cells(delta_page.get(f"/tables/{orders}/columns"))["id"] == ["0", "at least 3", "7"]


def test_a_list_of_tables_reads_no_statistics(delta_page, orders, monkeypatch):
    monkeypatch.setattr(reading, "read_column_statistics", lambda *_args: pytest.fail("The list has read statistics."))
    assert "orders" in delta_page.get("/lake")


@pytest.mark.skipif(not is_browser_installed(), reason="needs Debian's packages chromium and chromium-driver")
def test_a_browser_fetches_slow_statistics(delta_page, orders, served_page, slow_statistics):
    with open_browser() as browser:
        browser.open(f"{served_page}/tables/{orders}")
        assert browser.run("return document.querySelectorAll('[aria-busy]').length") == 1
        slow_statistics.set()
        browser.until("the statistics are there", lambda: "at least 3" in browser.text("[data-measured=schema]"))
        assert browser.run("return document.querySelectorAll('[aria-busy]').length") == 0
        assert [message for message in browser.messages() if "Content Security Policy" in message] == []

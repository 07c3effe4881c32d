"""The page of a table with very many files loads first, and the browser adds its measures later."""

from __future__ import annotations

import re
import threading

import pytest

from deltalite.inspection import overview
from deltalite.storage.memory import MemoryLogStore
from tests.unit.builders import append_files, create

PENDING = "so the API server measures it in the background"


@pytest.fixture
def large_table(monkeypatch, delta_page):
    """The key of a table with more files than an overview measures, and the event for which its measures wait."""
    monkeypatch.setattr(overview, "MAX_FILES_AT_ONCE", 2)
    store, released = append_files(create(MemoryLogStore()), 3), threading.Event()
    read_measures = overview.read_measures
    monkeypatch.setattr(
        "airflow_provider_deltalite.page.reading.read_measures",
        lambda *args, **options: released.wait(60) and read_measures(*args, **options),
    )
    delta_page.open_table = lambda _address, _conn_id: store
    yield delta_page.add_asset("s3://lake/large"), released
    released.set()


def parts_of(html: str) -> list[str]:
    return [part for part in re.findall(r'data-measured="(\w+)"', html) if part != "schema"]


def test_the_page_comes_first_and_the_measures_follow(delta_page, large_table):
    key, released = large_table
    html = delta_page.get(f"/tables/{key}")
    assert PENDING in html and 'aria-busy="true"' in html and "Table features" in html
    assert f'data-measures="/airflow/deltalite/tables/{key}/measures"' in html
    assert "not measured yet" in html
    assert re.search(r"<dt>Files</dt><dd>3</dd>", html)
    list_page = delta_page.get("/lake")
    assert "1 not measured yet" in list_page and PENDING in list_page
    released.set()
    parts = delta_page.get(f"/tables/{key}/measures")
    assert re.findall(r'data-part="(\w+)"', parts) == sorted(
        parts_of(html), key=["badge", "vacuum", "advice", "files"].index
    )
    assert "not needed" in parts and "Size of a file" in parts
    assert f'data-measures="/airflow/deltalite/tables/{key}/columns" aria-busy="true"' in html
    columns = delta_page.get(f"/tables/{key}/columns")
    assert re.findall(r'data-part="(\w+)"', columns) == ["schema"] and "come from the statistics" in columns
    again = delta_page.get(f"/tables/{key}")
    assert PENDING not in again and "data-measures=" not in again and "Size of a file" in again
    assert "not measured yet" not in delta_page.get("/lake")


def test_measures_that_take_too_long_do_not_hold_the_request(delta_page, large_table):
    key, _ = large_table
    delta_page.settings = {"timeout_seconds": 0.3}
    assert delta_page.answer(f"/tables/{key}/measures").status_code == 202


def test_measures_that_fail_show_their_reason(delta_page, large_table, monkeypatch):
    key, _ = large_table

    def fail(*_args, **_options):
        raise OSError("no <b>disk</b>")

    monkeypatch.setattr("airflow_provider_deltalite.page.reading.read_measures", fail)
    parts = delta_page.get(f"/tables/{key}/measures")
    assert "no &lt;b&gt;disk" in parts and "failed" in parts


def test_small_tables_have_their_measures_at_once(delta_page, tmp_path):
    store = append_files(create(MemoryLogStore()), 3)
    delta_page.open_table = lambda _address, _conn_id: store
    html = delta_page.get(f"/tables/{delta_page.add_asset('s3://lake/small')}")
    assert PENDING not in html and "aria-busy" not in html

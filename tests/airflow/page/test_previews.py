"""Rows on the page of a version: only if the deployment and the user's rights allow them, and never as markup."""

from __future__ import annotations

import html as html_texts
import json
import re
import threading
from pathlib import Path
from urllib.parse import urlencode

import pytest

from airflow_provider_deltalite.page import reading
from deltalite.storage.local import LocalLogStore
from deltalite.storage.memory import MemoryLogStore
from tests.airflow.page.conftest import Rights
from tests.airflow.page.test_hostile_texts import PAYLOADS, check_is_harmless
from tests.support.browser import is_browser_installed, open_browser
from tests.support.valid_table import SCHEMA, create_valid_table, write_data_file
from tests.unit.builders import append_files, commit_actions, create

VALUE = "a" * 40
"""A value of the table that no other part of a page has."""


@pytest.fixture
def orders(delta_page, tmp_path):
    """The key of a table with six versions; the deployment shows rows."""
    delta_page.settings = {"shows_rows": True}
    return delta_page.add_asset(create_valid_table(tmp_path / "lake" / "orders").root)


def rows_page(key: str, version: int, *where: str) -> str:
    return f"/tables/{key}/versions/{version}?" + urlencode([("rows", "1"), *(("where", text) for text in where)])


def shown_ids(html: str) -> list[str]:
    rows = html.partition('aria-label="Rows of version')[2]
    return sorted(re.findall(r"<tr><td>(\w+)</td>", rows))


def test_rows_are_off_by_default(delta_page, orders, monkeypatch):
    delta_page.settings = {}
    monkeypatch.setattr(reading, "read_preview", lambda *_args, **_options: pytest.fail("The page has read rows."))
    html = delta_page.get(rows_page(orders, 5))
    assert "set [deltalite] ui_preview = True" in html
    assert VALUE not in html and "Show rows" not in html


def test_rows_need_a_right_besides_the_right_on_the_table(delta_page, orders):
    delta_page.users["ann"] = Rights(rows=False)
    html = delta_page.get(rows_page(orders, 5))
    assert "Delta table rows" in html and VALUE not in html and "Show rows" not in html
    delta_page.users["ann"] = Rights(assets=False, rows=True)
    delta_page.get(rows_page(orders, 5), status=404)


def test_the_rows_of_a_version_are_shown_on_request_with_links_to_other_versions(delta_page, orders):
    assert VALUE not in delta_page.get(f"/tables/{orders}/versions/4")
    html = delta_page.get(rows_page(orders, 4))
    assert shown_ids(html) == ["4", "5", "6", "7"]
    assert '/versions/3?rows=1#rows">Rows of version 3<' in html and ">Rows of version 5<" in html
    assert shown_ids(delta_page.get(rows_page(orders, 3))) == ["4", "5"]
    assert '<span class="null">NULL</span>' in delta_page.get(rows_page(orders, 0))


def test_a_form_leads_to_another_version_with_the_same_conditions(delta_page, orders):
    html = delta_page.get(rows_page(orders, 4, "id > 4"))
    assert html.count(f'action="/airflow/deltalite/tables/{orders}/versions"') == 2
    assert html.count('type="number" name="version" value="4" min="0" max="5"') == 2
    assert html.count('type="range"') == 2 and html.count('name="where" value="id &gt; 4"') == 2

    def target(query: str, **options) -> str:
        answer = delta_page.answer(f"/tables/{orders}/versions?{query}", **options)
        assert answer.status_code == 303
        return answer.headers["location"]

    start = f"/airflow/deltalite/tables/{orders}/versions/3"
    assert target("version=3&rows=1&where=id+%3E+4&where=") == f"{start}?rows=1&where=id+%3E+4#rows"
    assert target("version=3&where=x") == start
    assert (
        target("version=3&rows=1&where=%2F%2Fevil.example%0D%0Ax")
        == f"{start}?rows=1&where=%2F%2Fevil.example%0D%0Ax#rows"
    )
    delta_page.get(f"/tables/{orders}/versions?version=x", status=422)
    delta_page.get(f"/tables/{orders}/versions", status=422)
    delta_page.get("/tables/unknown/versions?version=3", status=404)


def version_times_of(delta_page, key):
    """The times of versions that the page of a version has for its sliders."""
    [times] = re.findall(r'data-version-times="([^"]*)"', delta_page.get(f"/tables/{key}/versions/3"))
    return json.loads(html_texts.unescape(times))


@pytest.mark.skipif(not is_browser_installed(), reason="needs Debian's packages chromium and chromium-driver")
def test_the_slider_shows_the_time_of_its_version_and_loads_its_rows(delta_page, orders, served_page):
    with open_browser() as browser:
        browser.open(f"{served_page}{rows_page(orders, 4, 'id > 4')}")
        browser.run(
            "const slider = document.querySelector('[data-version=rows-version]');"
            "slider.value = 3; slider.dispatchEvent(new Event('input'));"
        )
        time = browser.run("return document.querySelector('output[for=rows-version]').value")
        assert time == version_times_of(delta_page, orders)["3"] and time.endswith(" UTC")
        browser.run("document.querySelector('[data-version=rows-version]').dispatchEvent(new Event('pointerup'))")
        browser.until("the other version is shown", lambda: "Version 3" in browser.text("h1"))
        assert browser.url.endswith("/versions/3?rows=1&where=id+%3E+4#rows")
        assert browser.run("return document.getElementById('rows-version').value") == "3"
        assert [message for message in browser.messages() if "Content Security Policy" in message] == []


def test_the_page_of_a_version_has_the_times_of_the_other_versions(delta_page, orders):
    times = version_times_of(delta_page, orders)
    assert list(times) == [str(version) for version in range(6)]
    assert f'title="{times["3"]}"' in delta_page.get(f"/tables/{orders}/versions/3")


def test_conditions_select_rows_and_stay_in_the_form_and_the_links(delta_page, orders):
    html = delta_page.get(rows_page(orders, 5, "id > 4", " ", "id <= 6"))
    assert shown_ids(html) == ["5", "6"]
    assert 'value="id &gt; 4"' in html and "where=id+%3E+4&amp;where=id+%3C%3D+6#rows" in html
    assert "No row matches." in delta_page.get(rows_page(orders, 5, "id = 99"))


@pytest.mark.parametrize("payload", [*PAYLOADS, "id = 1; DROP TABLE x", "id > (select 1)", "id\x00=1"])
def test_hostile_conditions_are_refused_with_an_error(delta_page, orders, payload):
    html = delta_page.get(rows_page(orders, 5, payload))
    check_is_harmless(html)
    assert "InvalidRequestError" in html and shown_ids(html) == []


def test_conditions_are_bounded(delta_page, orders):
    assert "more than 200 characters" in delta_page.get(rows_page(orders, 5, "id = " + "1" * 300))
    assert "more than 5 conditions" in delta_page.get(rows_page(orders, 5, *["id = 1"] * 6))


def test_cells_are_never_markup(delta_page, tmp_path):
    delta_page.settings = {"shows_rows": True}
    store = create(LocalLogStore(str(tmp_path / "lake" / "hostile")), schema=SCHEMA, partition_columns=("day",))
    commit_actions(store, write_data_file(store, "a.parquet", list(range(len(PAYLOADS))), list(PAYLOADS)))
    html = delta_page.get(rows_page(delta_page.add_asset(store.root), 1))
    assert shown_ids(html) == [str(number) for number in range(len(PAYLOADS))]
    assert "&lt;script&gt;alert(1)" in html
    check_is_harmless(html)


def test_the_page_says_that_a_vacuum_may_have_deleted_the_files_of_a_version(delta_page, orders, tmp_path):
    (Path(tmp_path) / "lake" / "orders" / "day=2026-01-01" / "a.parquet").unlink()
    html = delta_page.get(rows_page(orders, 0))
    assert "a vacuum may have deleted its files" in html and "What changed" in html


@pytest.mark.parametrize("rows", ["1", "changed"])
def test_a_read_that_takes_too_long_frees_the_request(delta_page, rows):
    released = threading.Event()
    store = append_files(create(MemoryLogStore()), 1)
    delta_page.settings = {"shows_rows": True, "timeout_seconds": 1.0}
    delta_page.open_table = lambda _address, _conn_id: store
    key = delta_page.add_asset("s3://slow/table")
    delta_page.get(f"/tables/{key}/versions/1")
    store.before = lambda *_: released.wait(60)
    try:
        html = delta_page.get(f"/tables/{key}/versions/1?rows={rows}")
    finally:
        released.set()
    assert "The rows were not read in" in html and "Reload the page" in html

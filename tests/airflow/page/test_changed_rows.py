"""Changed rows on the page of a version: only for users with the right on rows, and never as markup."""

from __future__ import annotations

import re
from urllib.parse import urlencode

import pytest

from airflow_provider_deltalite.page import reading, table_routes
from tests.airflow.page.conftest import Rights
from tests.airflow.page.test_hostile_texts import PAYLOADS, SECRET, check_is_harmless
from tests.support.browser import is_browser_installed, open_browser
from tests.support.feed_table import create_feed_table, write_file
from tests.support.valid_table import create_valid_table

VALUE = "v" * 40
"""A text of the table that no other part of a page has."""


@pytest.fixture
def feed(delta_page, tmp_path):
    """The key of a table with the change feed; the deployment shows rows."""
    delta_page.settings = {"shows_rows": True}
    return delta_page.add_asset(create_feed_table(tmp_path / "lake" / "feed", texts=(VALUE, "b", "c")).root)


def changes_page(key: str, version: int, *where: str) -> str:
    query = urlencode([("rows", "changed"), *(("where", text) for text in where)])
    return f"/tables/{key}/versions/{version}?{query}"


def shown_changes(html: str) -> list[tuple[str, str]]:
    """The kind and the id of each row."""
    rows = html.partition('aria-label="Changed rows of version')[2]
    return re.findall(r'<td class="kind \w+">([\w ]+)</td><td>(\w+)</td>', rows)


def test_changed_rows_have_their_kind_of_change_in_the_first_column(delta_page, feed):
    html = delta_page.get(changes_page(feed, 2))
    assert shown_changes(html) == [("updated from", "1"), ("updated to", "1"), ("deleted", "2")]
    assert '<th scope="col">Change</th><th scope="col">id</th>' in html and VALUE in html
    assert 'value="changed" selected' in html
    assert [kind for kind, _ in shown_changes(delta_page.get(changes_page(feed, 1)))] == ["inserted"] * 3
    assert "The version changed no row." in delta_page.get(changes_page(feed, 3))
    assert "The version changed no row." in delta_page.get(changes_page(feed, 0))
    assert '<th scope="col">note</th>' in delta_page.get(changes_page(feed, 4))


def test_the_page_of_a_version_leads_to_its_changed_rows(delta_page, feed):
    link = f'<a href="/airflow/deltalite/tables/{feed}/versions/2?rows=changed#rows">Show changed rows</a>'
    html = delta_page.get(f"/tables/{feed}/versions/2")
    assert link in html and VALUE not in html
    assert link in delta_page.get(f"/tables/{feed}/versions/2?rows=1")
    assert link not in delta_page.get(changes_page(feed, 2))


def test_the_links_to_other_versions_keep_the_choice_and_the_conditions(delta_page, feed):
    html = delta_page.get(changes_page(feed, 2, "id > 0"))
    for other in (1, 3):
        address = f"/versions/{other}?rows=changed&amp;where=id+%3E+0"
        assert f'{address}#rows">Changed rows of version {other}<' in html and f'{address}" rel=' in html
    assert '<input type="hidden" name="rows" value="changed">' in html
    answer = delta_page.answer(f"/tables/{feed}/versions?version=3&rows=changed&where=id+%3E+0")
    assert answer.headers["location"].endswith(f"/tables/{feed}/versions/3?rows=changed&where=id+%3E+0#rows")
    answer = delta_page.answer(f"/tables/{feed}/versions?version=3&rows=%22%3E%3Cscript%3E")
    assert answer.headers["location"].endswith("/versions/3?rows=1#rows")


def test_conditions_test_the_rows_before_and_after_an_update(delta_page, feed):
    assert shown_changes(delta_page.get(changes_page(feed, 2, f"name = {VALUE}"))) == [("updated from", "1")]
    assert "No row matches." in delta_page.get(changes_page(feed, 2, "id = 99"))


def test_changed_rows_are_off_by_default(delta_page, feed, monkeypatch):
    delta_page.settings = {}
    monkeypatch.setattr(reading, "read_changed_rows", lambda *_args, **_options: pytest.fail("The page has read rows."))
    html = delta_page.get(changes_page(feed, 2))
    assert "set [deltalite] ui_preview = True" in html and VALUE not in html and "changed rows" not in html


def test_changed_rows_need_the_right_on_rows(delta_page, feed, monkeypatch):
    monkeypatch.setattr(reading, "read_changed_rows", lambda *_args, **_options: pytest.fail("The page has read rows."))
    delta_page.users["ann"] = Rights(rows=False)
    html = delta_page.get(changes_page(feed, 2))
    assert "Delta table rows" in html and VALUE not in html and "changed rows" not in html
    delta_page.users["ann"] = Rights(assets=False)
    delta_page.get(changes_page(feed, 2), status=404)


def test_cached_rows_are_not_shown_as_changed_rows(delta_page, feed):
    assert "updated" not in delta_page.get(f"/tables/{feed}/versions/2?rows=1")
    assert shown_changes(delta_page.get(changes_page(feed, 2))) != []


@pytest.mark.parametrize("choice", ["1", "changed"])
def test_a_reload_reads_the_rows_again_after_a_read_ran_out_of_time(delta_page, feed, monkeypatch, choice):
    path = f"/tables/{feed}/versions/2?rows={choice}"
    with monkeypatch.context() as patch:
        patch.setattr(table_routes, "seconds_left", lambda _request: -1.0)
        html = delta_page.get(path)
    assert "the time for the preview ended" in html and "<tbody>" not in html.partition('<h2 id="rows"')[2]
    html = delta_page.get(path)
    assert "the time for the preview ended" not in html and "<tbody>" in html.partition('<h2 id="rows"')[2]


def test_without_the_feed_the_page_has_the_reason_and_the_remedy(delta_page, tmp_path):
    delta_page.settings = {"shows_rows": True}
    key = delta_page.add_asset(create_valid_table(tmp_path / "lake" / "orders").root)
    html = delta_page.get(changes_page(key, 3))
    assert "Version 3 changes or removes rows, and the table did not record them." in html
    assert "delta.enableChangeDataFeed" in html and "vacuum" not in html.partition('<h2 id="rows"')[2]
    assert shown_changes(delta_page.get(changes_page(key, 4))) == [("inserted", "6"), ("inserted", "7")]


def test_the_page_says_that_a_vacuum_may_have_deleted_the_change_files(delta_page, feed, tmp_path):
    (tmp_path / "lake" / "feed" / "_change_data").unlink()
    html = delta_page.get(changes_page(feed, 2))
    assert "a vacuum may have deleted its files" in html and "What changed" in html


@pytest.mark.parametrize("payload", PAYLOADS)
def test_names_values_and_kinds_of_changed_rows_are_never_markup(delta_page, tmp_path, payload):
    delta_page.settings = {"shows_rows": True}
    store = create_feed_table(
        tmp_path / "lake" / "hostile", name=f"n {payload}", texts=(payload, f"password='{SECRET}'", "\u202e\x1b")
    )
    key = delta_page.add_asset(store.root)
    pages = [delta_page.get(changes_page(key, version)) for version in (1, 2)]
    changes = {"id": [1], f"n {payload}": [payload], "_change_type": [payload]}
    write_file(store, "_change_data", changes)
    delta_page.now += 120  # the values in the cache are too old then
    pages.append(delta_page.get(changes_page(key, 2)))
    pages.append(delta_page.get(changes_page(key, 2, payload)))
    for html in pages:
        check_is_harmless(html)
        assert SECRET not in html and not {"\u202e", "\x1b"} & set(html)
    assert [kind for kind, _ in shown_changes(pages[1])] == ["updated from", "updated to", "deleted"]
    assert "***" in pages[0] and "InvalidRequestError" in pages[3]
    assert "updated from" not in pages[2] and '<td class="kind change">' in pages[2]


@pytest.mark.skipif(not is_browser_installed(), reason="needs Debian's packages chromium and chromium-driver")
def test_the_form_and_the_slider_show_the_changed_rows_of_another_version(delta_page, feed, served_page):
    with open_browser() as browser:
        browser.open(f"{served_page}/tables/{feed}/versions/2")
        browser.run(
            "document.getElementById('row-choice').value = 'changed';"
            "document.getElementById('row-choice').form.requestSubmit();"
        )
        browser.until("the changed rows are shown", lambda: browser.url.endswith("/versions/2?rows=changed#rows"))
        browser.run(
            "const slider = document.querySelector('[data-version=rows-version]');"
            "slider.value = 1; slider.dispatchEvent(new Event('input'));"
            "slider.dispatchEvent(new Event('pointerup'));"
        )
        browser.until("the other version is shown", lambda: "Version 1" in browser.text("h1"))
        assert browser.url.endswith("/versions/1?rows=changed#rows")
        assert browser.run("return document.getElementById('row-choice').value") == "changed"

"""The list of known tables, and the deadline of a request: a pattern that hangs delays no page of another table."""

from __future__ import annotations

import threading

import pytest

from airflow_provider_deltalite.page import route_base
from deltalite.storage.local import LocalLogStore
from deltalite.storage.opening import open_store
from tests.unit.builders import create


@pytest.fixture
def hanging_root(delta_page):
    """A pattern whose listing hangs until the test ends. The value is the event of the end of the listing."""
    released, ended = threading.Event(), threading.Event()

    def open_table(address, _conn_id):
        if address.startswith("s3"):
            released.wait(20)
            ended.set()
            raise TimeoutError("no answer")
        return open_store(address)

    delta_page.open_table = open_table
    delta_page.settings = {"roots": ("s3://hangs/*",), "timeout_seconds": 60.0}
    yield ended
    released.set()


@pytest.fixture
def fine_key(delta_page, tmp_path):
    """The key of a local table with an asset."""
    create(LocalLogStore(str(tmp_path / "fine")))
    return delta_page.add_asset(tmp_path / "fine")


def test_a_pattern_that_hangs_delays_no_page_of_a_known_table(delta_page, hanging_root, fine_key):
    assert "Table features" in delta_page.get(f"/tables/{fine_key}")
    assert not hanging_root.is_set()


def test_the_list_waits_for_a_pattern_and_keeps_time_for_the_tables(delta_page, hanging_root, fine_key):
    delta_page.settings["timeout_seconds"] = 2.0
    html = delta_page.get("/lake")
    assert "The folders of s3://hangs/* are not listed yet." in html and "no vacuum" in html


def test_a_page_of_an_unknown_table_waits_for_the_first_listing(delta_page, tmp_path):
    create(LocalLogStore(str(tmp_path / "lake" / "orders")))
    delta_page.settings = {"roots": (f"{tmp_path}/lake/*",)}
    delta_page.get(f"/tables/{delta_page.key_of(tmp_path / 'lake' / 'orders')}")


@pytest.mark.parametrize("roots", [("s3://wrong*/orders",), ("s3://hangs/*",), ()])
def test_the_assets_are_kept_for_some_seconds_whatever_the_patterns_do(
    delta_page, hanging_root, fine_key, monkeypatch, roots
):
    calls = []
    load = delta_page.database.assets
    monkeypatch.setattr(delta_page.database, "assets", lambda: calls.append(1) or load(), raising=False)
    delta_page.settings["roots"] = roots
    delta_page.known_seconds = 3_600.0
    for _ in range(3):
        delta_page.get(f"/tables/{fine_key}")
    assert len(calls) == 1


def test_all_waits_of_a_request_share_one_deadline(delta_page, fine_key, monkeypatch):
    now, waits = [100.0], []
    wait_for_reads = route_base.wait_for_reads

    async def wait(reads, seconds):
        waits.append(seconds)
        now[0] += 15.0
        await wait_for_reads(reads, 20.0)

    monkeypatch.setattr(route_base, "wait_for_reads", wait)
    monkeypatch.setattr(route_base, "monotonic", lambda: now[0])
    delta_page.get(f"/tables/{fine_key}/versions/0")
    delta_page.get(f"/tables/{fine_key}")
    assert waits == [20.0, 5.0, 0.0, 20.0, 5.0, 0.0, 0.0]

"""The growth, file sizes and partitions of a table: as text on its page, and as plots in a real browser."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest

from airflow_provider_deltalite.page.growth_view import growth_plots, readable_versions_text
from deltalite.inspection.growth import Growth, GrowthPoint
from deltalite.protocol.file_names import commit_name
from deltalite.snapshot import Snapshot
from deltalite.storage.local import LocalLogStore
from deltalite.upkeep.checkpoint import write_checkpoint
from tests.airflow.page.written_pages import words
from tests.support.browser import is_browser_installed, open_browser
from tests.unit.builders import NOON_MS, add, commit_actions, create, remove, struct


@pytest.fixture
def orders(tmp_path):
    """A table with two partition columns, five versions and a checkpoint at version 2."""
    store = create(
        LocalLogStore(str(tmp_path / "orders")),
        schema=struct(id="long", country="string", day="string"),
        partition_columns=("country", "day"),
    )

    def file(path, country, day, rows):
        values = {"country": country, "day": day}
        return add(path, partition_values=values, size_bytes=rows * 100, stats=json.dumps({"numRecords": rows}))

    commit_actions(store, file("a", "DE", "1", 1000), file("b", "FR", "1", 500))
    commit_actions(store, file("c", "DE", "2", 2000))
    write_checkpoint(Snapshot.load(store), now_ms=NOON_MS)
    commit_actions(store, remove("b", size_bytes=50_000))
    commit_actions(store, file("d", "FR", "2", 250))
    return store


def plotted(page: str) -> dict[str, list]:
    """The values of the plots in a page."""
    [values] = re.findall(r'data-growth="([^"]*)"', page)
    return json.loads(html.unescape(values))


def test_a_table_shows_its_growth_file_sizes_and_partitions(delta_page, orders):
    key = delta_page.add_asset(orders.root)
    page = delta_page.get(f"/tables/{key}")
    values = plotted(page)
    assert values["versions"] == [0, 1, 2, 3, 4]
    assert values["rows"] == [0, 1500, 3500, 3000, 3250]
    assert values["bytes"] == [0, 150_000, 350_000, 300_000, 325_000]
    assert values["files"] == [0, 2, 3, 2, 3]
    assert (values["checkpoints"], values["optimizes"]) == ([2], []) and "deleted" not in values
    assert len(set(values["times"])) == 5
    text = words(page)
    assert (
        "are checkpoints" in text
        and "are optimizes" not in text
        and "Soft-deleted rows" not in text.split("Growth")[-1]
    )
    assert "The log can rebuild these versions: 0 to 4." in text
    assert "16.0 KiB to 64.0 KiB 1 24.4 KiB" in text
    assert "DE 2 2 000 1 195.3 KiB" in text
    assert re.findall(r'class="heat-(\d)"', page) == ["5", "9", "2"]


def test_a_new_commit_adds_a_point_and_an_older_page_of_versions_has_the_same_plots(delta_page, orders):
    key = delta_page.add_asset(orders.root)
    before = plotted(delta_page.get(f"/tables/{key}"))
    commit_actions(orders, remove("a", size_bytes=100_000))
    delta_page.now += 60.0
    after = plotted(delta_page.get(f"/tables/{key}?before=2"))
    assert after["rows"] == [*before["rows"], 2250]
    assert after["times"][:-1] == before["times"]


def test_a_malformed_commit_hides_only_the_growth_on_the_page(delta_page, orders):
    key = delta_page.add_asset(orders.root)
    (Path(orders.root) / commit_name(1)).write_text('{"add":{"path":1}}\n')
    page = delta_page.get(f"/tables/{key}")
    assert "data-growth" not in page and "CorruptLogError" in page
    assert "Table features" in page and 'class="heat"' in page


@pytest.fixture
def stock(tmp_path):
    """A table whose version 2 has soft-deleted rows, and whose version 3 is an optimize."""
    store = create(LocalLogStore(str(tmp_path / "stock")))
    stats = json.dumps({"numRecords": 100})
    vector = {"storageType": "u", "pathOrInlineDv": "v", "sizeInBytes": 1, "cardinality": 30}
    commit_actions(store, add("a", stats=stats))
    commit_actions(store, remove("a"), add("a", stats=stats, deletion_vector=vector))
    packed = add("b", stats=json.dumps({"numRecords": 70}), data_change=False)
    commit_actions(store, remove("a", deletion_vector=vector), packed, name="OPTIMIZE")
    return store


def test_soft_deleted_rows_have_a_plot_and_optimizes_have_marks(delta_page, stock):
    key = delta_page.add_asset(stock.root)
    page = delta_page.get(f"/tables/{key}")
    values = plotted(page)
    assert (values["rows"], values["deleted"], values["optimizes"]) == ([0, 100, 70, 70], [0.0, 0.0, 30.0, 0.0], [3])
    assert 'data-plot="deleted"' in page and "are optimizes" in page and "are checkpoints" not in page


def test_the_versions_before_a_log_cleanup_are_not_readable(delta_page, orders):
    key = delta_page.add_asset(orders.root)
    for version in range(2):
        (Path(orders.root) / commit_name(version)).unlink()
    assert "The log can rebuild these versions: 2 to 4." in words(delta_page.get(f"/tables/{key}"))
    assert readable_versions_text(None) == readable_versions_text(Growth(points=())) == ""
    assert "versions: 1, 3 to 4." in readable_versions_text(Growth(points=(), readable=((1, 1), (3, 4))))


def test_one_version_is_no_growth():
    point = GrowthPoint(version=1, timestamp_ms=5, files=1, size_bytes=None, rows=2)
    assert growth_plots(None) is growth_plots(Growth(points=(point,), checkpoints=())) is None
    later = GrowthPoint(version=2, timestamp_ms=9, files=1, size_bytes=1, rows=2)
    plots = growth_plots(Growth(points=(point, later), checkpoints=()))
    assert plots is not None and plots.has_unknown_numbers and json.loads(plots.values)["bytes"] == [None, 1]


def test_the_share_of_soft_deleted_rows_may_be_unknown():
    points = tuple(
        GrowthPoint(version=n, timestamp_ms=n, files=1, size_bytes=1, rows=rows, deleted_rows=deleted)
        for n, (rows, deleted) in enumerate(((None, 1), (1, None), (0, 0), (0, 2)))
    )
    plots = growth_plots(Growth(points=points))
    assert plots is not None and json.loads(plots.values)["deleted"] == [None, None, 0.0, 100.0]


BLUE, AMBER = "blue > red + 60", "red > blue + 60"


def wait_for_plots(browser, count):
    number_of_plots = "return document.querySelectorAll('.uplot').length"
    browser.until(f"there are {count} plots", lambda: browser.run(number_of_plots) == count)


def count_pixels(browser, plot, color):
    """Return the number of pixels of a plot that have a color."""
    return browser.run(f"""
        const canvas = document.querySelectorAll(".uplot canvas")[{plot}];
        const {{ data }} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        let pixels = 0;
        for (let i = 0; i < data.length; i += 4) {{
          const [red, , blue, opacity] = data.slice(i, i + 4);
          pixels += opacity > 200 && {color};
        }}
        return pixels;
    """)


@pytest.fixture
def busy(tmp_path):
    """A table with two updates that recorded their durations. The second one replanned after another commit."""
    store = create(LocalLogStore(str(tmp_path / "busy")))
    for version, read_version, metrics in (
        (1, 0, {"executionTimeMs": "2500"}),
        (2, 1, {}),
        (3, 1, {"executionTimeMs": "61000", "numReplans": "2"}),
    ):
        info = {"operation": "UPDATE", "readVersion": read_version, "operationMetrics": metrics}
        file = {"path": f"file-{version}", "partitionValues": {}, "size": 1, "modificationTime": 0, "dataChange": True}
        lines = [json.dumps({"commitInfo": info}), json.dumps({"add": file})]
        (Path(store.root) / commit_name(version)).write_text("\n".join(lines))
    return store


def test_durations_replans_and_versions_of_other_writers_have_plots_if_a_commit_has_them(delta_page, busy, orders):
    busy_key, orders_key = delta_page.add_asset(busy.root), delta_page.add_asset(orders.root)
    values = plotted(page := delta_page.get(f"/tables/{busy_key}"))
    assert (values["seconds"], values["meanwhile"]) == ([None, 2.5, None, 61.0], [0, 0, 0, 1])
    assert "Duration of commits" in page and "Versions of other writers that came first" in page
    assert values["replans"] == [0, 0, 0, 2]
    assert "Replans after conflicts" in page and "2 replans after conflicts" in page
    values = plotted(page := delta_page.get(f"/tables/{orders_key}"))
    assert not {"seconds", "meanwhile", "replans"} & values.keys() and 'data-plot="seconds"' not in page


def test_the_log_plot_has_the_bytes_of_the_commits_after_the_last_checkpoint(delta_page, orders):
    values = plotted(delta_page.get(f"/tables/{delta_page.add_asset(orders.root)}"))
    sizes = [(Path(orders.root) / commit_name(version)).stat().st_size for version in range(5)]
    assert values["log"] == [sizes[0], sizes[0] + sizes[1], 0, sizes[3], sizes[3] + sizes[4]]


@pytest.mark.skipif(not is_browser_installed(), reason="needs Debian's packages chromium and chromium-driver")
def test_a_browser_draws_the_plots_and_shows_the_version_below_the_pointer(delta_page, orders, served_page):
    key = delta_page.add_asset(orders.root)
    with open_browser() as browser:
        browser.open(f"{served_page}/tables/{key}")
        wait_for_plots(browser, 4)
        for number in range(4):
            assert count_pixels(browser, number, BLUE) > 100
        browser.run(
            "const plot = document.querySelector('.u-over'), box = plot.getBoundingClientRect();"
            "const [clientX, clientY] = [box.right - 1, box.top + 5];"
            "plot.dispatchEvent(new MouseEvent('mousemove', {clientX, clientY, bubbles: true}));"
        )
        browser.until("the legend has the last version", lambda: "4, 20" in browser.text(".u-legend"))
        assert "3,250" in browser.text(".u-legend")
        assert [message for message in browser.messages() if "Content Security Policy" in message] == []


@pytest.mark.skipif(not is_browser_installed(), reason="needs Debian's packages chromium and chromium-driver")
def test_a_browser_draws_the_plot_of_soft_deleted_rows_and_the_marks_of_optimizes(delta_page, stock, served_page):
    key = delta_page.add_asset(stock.root)
    with open_browser() as browser:
        browser.open(f"{served_page}/tables/{key}")
        wait_for_plots(browser, 5)
        assert count_pixels(browser, 3, BLUE) > 100
        assert count_pixels(browser, 0, AMBER) > 10


@pytest.mark.skipif(not is_browser_installed(), reason="needs Debian's packages chromium and chromium-driver")
def test_a_browser_draws_a_bar_for_each_commit_with_a_duration(delta_page, busy, served_page):
    key = delta_page.add_asset(busy.root)
    with open_browser() as browser:
        browser.open(f"{served_page}/tables/{key}")
        wait_for_plots(browser, 7)
        assert min(count_pixels(browser, plot, BLUE) for plot in (4, 5, 6)) > 100
        assert [message for message in browser.messages() if "Content Security Policy" in message] == []

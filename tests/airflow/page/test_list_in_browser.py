"""Lists of tables fit into the window of a laptop and into the tab of a DAG, also with long texts."""

from __future__ import annotations

import pytest

from deltalite.storage.local import LocalLogStore
from tests.airflow.page.conftest import Rights, task_metadata
from tests.airflow.page.written_pages import write_commit
from tests.support.browser import is_browser_installed, open_browser
from tests.unit.builders import append_files, create

pytestmark = pytest.mark.skipif(
    not is_browser_installed(), reason="needs Debian's packages chromium and chromium-driver"
)
RUN = "scheduled__2026-03-01T00:00:00.000000+00:00"


@pytest.mark.parametrize(("path", "width"), [("/lake", 1200), ("/dag/daily_orders_of_all_shops", 936)])
def test_the_list_fits_into_its_frame_and_a_reason_takes_two_lines(delta_page, served_page, tmp_path, path, width):
    root = tmp_path / "a-folder-with-a-long-name" / "lake" / "daily_orders_of_all_shops"
    append_files(create(LocalLogStore(str(root))), 12)
    write_commit(
        root, 13, operation="WRITE", userMetadata=task_metadata(dag_id="daily_orders_of_all_shops", run_id=RUN)
    )
    delta_page.users["ann"] = Rights(dag_ids={"daily_orders_of_all_shops"})
    delta_page.add_asset(root, writer=("daily_orders_of_all_shops", "load"))
    with open_browser(size=(width, 700)) as browser:
        browser.open(f"{served_page}{path}")
        assert "optimize: 12 files to rewrite" in browser.text(".reason")
        assert (
            browser.run("const list = document.querySelector('.scroll'); return list.scrollWidth - list.clientWidth")
            == 0
        )
        lines = browser.run(
            "const reason = document.querySelector('.reason');"
            "return reason.clientHeight / parseFloat(getComputedStyle(reason).lineHeight)"
        )
        assert lines == pytest.approx(2, abs=0.2)

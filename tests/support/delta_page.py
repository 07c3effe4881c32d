"""The page *Delta tables* in Airflow's UI, as a person uses it in a browser."""

from __future__ import annotations

from tests.support.browser import Browser

_UNREAD = ("not read yet", "not measured yet", "no answer", "are not listed yet")


def open_list(browser: Browser, airflow: str) -> None:
    """Open the list of tables from Airflow's menu, and load it again until each table is read.

    `airflow` is the address of Airflow. Later commands go to the frame of the page.
    """
    browser.open(f"{airflow}/plugin/delta-tables")
    browser.enter_frame()
    browser.until("each table is read", lambda: _is_list_read(browser))


def open_table(browser: Browser, airflow: str, name: str) -> None:
    """Open the page of a table from the list; `name` is the last part of its address, or more parts."""
    open_list(browser, airflow)
    browser.click(f"tbody th a[href*='/tables/']:has(+ [title$='/{name}'])")
    browser.until("the table is shown", lambda: "Table features" in browser.text())


def _is_list_read(browser: Browser) -> bool:
    text = browser.text("main")
    if "Delta tables" in text and not any(word in text for word in _UNREAD):
        return True
    browser.run("location.reload()")
    return False

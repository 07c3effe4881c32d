"""Makes the pictures of the documentation from a real run: `make pictures`.

A whole Airflow runs the example DAG `shop_lake` for a day of the demonstration's feed, and `orders_ingest` for three
days. The task of the first day is then cleared, so its second attempt is skipped. Another program, delta-rs, writes a
table of clicks, which needs maintenance, and the button of its page starts the maintenance. Chromium takes the pictures
of the Grid and of the page *Delta tables*. `deltalite history` draws the history of a table as on a terminal.

The pictures are written to docs/_static/pictures. The program needs Debian's packages `chromium` and
`chromium-driver`.
"""

from __future__ import annotations

import argparse
import fcntl
import io
import os
import pty
import struct
import subprocess
import sys
import tempfile
import termios
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import deltalake
import pyarrow as pa
from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "demo")]

from airflow_provider_deltalite.page.registration import TASK_ROUTE  # noqa: E402
from deltalite.protocol.file_names import commit_name  # noqa: E402
from demo.customer_feed import write_customers  # noqa: E402
from demo.feed import write_feed  # noqa: E402
from demo.run_ui import MAINTENANCE_DAG, add_example, ui_variables  # noqa: E402
from tests.support.airflow_processes import WholeAirflow  # noqa: E402  importable from the checkout only
from tests.support.browser import Browser, is_browser_installed, open_browser  # noqa: E402
from tests.support.delta_page import open_list, open_table  # noqa: E402
from tests.support.java_options import QUICK_JVM_OPTIONS  # noqa: E402

PICTURES = CHECKOUT / "docs" / "_static" / "pictures"
DAG, TASK = "orders_ingest", "load"
SHOP_DAG = "shop_lake"
SHOP_DAY = date(2026, 3, 1)
MANUAL_DAYS = (datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 2, tzinfo=UTC))
_ORDERS_A_DAY = 2_000
_CLICK_COMMITS = 14
_WIDTH = 1280
# In pixels. The size of a window includes the bar with the address, but no picture shows it.
_ADDRESS_BAR_HEIGHT = 143
_TERMINAL_COLUMNS = 170
_RUN_TIMEOUT_S = 600.0
# The template of the SVG. Unlike the template of rich, it fetches no font.
_SVG_TEMPLATE = """<svg class="rich-terminal" viewBox="0 0 {terminal_width} {terminal_height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: monospace; font-size: {char_height}px; line-height: {line_height}px; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>{lines}</defs>
<rect fill="#1d1f21" width="{terminal_width}" height="{terminal_height}" rx="6"/>
<g transform="translate(8, 8)" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g></g></svg>
"""


def main() -> int:
    """Make all pictures, and print where they are."""
    argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0]).parse_args()
    if not is_browser_installed():
        print("The pictures need Chromium. On Debian: apt-get install chromium chromium-driver", file=sys.stderr)
        return 1
    PICTURES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="airflow-") as folder:
        home = Path(folder)
        lake = home / "lake"
        variables = {
            **ui_variables(home),
            "AIRFLOW__DELTALITE__UI_TABLES": f"{lake}/orders, {lake}/clicks, {lake}/shop/*/*",
            "SPARK_SUBMIT_OPTS": QUICK_JVM_OPTIONS,
        }
        with WholeAirflow(home, variables=variables) as airflow:
            fill_shop(airflow, home / "landing")
            write_clicks(lake / "clicks")
            run_id = load_three_days(airflow, home / "landing")
            add_example(airflow, MAINTENANCE_DAG)
            take_pictures(airflow, run_id)
        draw_terminal(["history", str(lake / "orders")], PICTURES / "history.svg")
    for picture in sorted(PICTURES.iterdir()):
        print(picture.relative_to(CHECKOUT))
    return 0


def fill_shop(airflow: WholeAirflow, landing: Path) -> None:
    """Deliver the files of `SHOP_DAY`, and load them into the lake of the shop.

    The scheduler starts the run of the last full hour.
    """
    write_feed(landing, SHOP_DAY)
    write_customers(landing, SHOP_DAY)
    add_example(airflow, SHOP_DAG)
    [run, *_] = airflow.wait_for_runs(SHOP_DAG, 1)
    airflow.wait_for_run(SHOP_DAG, run["dag_run_id"], timeout=_RUN_TIMEOUT_S)
    airflow.pause(SHOP_DAG)


def write_clicks(table: Path) -> None:
    """Append many small files to a table with delta-rs, as a program outside of Airflow that commits once an hour.

    The commits take a second in all. So each commit file gets the modification time that such a program would give it.
    """
    first_hour = datetime.now(UTC) - timedelta(hours=_CLICK_COMMITS)
    for hour in range(_CLICK_COMMITS):
        start = first_hour + timedelta(hours=hour)
        times = [start + timedelta(seconds=3 * number) for number in range(900 + 20 * hour)]
        rows = pa.table({"page": [f"/product/{time.second}" for time in times], "clicked_at": times})
        deltalake.write_deltalake(table, rows, mode="append")
        committed_at = (start + timedelta(hours=1)).timestamp()
        os.utime(table / commit_name(hour), (committed_at, committed_at))


def load_three_days(airflow: WholeAirflow, landing: Path) -> str:
    """Run the DAG for three days, clear the task of the first run, and return that run's id.

    This function starts the runs of `MANUAL_DAYS`. The scheduler starts the third run, the run of yesterday.
    """
    for day in (*MANUAL_DAYS, datetime.now(UTC) - timedelta(days=1)):
        write_feed(landing, day.date(), orders=_ORDERS_A_DAY)
    add_example(airflow, DAG)
    first_run_id, _ = [airflow.run(DAG, logical_date=day, timeout=_RUN_TIMEOUT_S) for day in MANUAL_DAYS]
    for run in airflow.wait_for_runs(DAG, len(MANUAL_DAYS) + 1):
        airflow.wait_for_run(DAG, run["dag_run_id"], timeout=_RUN_TIMEOUT_S)
    airflow.clear(DAG, first_run_id, TASK)
    airflow.wait_for_run(DAG, first_run_id, timeout=_RUN_TIMEOUT_S)
    result = airflow.xcom(DAG, first_run_id, TASK)
    if not result["skipped"]:
        raise SystemExit(f"The second attempt of {TASK} was not skipped, so there is no picture: {result}.")
    return first_run_id


def take_pictures(airflow: WholeAirflow, run_id: str) -> None:
    """Take the pictures of Airflow's UI. `run_id` is the run with the skipped attempt."""
    url = f"http://127.0.0.1:{airflow.port}"
    task_page = f"{url}/dags/{DAG}/runs/{quote(run_id, safe='')}/tasks/{TASK}"
    with open_browser(size=(1700, 620 + _ADDRESS_BAR_HEIGHT)) as browser:
        log_in(browser, url)
        browser.open(task_page)
        browser.until("the log is shown", lambda: "SKIPPED" in browser.text())
        browser.take_picture(PICTURES / "skipped-attempt.png")
    with open_browser(size=(_WIDTH, 760 + _ADDRESS_BAR_HEIGHT)) as browser:
        log_in(browser, url)
        browser.open(f"{task_page}/plugin/{TASK_ROUTE}")
        browser.enter_frame()
        browser.until("the attempts are shown", lambda: "Skipped: this run has" in browser.text())
        take_picture_of_window(browser, "delta-task.png")
        open_list(browser, url)
        take_picture_of_window(browser, "delta-tables.png")
        open_table(browser, url, "lake/clicks")
        browser.click(".advice summary")
        take_picture_of_window(browser, "delta-health.png")
        browser.enter_frame()
        browser.click("form.maintenance button")
        [run] = airflow.wait_for_runs(MAINTENANCE_DAG, 1)
        airflow.wait_for_run(MAINTENANCE_DAG, run["dag_run_id"], timeout=_RUN_TIMEOUT_S)
        open_table(browser, url, "lake/clicks")
        browser.until("the plots are drawn", lambda: browser.run("return !!document.querySelector('.uplot')"))
        browser.run("document.getElementById('growth').scrollIntoView()")
        take_picture_of_window(browser, "delta-table.png")
        browser.enter_frame()
        browser.click("tbody th a[href*='/versions/']")
        browser.until("the version is shown", lambda: "What changed" in browser.text())
        browser.click("[aria-labelledby=rows] form button")
        browser.until("the rows are shown", lambda: "Rows of version" in browser.text())
        browser.run("document.getElementById('changed').scrollIntoView()")
        take_picture_of_window(browser, "delta-version.png")


def log_in(browser: Browser, url: str) -> None:
    """Open Airflow, which logs in each visitor as an admin."""
    browser.open(url)
    browser.until("the user is logged in", lambda: "Dags" in browser.text())


def take_picture_of_window(browser: Browser, name: str) -> None:
    """Leave the frame of the plugin, and write a picture of the whole window."""
    browser.leave_frame()
    browser.take_picture(PICTURES / name)


def draw_terminal(arguments: list[str], picture: Path) -> None:
    """Run `deltalite` on a terminal, and draw the terminal as an SVG."""
    command = [str(CHECKOUT / ".venv" / "bin" / "deltalite"), *arguments]
    console = Console(record=True, width=_TERMINAL_COLUMNS + 4, file=io.StringIO())
    console.print(Text.assemble(("$ ", "bold green"), " ".join(["deltalite", *arguments[:-1], "/lake/orders"])))
    console.print(Text.from_ansi(_terminal_output(command)))
    picture.write_text(
        console.export_svg(title="", theme=DIMMED_MONOKAI, code_format=_SVG_TEMPLATE, unique_id="terminal"),
        encoding="utf-8",
    )


def _terminal_output(command: list[str]) -> str:
    """Run a command with a new terminal as standard output, and return its output."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 60, _TERMINAL_COLUMNS, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(_TERMINAL_COLUMNS)}
    with subprocess.Popen(command, stdout=slave, env=environment) as process:
        os.close(slave)
        output = bytearray()
        while True:
            try:
                chunk = os.read(master, 65_536)
            except OSError:  # Linux raises this error at the end of the output of a terminal
                break
            if not chunk:
                break
            output += chunk
        process.wait()
    os.close(master)
    return output.decode("utf-8").replace("\r\n", "\n")


if __name__ == "__main__":
    sys.exit(main())

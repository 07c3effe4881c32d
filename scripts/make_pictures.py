"""Makes the pictures of the documentation from a real run: `make pictures`.

A whole Airflow runs the example DAG `orders_ingest` for three days, and the task of the first day is cleared. Chromium
then takes a picture of the Grid with the log of the second attempt, which was skipped, and one of the table's page.
`deltalite history` draws the table's history as on a terminal. The pictures are written to docs/_static/pictures. The
program needs Chromium.
"""

from __future__ import annotations

import argparse
import fcntl
import io
import os
import pty
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "demo")]

from airflow_provider_deltalite.page.known_tables import key_of  # noqa: E402
from demo.feed import write_feed  # noqa: E402
from tests.support.airflow_processes import WholeAirflow  # noqa: E402  importable from the checkout only
from tests.support.browser import HEADLESS_OPTIONS  # noqa: E402

PICTURES = CHECKOUT / "docs" / "_static" / "pictures"
DAG, TASK = "orders_ingest", "load"
MANUAL_DAYS = (datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 2, tzinfo=UTC))
_ORDERS_A_DAY = 2_000
_TERMINAL_COLUMNS = 170
_RUN_TIMEOUT_S = 300.0
# The page fetches its data after it has loaded. Chromium's virtual clock advances only while no request is open.
_PAGE_MILLISECONDS = 20_000
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
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        print("The pictures need Chromium. On Debian: apt-get install chromium", file=sys.stderr)
        return 1
    PICTURES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        landing, lake = home / "landing", home / "lake"
        # Yesterday also needs a feed, because the scheduler starts its run: see `load_three_days`.
        for day in (*MANUAL_DAYS, datetime.now(UTC) - timedelta(days=1)):
            write_feed(landing, day.date(), orders=_ORDERS_A_DAY)
        variables = {
            "AIRFLOW_VAR_LANDING": str(landing),
            "AIRFLOW_VAR_LAKE": str(lake),
            "AIRFLOW__DELTALITE__UI_ENABLED": "True",
            "AIRFLOW__DELTALITE__UI_TABLES": str(lake / "*"),
        }
        with WholeAirflow(home / "airflow", variables=variables) as airflow:
            run_id = load_three_days(airflow)
            page = f"http://127.0.0.1:{airflow.port}/dags/{DAG}/runs/{quote(run_id, safe='')}/tasks/{TASK}"
            photograph(chromium, page, PICTURES / "skipped-attempt.png", size=(1700, 620))
            key = key_of(str(lake / "orders"))
            table_page = f"http://127.0.0.1:{airflow.port}/plugin/delta-tables/deltalite/tables/{key}"
            photograph(chromium, table_page, PICTURES / "delta-table.png", size=(1500, 900))
        draw_terminal(["history", str(lake / "orders")], PICTURES / "history.svg")
    for picture in sorted(PICTURES.iterdir()):
        print(picture.relative_to(CHECKOUT))
    return 0


def load_three_days(airflow: WholeAirflow) -> str:
    """Run the DAG for three days, clear the task of the first run, and return that run's id.

    This function starts the runs of `MANUAL_DAYS`. The scheduler starts the third run, the run of yesterday.
    """
    airflow.add_dag(DAG, CHECKOUT / "example_dags" / f"{DAG}.py")
    first_run_id, _ = [airflow.run(DAG, logical_date=day, timeout=_RUN_TIMEOUT_S) for day in MANUAL_DAYS]
    for run in airflow.wait_for_runs(DAG, len(MANUAL_DAYS) + 1):
        airflow.wait_for_run(DAG, run["dag_run_id"], timeout=_RUN_TIMEOUT_S)
    airflow.clear(DAG, first_run_id, TASK)
    airflow.wait_for_run(DAG, first_run_id, timeout=_RUN_TIMEOUT_S)
    result = airflow.xcom(DAG, first_run_id, TASK)
    if not result["skipped"]:
        raise SystemExit(f"The second attempt of {TASK} was not skipped, so there is no picture: {result}.")
    return first_run_id


def photograph(chromium: str, url: str, picture: Path, *, size: tuple[int, int]) -> None:
    """Write a picture of a page that Chromium loads. `size` is width and height in pixels."""
    with tempfile.TemporaryDirectory() as profile:
        command = [
            chromium,
            *HEADLESS_OPTIONS,
            f"--user-data-dir={profile}",
            f"--window-size={size[0]},{size[1]}",
            f"--virtual-time-budget={_PAGE_MILLISECONDS}",
            f"--screenshot={picture}",
            url,
        ]
        subprocess.run(command, check=True, capture_output=True, timeout=120)


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

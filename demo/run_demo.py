"""The demonstration: three days of orders through a real Airflow into a Delta table, and what became of them.

Everything lies in one folder, `.airflow` in the checkout unless `--home` says otherwise: Airflow's home with its SQLite
database, the feed, the table, and a log file for each DAG run. The days, and so the ids of the DAG runs, are the same
each time: a second demonstration asks for runs that have committed already, and shows that nothing is written twice.

The sensor is seen to wait. For each day the report's run is started first, in a process of its own, and only when
Airflow's database says that its sensor is deferred is the ingest of the day started in another. Where both want to
write to the SQLite database, one waits for the other. Each process runs its DAG with `DAG.test`, so that neither a
scheduler nor a web server has to be started and stopped.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import select
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from datetime import UTC, date, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from feed import ORDERS_A_DAY, write_feed
from rich.console import Console
from show import show_reports, show_table

from deltalite.errors import DeltaLiteError

CHECKOUT = Path(__file__).resolve().parent.parent
DAYS = (date(2026, 3, 1), date(2026, 3, 2), date(2026, 3, 3))

_LAST_LINES = 15
_PAUSE_SECONDS = 0.2


class DemoError(Exception):
    """What ends the demonstration, as a sentence for the terminal."""


class Demo:
    """What all steps share: the folders, the terminal and the clock."""

    def __init__(self, home: Path, orders: int) -> None:
        self.home = home
        self.orders = orders
        self.landing = home / "landing"
        self.lake = home / "lake"
        self.logs = home / "logs" / "demo"
        self.database = home / "airflow.db"
        # A log file or a pipe has no width; the tables need one.
        self.console = Console(highlight=False, width=None if sys.stdout.isatty() else 130)
        self.started = time.monotonic()

    def say(self, what: str, happened: str) -> None:
        """One line for one step."""
        self.console.print(f"[dim]{time.monotonic() - self.started:6.1f} s[/]  {what:<26} {happened}")

    def environment(self) -> dict[str, str]:
        """What Airflow and Spark are to see: nothing of the machine's own Airflow or Spark."""
        foreign = ("AIRFLOW_", "SPARK_HOME", "PYSPARK_", "PYTHONPATH")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        return kept | {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(CHECKOUT / "example_dags"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            # Two processes use the database: one that finds it locked waits.
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.database}?timeout=60",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[*]"}),
            "AIRFLOW_VAR_LANDING": str(self.landing),
            "AIRFLOW_VAR_LAKE": str(self.lake),
        }


class DagRuns:
    """A process that runs one DAG, one day after the other; it ends with the block, and with this program."""

    def __init__(self, demo: Demo, dag_id: str) -> None:
        self.dag_id = dag_id
        self._log = demo.logs / f"{dag_id}.log"
        self._process = subprocess.Popen(
            [sys.executable, str(CHECKOUT / "demo" / "dag_runs.py"), dag_id, str(demo.logs)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=demo.environment(),
            cwd=demo.home,  # whatever Spark leaves behind, it leaves there
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()

    def start(self, day: date) -> None:
        """Begin the run of a day."""
        if self._process.stdin is None or self._process.poll() is not None:
            raise DemoError(f"The process of {self.dag_id} has ended.\n{_tail(self._log)}")
        self._process.stdin.write(f"{day}\n")
        self._process.stdin.flush()

    def has_ended(self, within_seconds: float) -> bool:
        """Whether the run has said its end, or will within some time."""
        return bool(select.select([self._process.stdout], [], [], within_seconds)[0])

    def result(self) -> dict[str, Any]:
        """What the tasks of the run returned, by their ids; waits for its end."""
        line = self._process.stdout.readline() if self._process.stdout is not None else ""
        if not line:
            raise DemoError(f"The process of {self.dag_id} ended unexpectedly.\n{_tail(self._log)}")
        ended: dict[str, Any] = json.loads(line)
        if not ended["succeeded"]:
            raise DemoError(
                f"{self.dag_id}, run {ended['run_id']}, failed: {ended['failure']}\nIts log: {ended['log']}"
            )
        returned: dict[str, Any] = ended["returned"]
        return returned


def _tail(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n".join([f"Its log: {log}", *lines[-_LAST_LINES:]])


def prepare(demo: Demo) -> None:
    """Airflow's database, made or brought up to the installed version where it is not; and the feed."""
    demo.logs.mkdir(parents=True, exist_ok=True)
    installed = importlib.metadata.version("apache-airflow-core")
    migrated = demo.home / ".migrated"
    if not (demo.database.exists() and migrated.exists() and migrated.read_text() == installed):
        log = demo.logs / "migrate.log"
        with log.open("w") as file, demo.console.status("Airflow makes its database"):
            command = [sys.executable, "-m", "airflow", "db", "migrate"]
            done = subprocess.run(command, env=demo.environment(), cwd=demo.home, stdout=file, stderr=file, check=False)
        if done.returncode != 0:
            raise DemoError(f"Airflow could not make its database in {demo.home}.\n{_tail(log)}")
        migrated.write_text(installed)
        demo.say("airflow", f"database made in {demo.database}")
    for day in DAYS:
        file = write_feed(demo.landing, day, orders=demo.orders)
        demo.say(f"{day} feed", f"{file} ({file.stat().st_size / 1e6:.1f} MB)")


def run_day(demo: Demo, day: date, ingest: DagRuns, report: DagRuns) -> tuple[dict[str, Any], dict[str, Any]]:
    """The two DAG runs of a day; returns what `load` and `summarize` returned."""
    with demo.console.status(f"{day}: the report is started"):
        report.start(day)
        waiting = _waits(demo, report)
    since = time.monotonic()
    if waiting:
        demo.say(f"{day} orders_report", "its sensor waits in deferral: the day's ingest has not committed yet")
    with demo.console.status(f"{day}: orders are loaded by Spark"):
        ingest.start(day)
        load = ingest.result()["load"]
    rows = load["metrics"]["numOutputRows"]
    if load["skipped"]:
        what = f"[yellow]skipped[/]: this run has committed version {load['version']} before; nothing is written twice"
    else:
        what = (
            f"[green]committed version {load['version']}[/]: {rows:,} rows, {load['metrics']['numOutputBytes']:,} bytes"
        )
    demo.say(f"{day} orders_ingest", what)
    with demo.console.status(f"{day}: the report reads the table"):
        returned = report.result()
    found = f"version {returned['wait']['version']}"
    waited = f"its sensor found {found} after {time.monotonic() - since:.0f} s" if waiting else f"{found} was there"
    demo.say(f"{day} orders_report", f"{waited}; the report has read that version")
    return load, returned["summarize"]


def _waits(demo: Demo, report: DagRuns) -> bool:
    """Whether the sensor of the run that was just started is deferred; False where its first look found the version."""
    started = datetime.now(UTC)
    while not report.has_ended(_PAUSE_SECONDS):
        if _is_deferred(demo.database, started):
            return True
    return False


def _is_deferred(database: Path, since: datetime) -> bool:
    """Whether the sensor has been deferred: then Airflow has noted by which method it will go on.

    Its state would not tell: `DAG.test` runs the trigger itself, and calls the task queued meanwhile.
    """
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=60)) as connection:
        found = connection.execute(
            "SELECT count(*) FROM task_instance WHERE dag_id = 'orders_report' AND task_id = 'wait' "
            "AND next_method IS NOT NULL AND start_date >= ?",
            (f"{since:%Y-%m-%d %H:%M:%S}",),
        ).fetchone()
    return bool(found[0])


def run(demo: Demo) -> None:
    """All of it."""
    airflow, spark = (importlib.metadata.version(name) for name in ("apache-airflow-core", "pyspark"))
    demo.console.print(
        f"[bold]Delta Lake as Airflow tasks[/]: Airflow {airflow}, Spark {spark}, everything in {demo.home}\n"
    )
    prepare(demo)
    loads, reports = [], []
    with DagRuns(demo, "orders_report") as report, DagRuns(demo, "orders_ingest") as ingest:
        for day in DAYS:
            load, summary = run_day(demo, day, ingest, report)
            loads.append(load)
            reports.append(summary)
    show_table(demo.console, demo.lake / "orders")
    show_reports(demo.console, reports)
    skipped = sum(load["skipped"] for load in loads)
    if skipped == len(loads):
        verdict = f"All {skipped} runs of orders_ingest were skipped: they had committed before. Nothing was written."
    else:
        verdict = f"{len(loads) - skipped} of {len(loads)} runs of orders_ingest have committed. "
        verdict += "Start it again: the same runs will be skipped, and nothing is written twice."
    demo.console.print(f"\n[bold]{verdict}[/]")
    demo.console.print(f"{time.monotonic() - demo.started:.0f} s. The logs of all runs: {demo.logs}")


def main() -> int:
    """The program; the exit code."""
    parser = argparse.ArgumentParser(description="Run the example DAGs on a real Airflow and show the table.")
    parser.add_argument("--home", type=Path, default=CHECKOUT / ".airflow", help="the folder for all that is made")
    parser.add_argument("--orders", type=int, default=ORDERS_A_DAY, help="how many orders a day has")
    given = parser.parse_args()
    demo = Demo(given.home.resolve(), given.orders)
    try:
        run(demo)
    except (DemoError, DeltaLiteError, OSError) as error:
        print(f"\nThe demonstration failed. {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

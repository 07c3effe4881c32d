"""The demonstration: a real Airflow loads two days of orders, builds a lake from their files, and shows the tables.

All files but temporary ones are in one folder (`--home`), by default `.airflow` in the checkout. It is Airflow's home
with the SQLite database, and contains the feed, the tables, and a log file for each DAG run.

The first part runs `orders_ingest` and `orders_report` for each day. The days are always the same, and so are the ids
of these DAG runs. A second demonstration repeats the same DAG runs, and shows that they write nothing twice. Each
demonstration also shows that the sensor waits, in these steps:

1. Start the report of a day in one process.
2. Wait until Airflow's database says that the report's sensor is deferred.
3. Start the ingest of the day in another process.

The second part triggers `shop_lake` once, with a new DAG run in each demonstration. The first run takes all files of
the feed through the tables of a lake. A run of a second demonstration finds no new file, and loads nothing.

Spark runs in local mode. The two parts then run at the same time, because they use different files and tables. With
`--cluster standalone`, the program starts a Spark master and two workers as processes, and the jobs run there. One job
takes all cores of this cluster, so the second part follows the first one.

Most of the time goes into starting Spark and Airflow. These measures shorten the starts:

- The JVMs use options for short programs.
- The first demonstration makes an archive of Spark's classes (`deltalite warm-up`) in the temporary folder. With this
  archive all jobs start faster. Meanwhile Airflow creates its database, and the sensor of the first report starts to
  wait.
- The processes of the DAGs import Airflow while its database is created.

Each process runs its DAG with `DAG.test`, without a scheduler or a web server. If one process has locked the SQLite
database, the other process waits.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import select
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.console import Console

from deltalite.errors import DeltaLiteError

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))
from demo.customer_feed import write_customers  # noqa: E402
from demo.feed import ORDERS_A_DAY, write_feed  # noqa: E402
from demo.show import show_applications, show_reports, show_table  # noqa: E402
from demo.show_shop import TASK_IDS, changes_tables, describe_task, show_shop  # noqa: E402
from demo.warm_up import WarmUp  # noqa: E402
from tests.support.clusters.standalone import StandaloneCluster, standalone_cluster  # noqa: E402

UI_PORT = 8080
UI_PAGE = "/plugin/delta-tables"
"""The port and the path of the page that `make demo-ui` serves."""
DAYS = (date(2026, 3, 1), date(2026, 3, 2))

# A JVM of the demonstration lives for seconds, and handles few rows. Without these options, it would optimize code
# that it hardly uses, collect garbage while it loads classes, serve a web page that nobody opens, and run tasks without
# rows.
_OPTIONS_OF_SHORT_JVMS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:MetaspaceSize=256m"
_SPARK_SETTINGS = "-Dspark.ui.enabled=false -Dspark.sql.shuffle.partitions=2"
_SHOWN_LOG_LINES = 15
_POLL_SECONDS = 0.2


class DemoError(Exception):
    """An error that ends the demonstration. Its text is a sentence for the terminal."""


class Demo:
    """The folders, the terminal and the start time, which all steps use."""

    def __init__(self, home: Path, orders_a_day: int, day_count: int) -> None:
        self.home = home
        self.spark_master = "local[*]"
        self.orders_a_day = orders_a_day
        self.days = DAYS[:day_count]
        self.landing = home / "landing"
        self.lake = home / "lake"
        self.logs = home / "logs" / "demo"
        self.database = home / "airflow.db"
        # Tables need a width, which a log file or a pipe does not have.
        self.console = Console(highlight=False, width=None if sys.stdout.isatty() else 130)
        self.start_seconds = time.monotonic()

    def print_step(self, step: str, result: str) -> None:
        """Print one line for one step."""
        self.console.print(f"[dim]{time.monotonic() - self.start_seconds:6.1f} s[/]  {step:<26} {result}")

    def environment(self) -> dict[str, str]:
        """Return the environment of Airflow and Spark, without the settings of other installations on this machine."""
        other_installations = ("AIRFLOW_", "SPARK_HOME", "PYSPARK_", "PYTHONPATH")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(other_installations)}
        return inherited | {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_SUBMIT_OPTS": os.environ.get("SPARK_SUBMIT_OPTS", f"{_OPTIONS_OF_SHORT_JVMS} {_SPARK_SETTINGS}"),
            "SPARK_LAUNCHER_OPTS": os.environ.get("SPARK_LAUNCHER_OPTS", _OPTIONS_OF_SHORT_JVMS),
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            # Two processes use the database. If one of them has locked it, the other waits.
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.database}?timeout=60",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            # No task starts `deltalite warm-up`, which would outlive this program. The program starts it and waits.
            "AIRFLOW__DELTALITE__CLASS_ARCHIVE": "use",
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": self.spark_master}),
            "AIRFLOW_VAR_LANDING": str(self.landing),
            "AIRFLOW_VAR_LAKE": str(self.lake),
        }


def _make_dags_folder(demo: Demo, dag_id: str) -> Path:
    """Make a folder with the file of one DAG, and return it.

    `DAG.test` parses all files of Airflow's DAG folder for each run, so each process gets a separate folder.
    """
    folder = demo.home / "dags" / dag_id
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(CHECKOUT / "example_dags" / f"{dag_id}.py", folder / f"{dag_id}.py")
    return folder


class DagRuns:
    """A process that runs one DAG for one day after another. It ends at the end of the block, or with this program."""

    def __init__(self, demo: Demo, dag_id: str) -> None:
        self.dag_id = dag_id
        self._log = demo.logs / f"{dag_id}.log"
        self._process = subprocess.Popen(
            [sys.executable, str(CHECKOUT / "demo" / "dag_runs.py"), dag_id, str(demo.logs)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=demo.environment() | {"AIRFLOW__CORE__DAGS_FOLDER": str(_make_dags_folder(demo, dag_id))},
            cwd=demo.home,  # Spark writes its own files there
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

    def start(self, logical_date: date) -> None:
        """Start the run of a day, or of a time in UTC."""
        if self._process.stdin is None or self._process.poll() is not None:
            raise DemoError(
                f"Could not start {self.dag_id} for {logical_date}: its process has ended.\n{_tail(self._log)}"
            )
        self._process.stdin.write(f"{logical_date.isoformat()}\n")
        self._process.stdin.flush()

    def has_ended(self, within_seconds: float) -> bool:
        """Wait up to this many seconds. Return whether the run has reported its end."""
        return bool(select.select([self._process.stdout], [], [], within_seconds)[0])

    def result(self) -> dict[str, Any]:
        """Wait for the end of the run, and return the return values of its tasks by task id."""
        return_values: dict[str, Any] = self.outcome()["returned"]
        return return_values

    def outcome(self) -> dict[str, Any]:
        """Wait for the end of the run. Return the return values and the seconds of its tasks by task id."""
        line = self._process.stdout.readline() if self._process.stdout is not None else ""
        if not line:
            raise DemoError(f"The process of {self.dag_id} ended unexpectedly.\n{_tail(self._log)}")
        outcome: dict[str, Any] = json.loads(line)
        if not outcome["succeeded"]:
            raise DemoError(
                f"The run {outcome['run_id']} of {self.dag_id} failed: {outcome['failure']}\nIts log: {outcome['log']}"
            )
        return outcome


def _tail(log: Path) -> str:
    """Return the path of a log and its last lines, for an error message."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n".join([f"Its log: {log}", *lines[-_SHOWN_LOG_LINES:]])


def prepare(demo: Demo) -> None:
    """Create Airflow's database, or migrate it to the installed version, and write the feed."""
    installed_version = importlib.metadata.version("apache-airflow-core")
    version_file = demo.home / ".migrated"
    if not (demo.database.exists() and version_file.exists() and version_file.read_text() == installed_version):
        log = demo.logs / "migrate.log"
        with log.open("w") as file, demo.console.status("Airflow creates its database"):
            command = [sys.executable, "-m", "airflow", "db", "migrate"]
            migration = subprocess.run(
                command, env=demo.environment(), cwd=demo.home, stdout=file, stderr=file, check=False
            )
        if migration.returncode != 0:
            raise DemoError(f"Airflow could not create its database in {demo.home}.\n{_tail(log)}")
        version_file.write_text(installed_version)
        demo.print_step("airflow", f"created or migrated the database {demo.database}")
    for day in demo.days:
        for path in (write_feed(demo.landing, day, orders=demo.orders_a_day), write_customers(demo.landing, day)):
            demo.print_step(f"{day} feed", f"{path} ({path.stat().st_size / 1e6:.1f} MB)")


def run_day(demo: Demo, day: date, runs: AllDagRuns, *, starts_shop: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run the two DAGs for a day. Return the return values of `load` and `summarize`.

    While the report waits, the function waits for the archive of classes. With `starts_shop`, it then triggers
    `shop_lake`. The report runs first, because the first DAG run makes rows of Airflow's database that all others need.
    """
    with demo.console.status(f"{day}: starting the report"):
        runs.report.start(day)
        is_waiting = _wait_for_deferral(demo, runs.report)
    waiting_since = time.monotonic()
    if is_waiting:
        demo.print_step(f"{day} orders_report", "its sensor is deferred: the day's ingest has not committed yet")
    if runs.warm_up.is_running:
        with demo.console.status("deltalite warm-up makes an archive of Spark's classes"):
            outcome = runs.warm_up.wait()
        demo.print_step("deltalite warm-up", outcome)
    if starts_shop:
        start_shop(runs.shop)
    with demo.console.status(f"{day}: Spark loads the orders"):
        runs.ingest.start(day)
        load = runs.ingest.result()["load"]
    rows, size = load["metrics"]["numOutputRows"], load["metrics"]["numOutputBytes"]
    if load["skipped"]:
        result = f"[yellow]skipped[/]: this run committed version {load['version']} before, so it wrote nothing"
    else:
        result = f"[green]committed version {load['version']}[/]: {rows:,} rows, {size:,} bytes"
    demo.print_step(f"{day} orders_ingest", result)
    with demo.console.status(f"{day}: the report reads the table"):
        return_values = runs.report.result()
    version = return_values["wait"]["version"]
    delay = f"after {time.monotonic() - waiting_since:.0f} s" if is_waiting else "at once"
    demo.print_step(f"{day} orders_report", f"its sensor found version {version} {delay}; the report read that version")
    return load, return_values["summarize"]


def _wait_for_deferral(demo: Demo, report: DagRuns) -> bool:
    """Wait until the sensor of the new run is deferred.

    Return False if the run has ended, for example because the sensor's first poll found the version.
    """
    started_at = datetime.now(UTC)
    while not report.has_ended(_POLL_SECONDS):
        if _is_deferred(demo.database, started_at):
            return True
    return False


def _is_deferred(database: Path, since: datetime) -> bool:
    """Whether the sensor is deferred. Airflow stores the method that resumes a deferred task.

    The task's state does not show the deferral: `DAG.test` runs the trigger itself and sets the state to queued.
    """
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=60)) as connection:
        row = connection.execute(
            "SELECT count(*) FROM task_instance WHERE dag_id = 'orders_report' AND task_id = 'wait' "
            "AND next_method IS NOT NULL AND start_date >= ?",
            (f"{since:%Y-%m-%d %H:%M:%S}",),
        ).fetchone()
    return bool(row[0])


def run_days(demo: Demo, runs: AllDagRuns, *, starts_shop: bool) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Run the DAGs for all days. Return the return values of `load` and `summarize`, each by day."""
    loads, reports = [], []
    for day in demo.days:
        load, summary = run_day(demo, day, runs, starts_shop=starts_shop and day == demo.days[0])
        loads.append(load)
        reports.append(summary)
    return loads, reports


def start_shop(shop: DagRuns) -> None:
    """Trigger `shop_lake`."""
    # A run starts a day after its logical date, so this run starts now.
    shop.start(datetime.now(UTC).replace(microsecond=0) - timedelta(days=1))


def finish_shop(demo: Demo, shop: DagRuns) -> dict[str, Any]:
    """Wait for `shop_lake`, and print what each task did. Return the return values of the tasks by task id."""
    with demo.console.status("shop_lake starts") as status:
        while not shop.has_ended(_POLL_SECONDS):
            status.update(f"shop_lake: Spark runs {_running_task(demo.database, 'shop_lake')}")
        outcome = shop.outcome()
    return_values: dict[str, Any] = outcome["returned"]
    for task_id in TASK_IDS:
        result = describe_task(task_id, return_values[task_id])
        demo.print_step(f"shop_lake {task_id}", f"{result} [dim]({outcome['seconds'][task_id]:.0f} s)[/]")
    return return_values


def _running_task(database: Path, dag_id: str) -> str:
    """Return the id of the running task of a DAG, or the next task."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=60)) as connection:
        row = connection.execute(
            "SELECT task_id FROM task_instance WHERE dag_id = ? AND state = 'running'", (dag_id,)
        ).fetchone()
    return row[0] if row else "the next task"


@contextmanager
def run_cluster(demo: Demo, name: str) -> Iterator[StandaloneCluster | None]:
    """Run the cluster with this name in the block, and let Spark use it. The name `local` runs none."""
    if name == "local":
        yield None
        return
    folder = demo.home / "standalone"
    with ExitStack() as stack:
        with demo.console.status("A Spark master and two workers start"):
            try:
                cluster = stack.enter_context(standalone_cluster(folder))
            except AssertionError as error:
                raise DemoError(f"The cluster did not start. Its logs: {folder / 'logs'}\n{error}") from error
        demo.spark_master = cluster.master
        demo.print_step("spark", f"a master and two workers run: {cluster.master}, web page {cluster.page}")
        yield cluster


@dataclass(frozen=True)
class AllDagRuns:
    """The processes of the three DAGs, and the process that makes the archive of classes."""

    report: DagRuns
    ingest: DagRuns
    shop: DagRuns
    warm_up: WarmUp


@contextmanager
def all_dag_runs(demo: Demo) -> Iterator[AllDagRuns]:
    """Start the processes, and end them after the block."""
    with (
        WarmUp(demo.environment(), demo.home, demo.logs / "warm-up.log") as warm_up,
        DagRuns(demo, "orders_report") as report,
        DagRuns(demo, "orders_ingest") as ingest,
        DagRuns(demo, "shop_lake") as shop,
    ):
        yield AllDagRuns(report=report, ingest=ingest, shop=shop, warm_up=warm_up)


def run_dags(demo: Demo, cluster_name: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, Any]]:
    """Run all DAGs. Return the results of `run_days` and `finish_shop`."""
    with run_cluster(demo, cluster_name) as cluster, all_dag_runs(demo) as runs:
        prepare(demo)
        loads, reports = run_days(demo, runs, starts_shop=cluster is None)
        if cluster is not None:
            start_shop(runs.shop)
        shop_results = finish_shop(demo, runs.shop)
        if cluster is not None:
            show_applications(demo.console, cluster.finished_applications())
    return loads, reports, shop_results


def run(demo: Demo, cluster_name: str) -> None:
    """Run all steps of the demonstration."""
    airflow_version, spark_version = (importlib.metadata.version(name) for name in ("apache-airflow-core", "pyspark"))
    demo.console.print(
        f"[bold]Delta Lake as Airflow tasks[/]: Airflow {airflow_version}, Spark {spark_version}, "
        f"all files in {demo.home}\n"
    )
    demo.logs.mkdir(parents=True, exist_ok=True)
    loads, reports, shop_results = run_dags(demo, cluster_name)
    show_table(demo.console, demo.lake / "orders")
    show_reports(demo.console, reports)
    show_shop(demo.console, demo.lake / "shop", shop_results)
    skipped = sum(load["skipped"] for load in loads)
    if skipped == len(loads):
        conclusion = (
            f"All {skipped} runs of orders_ingest were skipped: they had committed before. Nothing was written."
        )
    else:
        conclusion = f"{len(loads) - skipped} of {len(loads)} runs of orders_ingest have committed. "
        conclusion += "Run the demonstration again: it skips the same runs and writes nothing twice."
    if changes_tables(shop_results):
        conclusion += "\nshop_lake has loaded the new files. Another trigger without new files loads nothing."
    else:
        conclusion += "\nshop_lake found nothing new, and loaded nothing."
    demo.console.print(f"\n[bold]{conclusion}[/]")
    demo.console.print(f"{time.monotonic() - demo.start_seconds:.0f} s. The logs of all runs: {demo.logs}")
    demo.console.print(f"'make demo-ui' shows the tables in Airflow: http://127.0.0.1:{UI_PORT}{UI_PAGE}")


def main() -> int:
    """Run the program, and return the exit code."""
    parser = argparse.ArgumentParser(description="Run example DAGs on a real Airflow and show their tables.")
    parser.add_argument("--home", type=Path, default=CHECKOUT / ".airflow", help="the folder for all files")
    parser.add_argument("--orders", type=int, default=ORDERS_A_DAY, help="the number of orders a day")
    max_days = len(DAYS)
    parser.add_argument("--days", type=int, choices=range(1, max_days + 1), default=max_days, help="the number of days")
    parser.add_argument("--cluster", choices=("local", "standalone"), default="local", help="where the Spark jobs run")
    arguments = parser.parse_args()
    demo = Demo(arguments.home.resolve(), arguments.orders, arguments.days)
    try:
        run(demo, arguments.cluster)
    except (DemoError, DeltaLiteError, OSError) as error:
        print(f"\nThe demonstration failed. {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

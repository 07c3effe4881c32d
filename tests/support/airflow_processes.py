"""A whole Airflow for tests: scheduler, dag-processor, triggerer and api-server as the processes that a user starts.

One folder holds the DAG files, and the logs of processes and tasks. If the caller names no database, the folder also
holds an SQLite file, which suits one process at a time only. The executor is `LocalExecutor`: tasks are real processes
too, and a test may kill them. All requests go through the REST API. By default, every user of this API is an admin.
This module does not read the database. A wait ends early if a process of Airflow has died; the error shows the last log
lines of the processes. The context manager ends every process that it started, by pid.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
import textwrap
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

import psutil

from airflow_provider_deltalite.clusters.processes import kill, process_tree
from tests.support.ports import free_ports
from tests.support.process_trees import TaskProcesses, stop

T = TypeVar("T")

COMPONENTS = ("api-server", "scheduler", "dag-processor", "triggerer")
FINAL_STATES = ("success", "failed", "skipped", "upstream_failed", "removed")
# Variables with these prefixes are not inherited: they would change the Airflow under test.
_REMOVED_PREFIXES = ("AIRFLOW_", "_AIRFLOW_", "SPARK_HOME", "PYTHONPATH")
_ANSI_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


class AirflowTestError(Exception):
    """A wait timed out, a process died, a command failed, or Airflow refused a request."""


class WholeAirflow:
    """A running Airflow. Timeouts are in seconds. `variables` is added to the environment of every process.

    `login` has the `username` and `password` of an admin, for an Airflow in which not every user is an admin. `port` is
    the port of the UI and the API; without it, any free port is used.
    """

    def __init__(
        self,
        home: Path,
        *,
        database: str | None = None,
        variables: Mapping[str, str] | None = None,
        login: Mapping[str, str] | None = None,
        port: int | None = None,
    ) -> None:
        self._login = login
        self.home = home
        self.dags = home / "dags"
        self.logs = home / "logs"
        self.process_logs = home / "processes"
        free_port, worker_logs, trigger_logs = free_ports(3)
        self.port = free_port if port is None else port
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(_REMOVED_PREFIXES)}
        secret = secrets.token_hex(32)
        self.environment = {
            **inherited,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__API__BASE_URL": f"http://127.0.0.1:{self.port}",
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": str(self.port),
            "AIRFLOW__API__SECRET_KEY": secret,
            "AIRFLOW__API_AUTH__JWT_SECRET": secret,
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.dags),
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{self.port}/execution/",
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__CORE__FERNET_KEY": urlsafe_b64encode(secrets.token_bytes(32)).decode(),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__PARALLELISM": "4",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "AIRFLOW__DELTALITE__COMMIT_LINK": "https://files.example/{key}",
            "AIRFLOW__DELTALITE__UI_ENABLED": "True",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database or f"sqlite:///{home / 'airflow.db'}",
            # Airflow parses a changed file at once, and an unchanged file only once an hour.
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
            "AIRFLOW__DAG_PROCESSOR__BUNDLE_REFRESH_CHECK_INTERVAL": "1",
            "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "1",
            "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "1",
            "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(self.logs),
            "AIRFLOW__LOGGING__COLORED_CONSOLE_LOG": "False",
            "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(trigger_logs),
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(worker_logs),
            "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "1",
            "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",
            # The scheduler fails a task without a heartbeat after this time, such as a task with a killed worker.
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "20",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "2",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
            **(variables or {}),
        }
        self._processes: dict[str, psutil.Popen] = {}
        self._token: str | None = None

    def __enter__(self) -> Self:
        for folder in (self.dags, self.logs, self.process_logs):
            folder.mkdir(parents=True, exist_ok=True)
        try:
            self.cli("db", "migrate", timeout=240)
            for component in COMPONENTS:
                self.start(component)
            self.until("Airflow is healthy", self._is_healthy, timeout=180)
        except BaseException:
            self._kill_all()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._kill_all()

    # --- processes ---

    def start(self, component: str) -> int:
        """Start one of `COMPONENTS`; returns its pid."""
        with (self.process_logs / f"{component}.log").open("ab") as log:
            self._processes[component] = psutil.Popen(
                [sys.executable, "-m", "airflow", component],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment,
                cwd=self.home,  # Spark leaves its files in the working directory
                start_new_session=True,
            )
        return self._processes[component].pid

    def stop(self, component: str) -> None:
        """Stop a component and its descendants: SIGTERM, and SIGKILL after ten seconds."""
        stop([self._processes.pop(component)])

    def kill(self, component: str) -> None:
        """Send SIGKILL to a component and its descendants."""
        root = self._processes.pop(component)
        kill(process_tree(root.pid))
        root.wait()

    def process(self, component: str) -> psutil.Process:
        """The main process of a component. Its child processes do the work."""
        return self._processes[component]

    def processes_of_task(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> TaskProcesses:
        """Wait until a task instance runs; returns its processes."""

        def running_processes() -> TaskProcesses | None:
            instance = self.task(dag_id, run_id, task_id, map_index)
            if instance["state"] != "running" or not instance["pid"]:
                return None
            with suppress(psutil.NoSuchProcess):
                runner = psutil.Process(instance["pid"])
                return TaskProcesses(supervisor=runner.parent(), runner=runner)
            return None

        return self.until(f"{dag_id}.{task_id} has a process", running_processes)

    def cli(self, *arguments: str, timeout: float = 120) -> str:
        """Run the command `airflow`; returns its standard output. Raises `AirflowTestError` if it fails."""
        completed = subprocess.run(
            [sys.executable, "-m", "airflow", *arguments],
            env=self.environment,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if completed.returncode != 0:
            output = f"{completed.stdout[-3000:]}\n{completed.stderr[-3000:]}"
            raise AirflowTestError(f"airflow {' '.join(arguments)}: {output}")
        return completed.stdout

    # --- DAGs ---

    def add_dag(self, dag_id: str, source: str | Path, *, paused: bool = False) -> None:
        """Write a DAG file from a text or from another file, and wait until Airflow has parsed it.

        Then unpause the DAG, or pause it if `paused` is true.
        """
        text = source.read_text() if isinstance(source, Path) else textwrap.dedent(source)
        self._write_dag_file(dag_id, text)
        self.pause(dag_id, paused=paused)

    def parse_again(self, dag_id: str) -> None:
        """Write a DAG file again, and wait until Airflow has parsed it.

        Airflow starts the asset watchers of a DAG when it parses the file, but only if the DAG is not paused.
        """
        self._write_dag_file(dag_id, (self.dags / f"{dag_id}.py").read_text())

    def pause(self, dag_id: str, *, paused: bool = True) -> None:
        """Pause a DAG, or unpause it if `paused` is false."""
        self.ask("PATCH", f"dags/{dag_id}", {"is_paused": paused})

    # --- runs ---

    def trigger(self, dag_id: str, *, run_id: str | None = None, logical_date: datetime | None = None, **conf) -> str:
        """Start a manual run with `conf`; returns its id."""
        body = {"logical_date": None if logical_date is None else logical_date.isoformat(), "conf": conf}
        if run_id is not None:
            body["dag_run_id"] = run_id
        return self.ask("POST", f"dags/{dag_id}/dagRuns", body)["dag_run_id"]

    def run(self, dag_id: str, *, timeout: float = 120, **options: Any) -> str:
        """Start a manual run and wait until it has succeeded; returns its id."""
        run_id = self.trigger(dag_id, **options)
        self.wait_for_run(dag_id, run_id, timeout=timeout)
        return run_id

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        """All runs of a DAG, oldest first, as the REST API shows them."""
        return self.ask("GET", f"dags/{dag_id}/dagRuns", order_by="id")["dag_runs"]

    def wait_for_run(self, dag_id: str, run_id: str, *, state: str = "success", timeout: float = 120) -> dict[str, Any]:
        """Wait until a run has ended; returns it. Raises `AirflowTestError` if its final state is not `state`."""
        endpoint = f"dags/{dag_id}/dagRuns/{quote(run_id, safe='')}"

        def ended_run() -> dict[str, Any] | None:
            run = self.ask("GET", endpoint)
            return run if run["state"] in FINAL_STATES else None

        run = self.until(f"{dag_id} {run_id} has ended", ended_run, timeout=timeout)
        if run["state"] != state:
            logs = "\n".join(self.task_log(dag_id, run_id, task["task_id"]) for task in self.tasks(dag_id, run_id))
            raise AirflowTestError(f"{dag_id} {run_id} is {run['state']}, not {state}.\n{logs[-8000:]}")
        return run

    def wait_for_runs(self, dag_id: str, count: int, *, timeout: float = 120) -> list[dict[str, Any]]:
        """Wait until a DAG has at least `count` runs of any kind; returns them."""
        enough_runs = lambda: runs if len(runs := self.runs(dag_id)) >= count else None
        return self.until(f"{dag_id} has {count} runs", enough_runs, timeout=timeout)

    def clear(self, dag_id: str, run_id: str, *task_ids: str, only_failed: bool = False) -> None:
        """Clear the named tasks of a run, or all tasks if none is named. The scheduler then continues the run.

        With `only_failed`, the tasks that have not failed stay as they are.
        """
        body = {"dry_run": False, "dag_run_id": run_id, "only_failed": only_failed, "reset_dag_runs": True}
        if task_ids:
            body["task_ids"] = list(task_ids)
        self.ask("POST", f"dags/{dag_id}/clearTaskInstances", body)

    def backfill(self, dag_id: str, first: datetime, last: datetime, *, timeout: float = 240, **options: Any) -> None:
        """Backfill a DAG for the logical dates from `first` to `last`, both inclusive, and wait until it has ended.

        `options` are fields of the request to the REST API.
        """
        body = {"dag_id": dag_id, "from_date": first.isoformat(), "to_date": last.isoformat(), **options}
        backfill_id = self.ask("POST", "backfills", body)["id"]
        completed_at = lambda: self.ask("GET", f"backfills/{backfill_id}")["completed_at"]
        self.until(f"the backfill of {dag_id} has ended", completed_at, timeout=timeout)

    # --- tasks ---

    def tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """The task instances of a run, as the REST API shows them."""
        return self.ask("GET", f"dags/{dag_id}/dagRuns/{quote(run_id, safe='')}/taskInstances")["task_instances"]

    def task(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> dict[str, Any]:
        """One task instance, as the REST API shows it. Its `state` is None if it does not exist yet."""
        instances = [t for t in self.tasks(dag_id, run_id) if (t["task_id"], t["map_index"]) == (task_id, map_index)]
        return instances[0] if instances else {"state": None, "pid": None, "try_number": 0}

    def wait_for_task(
        self, dag_id: str, run_id: str, task_id: str, *states: str, map_index: int = -1, timeout: float = 120
    ) -> dict[str, Any]:
        """Wait until a task instance is in one of these states; returns it."""

        def instance_in_state() -> dict[str, Any] | None:
            instance = self.task(dag_id, run_id, task_id, map_index)
            return instance if instance["state"] in states else None

        return self.until(f"{dag_id}.{task_id} is {' or '.join(states)}", instance_in_state, timeout=timeout)

    def wait_for_executor_event(self, dag_id: str, run_id: str, task_id: str) -> None:
        """Wait until the scheduler has received the executor's event that a process of a task has ended.

        The scheduler fails a task that is queued again before this event. This can happen if the task was deferred for
        a very short time.
        """
        key = f"TaskInstanceKey(dag_id='{dag_id}', task_id='{task_id}', run_id='{run_id}'"

        def event_is_logged() -> bool:
            lines = (self.process_logs / "scheduler.log").read_text(errors="replace").splitlines()
            return any("Received executor event" in line and key in line for line in lines)

        self.until(f"the scheduler has an executor event for {dag_id}.{task_id}", event_is_logged)

    def xcom(self, dag_id: str, run_id: str, task_id: str, *, key: str = "return_value", map_index: int = -1) -> Any:
        """The value of an XCom of a task. Raises `AirflowTestError` if it is missing."""
        endpoint = f"dags/{dag_id}/dagRuns/{quote(run_id, safe='')}/taskInstances/{task_id}/xcomEntries/{key}"
        return self.ask("GET", endpoint, map_index=map_index, deserialize="true", stringify="false")["value"]

    def task_log(self, dag_id: str, run_id: str, task_id: str, *, map_index: int = -1) -> str:
        """The text of the logs of all attempts of a task. Each line is one log event."""
        folder = self.logs / f"dag_id={dag_id}" / f"run_id={run_id}" / f"task_id={task_id}"
        if map_index >= 0:
            folder /= f"map_index={map_index}"
        return "".join(file.read_text(errors="replace") for file in sorted(folder.glob("attempt=*.log*")))

    # --- waiting and asking ---

    def until(self, event: str, condition: Callable[[], T], *, timeout: float = 60) -> T:
        """Call `condition` until its value is true; returns this value.

        Raises `AirflowTestError`, which names the `event`, after the timeout or if a process of Airflow has died.
        """
        deadline = time.monotonic() + timeout
        while not (value := condition()):
            dead_components = [name for name, process in self._processes.items() if process.poll() is not None]
            if dead_components or time.monotonic() > deadline:
                reason = f"{', '.join(dead_components)} died" if dead_components else f"timed out after {timeout} s"
                raise AirflowTestError(f"Waiting until {event}: {reason}.\n{self.last_log_lines()}")
            time.sleep(0.2)
        return value

    def ask(self, method: str, endpoint: str, body: Mapping[str, Any] | None = None, **query: Any) -> dict[str, Any]:
        """Send a request to an endpoint below `/api/v2/` of the REST API; returns the answer.

        Raises `AirflowTestError` if Airflow answers with an error.
        """
        path = f"api/v2/{endpoint}" + (f"?{urlencode(query)}" if query else "")
        return json.loads(self._send(method, path, body) or b"{}")

    def page(self, path: str) -> str:
        """Return a page of the API server, as HTML.

        Raises `AirflowTestError` if Airflow answers with an error.
        """
        return self._send("GET", path).decode()

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> bytes:
        url = f"http://127.0.0.1:{self.port}/{path}"
        headers = {"Authorization": f"Bearer {self._access_token()}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        try:
            with urlopen(Request(url, data, headers, method=method), timeout=60) as answer:
                return answer.read()
        except HTTPError as error:
            with error:
                error_text = error.read().decode(errors="replace")
            raise AirflowTestError(f"{method} {url}: {error.code} {error_text[:2000]}") from error

    def last_log_lines(self, lines: int = 25) -> str:
        """The last log lines of every process."""
        sections = []
        for log in sorted(self.process_logs.glob("*.log")):
            last_lines = _ANSI_ESCAPE.sub("", log.read_text(errors="replace")).splitlines()[-lines:]
            sections.append("\n".join([f"--- {log.stem} ---", *last_lines]))
        return "\n".join(sections)

    def _access_token(self) -> str:
        if self._token is None:
            data = None if self._login is None else json.dumps(self._login).encode()
            headers = {} if data is None else {"Content-Type": "application/json"}
            with urlopen(Request(f"http://127.0.0.1:{self.port}/auth/token", data, headers), timeout=60) as answer:
                self._token = json.loads(answer.read())["access_token"]
        return self._token

    def _is_healthy(self) -> bool:
        try:
            health = self.ask("GET", "monitor/health")
        except (AirflowTestError, URLError, ConnectionError, TimeoutError):
            return False
        return all(part["status"] == "healthy" for part in health.values() if part is not None)

    def _write_dag_file(self, dag_id: str, text: str) -> None:
        """Write a DAG file in one step, and wait until Airflow has parsed it."""
        previous_time = self._last_parsed_time(dag_id)
        temporary_file = self.home / f"{dag_id}.py.new"
        temporary_file.write_text(text)
        temporary_file.replace(self.dags / f"{dag_id}.py")
        self.until(f"{dag_id} is parsed", lambda: self._last_parsed_time(dag_id) != previous_time, timeout=90)

    def _last_parsed_time(self, dag_id: str) -> str | None:
        """The time at which Airflow last parsed a DAG, or None if it does not know the DAG.

        Raises `AirflowTestError` if Airflow cannot import the file.
        """
        errors = self.ask("GET", "importErrors")["import_errors"]
        stack_traces = [error["stack_trace"] for error in errors if error["filename"].endswith(f"{dag_id}.py")]
        if stack_traces:
            raise AirflowTestError(f"{dag_id}.py cannot be imported.\n{stack_traces[0]}")
        with suppress(AirflowTestError):
            return self.ask("GET", f"dags/{dag_id}")["last_parsed_time"]
        return None

    def _kill_all(self) -> None:
        stop(list(self._processes.values()))
        self._processes.clear()


def midnight(day: str) -> datetime:
    """Midnight UTC of a day such as `2026-03-01`."""
    return datetime.fromisoformat(day).replace(tzinfo=UTC)

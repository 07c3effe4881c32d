"""A process with Airflow that runs one example DAG for each requested day, and reports the result of each run.

The process reads the logical dates of the runs, which are days or times, from standard input. It answers each with one
line of JSON on standard output. All other output of Airflow, the tasks and Spark goes to one log file for each run.
`DAG.test` runs the tasks in this process, without a scheduler. It also runs the trigger of a deferred task. The
metadata database is real.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from datetime import UTC, datetime, time, timedelta
from functools import cache
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any, TextIO


def main(dag_id: str, logs: Path) -> None:
    """Run the DAG for each day or time on standard input. When standard input ends, a thread kills the process."""
    logical_dates: Queue[datetime] = Queue()
    Thread(target=_read_logical_dates, args=(os.fdopen(os.dup(0)), logical_dates), daemon=True).start()
    answers = os.fdopen(os.dup(1), "w")
    # Without this, programs that the tasks start would inherit standard input and read the days.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    _redirect_output_to(logs / f"{dag_id}.log")
    dag = _load_dag(dag_id)
    _start_api_server()
    while True:
        logical_date = logical_dates.get()
        is_day = logical_date.time() == time()
        log = logs / f"{dag_id}-{logical_date:{'%Y-%m-%d' if is_day else '%Y-%m-%dT%H-%M-%S'}}.log"
        _redirect_output_to(log)
        print(json.dumps({**_run_dag(dag, logical_date), "log": str(log)}), file=answers, flush=True)


def _read_logical_dates(lines: TextIO, logical_dates: Queue[datetime]) -> None:
    """Put the logical dates into the queue, and kill the process group at the end of the input.

    At the end of the input, the demonstration has ended, but a spark-submit may still run in the group.
    """
    for line in lines:
        logical_dates.put(datetime.fromisoformat(line.strip()).replace(tzinfo=UTC))
    os.killpg(0, signal.SIGKILL)


def _redirect_output_to(log: Path) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        os.dup2(descriptor, stream.fileno())
    os.close(descriptor)


def _load_dag(dag_id: str) -> Any:
    """Load the DAG from Airflow's DAG folder."""
    from airflow.configuration import conf
    from airflow.dag_processing.dagbag import DagBag

    file = Path(conf.get_mandatory_value("core", "dags_folder")) / f"{dag_id}.py"
    bag = DagBag(file)
    if bag.import_errors:
        raise SystemExit("\n".join(bag.import_errors.values()))
    dag = bag.dags[dag_id]
    for task in dag.tasks:
        # All servers of the demonstration's cluster run on this machine, so they share its folders.
        if hasattr(task, "shared_folder"):
            task.shared_folder = True
    return dag


def _start_api_server() -> None:
    """Start the API server of all tasks. Without this, `DAG.test` starts one for each task, which takes seconds."""
    from airflow.sdk.execution_time import supervisor

    supervisor.in_process_api_server = cache(supervisor.in_process_api_server)
    _ = supervisor.in_process_api_server().transport  # the property starts the server


def _run_dag(dag: Any, logical_date: datetime) -> dict[str, Any]:
    """Run the DAG. Return its success, the return value and the seconds of each task, and the first error, if any."""
    failures: list[str] = []
    for task in dag.tasks:
        task.on_failure_callback = [lambda context: failures.append(str(context["exception"]))]
    # The run of a day starts when the day is over, as with the scheduler. The id of the run contains this start time,
    # so the run of a day always has the same id.
    run = dag.test(logical_date=logical_date, run_after=logical_date + timedelta(days=1))
    tasks = {ti.task_id: ti for ti in run.get_task_instances()}
    return {
        "run_id": run.run_id,
        "succeeded": run.state == "success",
        "failure": failures[0] if failures else None,
        "returned": {task_id: ti.xcom_pull(task_ids=task_id) for task_id, ti in tasks.items()},
        "seconds": {task_id: ti.duration or 0.0 for task_id, ti in tasks.items()},
    }


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

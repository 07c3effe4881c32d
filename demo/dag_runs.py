"""A process with Airflow in it: runs one example DAG for each day that it is told, and says how each run ended.

It reads days from its standard input and answers each with one line of JSON on its standard output. Everything else
that is said here, by Airflow, by the tasks and by Spark, goes to one log file for each run. `DAG.test` runs the tasks
in this process, without a scheduler, and a deferred task's trigger too; the metadata database is as real as any.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any, TextIO


def main(dag_id: str, logs: Path) -> None:
    """Run the DAG for each day on standard input; ends with it, by force."""
    days: Queue[date] = Queue()
    Thread(target=_read_days, args=(os.fdopen(os.dup(0)), days), daemon=True).start()
    answers = os.fdopen(os.dup(1), "w")
    # The programs that tasks start inherit standard input; what is said there is not for them.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    _write_output_to(logs / f"{dag_id}.log")
    dag = _load(dag_id)
    while True:
        day = days.get()
        log = logs / f"{dag_id}-{day}.log"
        _write_output_to(log)
        print(json.dumps({**_run(dag, day), "log": str(log)}), file=answers, flush=True)


def _read_days(lines: TextIO, days: Queue[date]) -> None:
    """Hand on the days until there are no more: then whoever asked has ended, and nothing may be left running.

    This process leads a group, in which a spark-submit may be.
    """
    for line in lines:
        days.put(date.fromisoformat(line.strip()))
    os.killpg(0, signal.SIGKILL)


def _write_output_to(log: Path) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for standard in (sys.stdout, sys.stderr):
        standard.flush()
        os.dup2(descriptor, standard.fileno())
    os.close(descriptor)


def _load(dag_id: str) -> Any:
    """The DAG, from the folder that Airflow is configured with."""
    from airflow.configuration import conf
    from airflow.dag_processing.dagbag import DagBag
    from airflow.sdk.execution_time import supervisor

    # The API server that serves the tasks of `DAG.test` takes seconds to make, and is made for each task otherwise.
    supervisor.in_process_api_server = cache(supervisor.in_process_api_server)
    file = Path(conf.get_mandatory_value("core", "dags_folder")) / f"{dag_id}.py"
    bag = DagBag(file)
    if bag.import_errors:
        raise SystemExit("\n".join(bag.import_errors.values()))
    return bag.dags[dag_id]


def _run(dag: Any, day: date) -> dict[str, Any]:
    """One DAG run: its state, what each task returned, and why the first one failed, if one did."""
    failures: list[str] = []
    for task in dag.tasks:
        task.on_failure_callback = [lambda context: failures.append(str(context["exception"]))]
    midnight = datetime.combine(day, time(tzinfo=UTC))
    # As the scheduler would: the run of a day starts when it is over. The run's id is made of this moment, so the run
    # of a day has the same id whenever it runs.
    run = dag.test(logical_date=midnight, run_after=midnight + timedelta(days=1))
    tasks = {ti.task_id: ti for ti in run.get_task_instances()}
    return {
        "run_id": run.run_id,
        "succeeded": run.state == "success",
        "failure": failures[0] if failures else None,
        "returned": {task_id: ti.xcom_pull(task_ids=task_id) for task_id, ti in tasks.items()},
    }


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

"""A user stops a task: the driver can clean up, and no process of the task remains."""

from __future__ import annotations

import json
from contextlib import suppress

import psutil

from airflow_provider_deltalite.hooks import _driver
from airflow_provider_deltalite.operators.delta import DeltaWriteOperator
from tests.support.background_tasks import BackgroundTask
from tests.support.waiting import wait_until

# A parent process starts the driver and returns the driver's exit code. The parent process of spark-submit is a JVM.
START_DRIVER = """
import subprocess
driver = subprocess.Popen([sys.executable, "-c", {driver!r}])
with open({pids!r}, "w") as file:
    file.write(f"{{os.getpid()}} {{driver.pid}}")
sys.exit(driver.wait() % 256)
"""
DRIVER_THAT_CLEANS_UP = """
import signal, sys, time
def end(*_):
    open({cleaned!r}, "w").close()
    sys.exit(143)
signal.signal(signal.SIGTERM, end)
open({ready!r}, "w").close()
time.sleep(600)
"""
DRIVER_THAT_HANGS = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open({ready!r}, "w").close()
time.sleep(600)
"""


def run_and_kill(table, spark_submit, context, tmp_path, driver):
    """Run a task with this driver, and kill the task when the driver is ready.

    Returns the processes that remain after ten seconds, and the task's errors.
    """
    paths = {name: str(tmp_path / name) for name in ("cleaned", "ready", "pids")}
    spark_submit.set_script(START_DRIVER.format(driver=driver.format(**paths), pids=paths["pids"]))
    task = DeltaWriteOperator(task_id="load", table=str(table), source={"format": "csv", "path": "/in"})
    with BackgroundTask(lambda: task.execute(context)) as background:
        wait_until(lambda: (tmp_path / "ready").exists() and (tmp_path / "pids").exists())
        processes = [psutil.Process(int(pid)) for pid in (tmp_path / "pids").read_text().split()]
        try:
            task.on_kill()
            background.wait(30)
            _, survivors = psutil.wait_procs(processes, timeout=10)
        finally:
            for process in processes:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
    return survivors, background.errors


def test_the_driver_gets_sigterm_and_cleans_up(table, spark_submit, context, tmp_path):
    survivors, task_errors = run_and_kill(table, spark_submit, context, tmp_path, DRIVER_THAT_CLEANS_UP)
    assert (tmp_path / "cleaned").exists()
    assert survivors == []
    assert "The job was terminated from outside (SIGTERM)." in str(task_errors[0])


def test_a_driver_that_ignores_sigterm_is_killed_with_its_parent_process(
    table, spark_submit, context, tmp_path, monkeypatch
):
    monkeypatch.setattr(_driver, "_GRACE_SECONDS", 0.3)
    survivors, task_errors = run_and_kill(table, spark_submit, context, tmp_path, DRIVER_THAT_HANGS)
    assert survivors == []
    assert len(task_errors) == 1


def test_a_kill_after_the_commit_keeps_it_and_a_retry_finds_it(table, spark_submit, context, tmp_path):
    table.create()
    commit_file = table.root / "_delta_log" / f"{1:020}.json"
    app_id = f"airflow/sales/load/-1/{context['ti'].run_id}"
    txn_json = json.dumps(table.txn(app_id)).replace("{", "{{").replace("}", "}}")
    commit_code = f"with open({str(commit_file)!r}, 'w') as file:\n    file.write({txn_json!r})\n"
    survivors, task_errors = run_and_kill(table, spark_submit, context, tmp_path, commit_code + DRIVER_THAT_CLEANS_UP)
    assert (survivors, task_errors) == ([], []), "a kill after the commit must raise no error"
    retry = DeltaWriteOperator(task_id="load", table=str(table), source={"format": "csv", "path": "/in"})
    spark_submit.call_file.unlink()
    result = retry.execute(context)
    assert (result["version"], result["skipped"]) == (1, True)
    assert not spark_submit.was_called

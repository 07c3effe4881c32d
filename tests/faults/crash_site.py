"""Run programs that are killed at a chosen step: each trial is a separate process, which sends itself SIGKILL.

A step is a moment before or after a call of a `LogStore`, or before an operation of Python on a file of the table:
open to write, sync, link, rename, remove, make a folder. A wrapper of `LogStore` and Python's audit events report the
steps. One process imports all modules and forks the trials. A trial with Spark connects to a running JVM, so that no
trial has to start one.

The process reads trials from its standard input as JSON lines, and answers each with a line. This command starts it:

    python -m tests.faults.crash_site
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import traceback
from pathlib import Path

from deltalite.storage.local import LocalLogStore
from tests.support.spark_settings import ONE_TASK

CHECKOUT = Path(__file__).resolve().parents[2]
STORE_METHODS = ("list_from", "read", "read_start", "open", "write_if_absent", "write", "delete")
MOVES = ("os.link", "os.rename", "shutil.rmtree", "end")
"""Kinds of steps: the moves of files to their final names, the removal of a folder tree, and the program's end."""
PUTS = ("os.link", "end")
"""Kinds of steps: the links that make files of the log visible, and the program's end."""
CHANGES = (*MOVES, "open to write", "sync", "os.remove", "os.mkdir", "os.rmdir")
"""Kinds of steps: all changes of files and folders."""
EVERYTHING = (*CHANGES, "before", "after")
"""Kinds of steps: all changes, and the moments before and after each call of a `LogStore`."""
_EXIT_CODE_OF_FAILURE = 3
_HANGS_AFTER_SECONDS = 120


class Steps:
    """Records the steps of some kinds, and kills this process at the step with the number `kill_at`."""

    def __init__(self, table: str, kinds, kill_at: int | None, report_pipe: int) -> None:
        self._table, self._kinds, self._kill_at, self._report_pipe = table, kinds, kill_at, report_pipe
        self.taken: list[str] = []

    def __call__(self, kind: str, name: str) -> None:
        """Record a step, or kill this process if the step has the number `kill_at`."""
        if kind not in self._kinds:
            return
        if len(self.taken) == self._kill_at:
            os.write(self._report_pipe, f"{kind} {name}".encode())
            os.kill(os.getpid(), signal.SIGKILL)
        self.taken.append(f"{kind} {name}")

    def watch(self) -> None:
        """Let the log store, `os.fsync` and the audit events of this process report their steps."""
        for method in STORE_METHODS:
            setattr(LocalLogStore, method, self._reporting(method, getattr(LocalLogStore, method)))
        sync = os.fsync
        os.fsync = lambda handle: (self("sync", ""), sync(handle))[1]
        sys.addaudithook(self._report_event)

    def _reporting(self, method, original):
        """Return a method that calls the method `original` of a store, and reports a step before and after the call."""

        def call_and_report(store, *arguments):
            self("before", f"{method} {arguments[0]}")
            answer = original(store, *arguments)
            answer = iter(list(answer)) if method == "list_from" else answer
            self("after", f"{method} {arguments[0]}")
            return answer

        return call_and_report

    def _report_event(self, event, arguments):
        if event == "open":
            path, mode, flags = arguments
            has_write_flag = flags & (os.O_WRONLY | os.O_RDWR)
            is_write = any(letter in mode for letter in "wax+") if isinstance(mode, str) else has_write_flag
            if is_write and self._is_in_table(path):
                self("open to write", str(path))
        elif event in CHANGES:
            path = arguments[1] if event in ("os.link", "os.rename") else arguments[0]
            # `rmtree` reports each path relative to its folder.
            if self._is_in_table(path) or not os.path.isabs(path):
                self(event, str(path))

    def _is_in_table(self, path):
        return isinstance(path, str | os.PathLike) and os.fspath(path).startswith(self._table)


def attached_session():
    """Return a new session on a running JVM. Environment variables contain the port and the secret of the JVM."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    gateway = launch_gateway()
    jvm = gateway.jvm
    session = jvm.org.apache.spark.sql.classic.SparkSession.getDefaultSession().get().newSession()
    context = jvm.org.apache.spark.api.java.JavaSparkContext(session.sparkContext())
    conf = SparkConf(_jvm=jvm, _jconf=context.getConf())
    return SparkSession(SparkContext(gateway=gateway, jsc=context, conf=conf), session)


def main() -> None:
    from tests.faults import programs

    if "PYSPARK_GATEWAY_PORT" in os.environ:
        import pyspark.testing  # noqa: F401  otherwise each trial imports it, because PySpark's conversions need it

    for line in sys.stdin:
        print(json.dumps(_run_trial(programs, json.loads(line))), flush=True)


def _run_trial(programs, trial):
    """Run a trial in a forked process. Returns a dictionary.

    `killed` is the step at which the trial was killed, or None if it ended normally with all its `steps`. A trial that
    failed has only its `error`.
    """
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        os._exit(_run_in_child(programs, trial, write_end))
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        report = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return {"killed": report}
    if status != 0:
        return {"error": report or f"the trial ended with status {status}"}
    results = json.loads(report)
    # The next trials are forks of this process, so they need not import these modules again.
    for name in results["imported"]:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    return {"killed": None, "steps": results["steps"]}


def _run_in_child(programs, trial, report_pipe):
    """Run a trial and write its report to the pipe. Returns the exit code."""
    os.dup2(2, 1)  # Only answers go to the standard output, so the trial prints to the standard error.
    modules_before = set(sys.modules)
    try:
        spark = attached_session() if trial["spark"] else None
        for name, value in trial["settings"].items():
            spark.conf.set(name, value)
        steps = Steps(trial["table"], trial["kinds"], trial["kill_at"], report_pipe)
        steps.watch()
        getattr(programs, trial["program"])(spark, trial["table"], **trial["arguments"])
        steps("end", "")
        results = {"imported": sorted(set(sys.modules) - modules_before), "steps": steps.taken}
        with os.fdopen(report_pipe, "w") as pipe:
            json.dump(results, pipe)
    except BaseException:  # noqa: BLE001  the process of the tests raises it
        os.write(report_pipe, traceback.format_exc()[-3000:].encode())
        return _EXIT_CODE_OF_FAILURE
    return 0


def environment_of_program(spark=None) -> dict[str, str]:
    """Return the environment variables of a program that imports this checkout.

    With a session `spark`, they also name its JVM, so that the program can call `attached_session`.
    """
    environment = {**os.environ, "PYTHONPATH": f"{CHECKOUT}{os.pathsep}{CHECKOUT / 'spark_jobs'}"}
    if spark is not None:
        gateway = spark.sparkContext._gateway.gateway_parameters
        environment |= {"PYSPARK_GATEWAY_PORT": str(gateway.port), "PYSPARK_GATEWAY_SECRET": gateway.auth_token}
    return environment


class CrashSite:
    """Starts and uses the process that forks trials. With a session `spark`, the trials use its JVM.

    `is_campaign` says whether the tests kill a program at each of its steps, and not only at a sample of them. Outside
    the campaign, the sessions of the trials have the settings `ONE_TASK`.
    """

    def __init__(self, spark=None, *, is_campaign: bool) -> None:
        self.is_campaign = is_campaign
        # The steps of the last trial that ended normally.
        self.steps: list[str] = []
        self._has_spark = spark is not None
        self._settings = ONE_TASK if self._has_spark and not is_campaign else {}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.crash_site"],
            env=environment_of_program(spark), cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, program, table, *, kill_at=None, kinds=EVERYTHING, **arguments):
        """Run a trial. Returns the step at which it was killed, or None if it ended normally.

        `kill_at` is the number of this step among the steps of `kinds`.
        """
        trial = {"program": program, "table": str(table), "kinds": kinds, "kill_at": kill_at,
                 "arguments": arguments, "spark": self._has_spark, "settings": self._settings}  # fmt: skip
        self._process.stdin.write(json.dumps(trial) + "\n")
        self._process.stdin.flush()
        watchdog = threading.Timer(_HANGS_AFTER_SECONDS, self._process.kill)
        watchdog.start()
        line = self._process.stdout.readline()
        watchdog.cancel()
        assert line, f"the trial {trial} did not end within {_HANGS_AFTER_SECONDS} s"
        answer = json.loads(line)
        assert "error" not in answer, answer["error"]
        self.steps = answer.get("steps", self.steps)
        return answer["killed"]

    def close(self):
        """End the process."""
        self._process.stdin.close()
        self._process.wait(timeout=30)
        self._process.stdout.close()


if __name__ == "__main__":
    main()

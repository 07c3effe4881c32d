"""Run programs that are killed at a chosen step: each trial is a separate process, which sends itself SIGKILL.

A step is an access to storage: before and after each call of a `LogStore`, and before each operation of Python on a
file of the table (opening to write, syncing, linking, renaming, removing, making folders). No list names the steps: a
wrapper of `LogStore` and Python's audit events report them. One process that has imported everything forks the trials.
Trials that need Spark connect to a running JVM, so that killing a driver does not cost the start of a JVM.

    python -m tests.faults.crash_site    reads trials as JSON lines, and answers each with a line
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

CHECKOUT = Path(__file__).resolve().parents[2]
SEAM = ("list_from", "read", "read_start", "open", "write_if_absent", "write", "delete")
MOVES = ("os.link", "os.rename", "shutil.rmtree", "end")
CHANGES = (*MOVES, "open to write", "sync", "os.remove", "os.mkdir", "os.rmdir")
EVERYTHING = (*CHANGES, "before", "after")
_FAILED = 3
_HANGS_AFTER_SECONDS = 120


class Steps:
    """Counts the steps of its kinds, and kills this process at step number `kill_at`."""

    def __init__(self, table: str, kinds, kill_at: int | None, report_pipe: int) -> None:
        self._table, self._kinds, self._kill_at, self._report_pipe = table, kinds, kill_at, report_pipe
        self.taken: list[str] = []

    def __call__(self, kind: str, name: str) -> None:
        if kind not in self._kinds:
            return
        if len(self.taken) == self._kill_at:
            os.write(self._report_pipe, f"{kind} {name}".encode())
            os.kill(os.getpid(), signal.SIGKILL)
        self.taken.append(f"{kind} {name}")

    def watch(self) -> None:
        for method in SEAM:
            setattr(LocalLogStore, method, self._watched(method, getattr(LocalLogStore, method)))
        sync = os.fsync
        os.fsync = lambda handle: (self("sync", ""), sync(handle))[1]
        sys.addaudithook(self._heard)

    def _watched(self, method, real):
        def called(store, *arguments):
            self("before", f"{method} {arguments[0]}")
            answer = real(store, *arguments)
            answer = iter(list(answer)) if method == "list_from" else answer
            self("after", f"{method} {arguments[0]}")
            return answer

        return called

    def _heard(self, event, arguments):
        if event == "open":
            path, mode, flags = arguments
            is_write = any(c in mode for c in "wax+") if isinstance(mode, str) else flags & (os.O_WRONLY | os.O_RDWR)
            if is_write and self._is_ours(path):
                self("open to write", str(path))
        elif event in CHANGES:
            path = arguments[1] if event in ("os.link", "os.rename") else arguments[0]
            if self._is_ours(path) or not os.path.isabs(path):  # `rmtree` names what it removes by its folder
                self(event, str(path))

    def _is_ours(self, path):
        return isinstance(path, str | os.PathLike) and os.fspath(path).startswith(self._table)


def attached_session():
    """A new session on the JVM whose port and secret are in the environment."""
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
        import pyspark.testing  # noqa: F401  a second of imports that PySpark makes when it first converts a value

    for line in sys.stdin:
        print(json.dumps(_run_trial(programs, json.loads(line))), flush=True)


def _run_trial(programs, trial):
    """Run a trial; returns the step at which it was killed, or None and all its steps."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        os._exit(_child(programs, trial, write_end))
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        report = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return {"killed": report}
    if status != 0:
        return {"error": report or f"it ended with {status}"}
    ended = json.loads(report)
    for name in ended["imported"]:  # modules that this trial imported, for the next trials
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    return {"killed": None, "steps": ended["steps"]}


def _child(programs, trial, tell):
    os.dup2(2, 1)  # printed text must not mix with the answers
    known = set(sys.modules)
    try:
        spark = attached_session() if trial["spark"] else None
        steps = Steps(trial["table"], trial["kinds"], trial["kill_at"], tell)
        steps.watch()
        getattr(programs, trial["program"])(spark, trial["table"], **trial["arguments"])
        steps("end", "")
        ended = {"imported": sorted(set(sys.modules) - known), "steps": steps.taken}
        with os.fdopen(tell, "w") as pipe:
            json.dump(ended, pipe)
    except BaseException:  # noqa: BLE001  for the other side to raise
        os.write(tell, traceback.format_exc()[-3000:].encode())
        return _FAILED
    return 0


class CrashSite:
    """The process that forks trials, as the tests use it. `spark` is a session whose JVM the trials may use.

    `is_campaign` says whether a program is killed at each of its steps, and not at a sample of them.
    """

    def __init__(self, spark=None, *, is_campaign: bool) -> None:
        self.is_campaign = is_campaign
        self.steps: list[str] = []  # those of the last trial that came to its end
        environment = {**os.environ, "PYTHONPATH": f"{CHECKOUT}{os.pathsep}{CHECKOUT / 'spark_jobs'}"}
        if spark is not None:
            gateway = spark.sparkContext._gateway.gateway_parameters
            environment |= {
                "PYSPARK_GATEWAY_PORT": str(gateway.port),
                "PYSPARK_GATEWAY_SECRET": gateway.auth_token,
            }
        self._has_spark = spark is not None
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.crash_site"],
            env=environment, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, program, table, *, kill_at=None, kinds=EVERYTHING, **arguments):
        """Run a trial; returns the step `kill_at` at which it was killed, or None if it ended normally."""
        trial = {"program": program, "table": str(table), "kinds": kinds, "kill_at": kill_at,
                 "arguments": arguments, "spark": self._has_spark}  # fmt: skip
        self._process.stdin.write(json.dumps(trial) + "\n")
        self._process.stdin.flush()
        watchdog = threading.Timer(_HANGS_AFTER_SECONDS, self._process.kill)
        watchdog.start()
        line = self._process.stdout.readline()
        watchdog.cancel()
        assert line, f"the trial {trial} did not come to an end"
        answer = json.loads(line)
        assert "error" not in answer, answer["error"]
        self.steps = answer.get("steps", self.steps)
        return answer["killed"]

    def close(self):
        self._process.stdin.close()
        self._process.wait(timeout=30)
        self._process.stdout.close()


if __name__ == "__main__":
    main()

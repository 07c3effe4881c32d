"""The executors of an application as processes on this machine, and the ends of their tasks in Spark's event logs."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

# The ends of the main classes of executors. YARN's is YarnCoarseGrainedExecutorBackend.
_MAIN_CLASSES = ("CoarseGrainedExecutorBackend", "KubernetesExecutorBackend")


def executor_processes(application_id: str) -> dict[str, int]:
    """The process ids of the running executors of an application, by the id of the executor."""
    processes = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            program, *arguments = (process / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:  # the process has ended
            continue
        # YARN starts an executor through a shell, which has all arguments in one text.
        if program.endswith("java") and any(argument.endswith(_MAIN_CLASSES) for argument in arguments):
            options = dict(pairwise(arguments))
            if options["--app-id"] == application_id:
                processes[options["--executor-id"]] = int(process.name)
    return processes


def kill_executor(application_id: str) -> str:
    """Kill the executor with the lowest id with SIGKILL, and return its id."""
    executor_id, process_id = min(executor_processes(application_id).items())
    os.kill(process_id, signal.SIGKILL)
    return executor_id


@contextmanager
def frozen_executor(application_id: str, *, other_than: str) -> Iterator[str]:
    """Stop an executor with SIGSTOP, and yield its id. The end of the context lets the executor continue.

    The application has two executors. The one with the id `other_than` keeps running.
    """
    ((executor_id, process_id),) = [
        item for item in executor_processes(application_id).items() if item[0] != other_than
    ]
    os.kill(process_id, signal.SIGSTOP)
    try:
        yield executor_id
    finally:
        with suppress(ProcessLookupError):  # the cluster has killed it
            os.kill(process_id, signal.SIGCONT)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEnd:
    """The end of a task attempt. `reason` is Spark's name of the end, such as `Success` or `ExecutorLostFailure`."""

    application: str
    executor: str
    index: int
    is_speculative: bool
    reason: str


@dataclass(frozen=True, slots=True)
class EventLogs:
    """The event logs that Spark writes to a folder. Spark may write task ends late, so read these after the job."""

    folder: Path

    def running_application(self) -> str | None:
        """The id of the application that writes an event log now, or None."""
        for log in self.folder.glob("*.inprogress"):
            return log.name.removesuffix(".inprogress").removesuffix("_1")  # YARN's attempt
        return None

    def task_ends(self) -> list[TaskEnd]:
        """The ends of all task attempts."""
        return [
            TaskEnd(
                application=application,
                executor=event["Task Info"]["Executor ID"],
                index=event["Task Info"]["Index"],
                is_speculative=event["Task Info"]["Speculative"],
                reason=event["Task End Reason"]["Reason"],
            )
            for application, event in self._events("SparkListenerTaskEnd")
        ]

    def has_started_copy(self) -> bool:
        """Whether Spark started a speculative copy of a task. Spark may end the log before the end of a killed copy."""
        return any(event["Task Info"]["Speculative"] for _, event in self._events("SparkListenerTaskStart"))

    def removed_executors(self) -> list[str]:
        """The ids of the executors that Spark removed while their application ran."""
        return [event["Executor ID"] for _, event in self._events("SparkListenerExecutorRemoved")]

    def completed_stages(self) -> list[str]:
        """The names of all completed stages, such as `collect at ...`."""
        return [event["Stage Info"]["Stage Name"] for _, event in self._events("SparkListenerStageCompleted")]

    def _events(self, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """The events of a kind, with the application of each."""
        for log in sorted(self.folder.rglob("*")):
            for line in log.read_text().splitlines(keepends=True) if log.is_file() else ():
                if f'"Event":"{kind}"' in line and line.endswith("\n"):  # else Spark is still writing it
                    yield log.name, json.loads(line)

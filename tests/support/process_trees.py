"""Stops the processes of an Airflow, and kills the worker of one of its tasks."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import psutil

from airflow_provider_deltalite.clusters.processes import kill


class TaskProcesses:
    """The processes of a task: the worker's `supervisor`, and its child `runner`, which executes the task's code."""

    def __init__(self, *, supervisor: psutil.Process, runner: psutil.Process) -> None:
        self.supervisor = supervisor
        self.runner = runner

    @property
    def descendants(self) -> list[psutil.Process]:
        """The processes that the task has started, such as spark-submit and its Python driver."""
        with suppress(psutil.NoSuchProcess):
            return self.runner.children(recursive=True)
        return []

    def kill_worker(self) -> list[psutil.Process]:
        """Send SIGKILL to supervisor and runner, as the out-of-memory killer does.

        Returns the processes that the task has started. They stay alive as orphans.
        """
        orphans = self.descendants
        kill([self.supervisor, self.runner])
        return orphans


def stop(roots: Sequence[psutil.Process]) -> None:
    """Send SIGTERM to these processes and their descendants. After ten seconds, send SIGKILL to the remaining ones."""
    processes = []
    for root in roots:
        with suppress(psutil.NoSuchProcess):
            processes += [root, *root.children(recursive=True)]
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    _, survivors = psutil.wait_procs(processes, timeout=10)
    kill(survivors)
    psutil.wait_procs(survivors, timeout=10)

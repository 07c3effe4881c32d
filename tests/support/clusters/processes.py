"""Server processes of a cluster: each has a log file, and all end with the context."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

_ENDS_WITHIN_SECONDS = 5


class ServerProcesses:
    """Processes by name. At the end of the context they get SIGTERM, in reverse order, and SIGKILL if they stay."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._logs.mkdir(parents=True, exist_ok=True)
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        for process in reversed(self._running.values()):
            process.terminate()
        for process in self._running.values():
            try:
                process.wait(_ENDS_WITHIN_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def start(self, name: str, command: Sequence[str], environ: Mapping[str, str]) -> None:
        """Start a server."""
        with self.log_file(name).open("ab") as log:
            self._running[name] = subprocess.Popen(
                command, env=dict(environ), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def kill(self, name: str) -> None:
        """Kill a server with SIGKILL."""
        process = self._running.pop(name)
        process.kill()
        process.wait()

    def log_file(self, name: str) -> Path:
        """The file with the output of a server."""
        return self._logs / f"{name}.log"

    def wait_until(self, event: str, has_happened: Callable[[], bool], *, seconds: float = 120) -> None:
        """Wait for an event, and fail with the ends of the logs if a server ends or the time is over.

        A server that does not answer yet makes `has_happened` raise an `OSError`.
        """
        deadline = time.monotonic() + seconds
        while not _is_true(has_happened):
            ended = [name for name, process in self._running.items() if process.poll() is not None]
            if ended or time.monotonic() > deadline:
                ends = "\n".join(f"{name}: {self._end_of_log(name)}" for name in ended or self._running)
                raise AssertionError(f"{event} did not happen. Ended servers: {ended}\n{ends}")
            time.sleep(0.25)

    def _end_of_log(self, name: str) -> str:
        return self.log_file(name).read_text(errors="replace")[-2000:]


def _is_true(condition: Callable[[], bool]) -> bool:
    try:
        return condition()
    except OSError:
        return False

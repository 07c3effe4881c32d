"""The server processes of a cluster. Each has a log file, and the end of the context stops all of them."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

_ENDS_WITHIN_SECONDS = 5


class ServerProcesses:
    """Processes by name. The end of the context sends SIGTERM to them, in reverse order.

    The processes that have not ended five seconds later get SIGKILL.
    """

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._logs.mkdir(parents=True, exist_ok=True)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._commands: dict[str, tuple[Sequence[str], Mapping[str, str]]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        for process in reversed(self._processes.values()):
            process.terminate()
        deadline = time.monotonic() + _ENDS_WITHIN_SECONDS
        for process in self._processes.values():
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def start(self, name: str, command: Sequence[str], environ: Mapping[str, str]) -> None:
        """Start a server."""
        self._commands[name] = (command, environ)
        with self.log_file(name).open("ab") as log:
            self._processes[name] = subprocess.Popen(
                command, env=dict(environ), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def kill(self, name: str) -> None:
        """Kill a server with SIGKILL."""
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def start_again(self, name: str) -> None:
        """Start a killed server again."""
        self.start(name, *self._commands[name])

    def log_file(self, name: str) -> Path:
        """The file with the output of a server."""
        return self._logs / f"{name}.log"

    def wait_until(self, event: str, has_happened: Callable[[], bool], *, seconds: float = 300) -> None:
        """Call `has_happened` until it is true. An `OSError` means that a server does not answer yet.

        Raises `AssertionError` with the ends of the logs if a server ends, or after the time in `seconds`.
        """
        deadline = time.monotonic() + seconds
        while not _is_true(has_happened):
            ended_servers = [name for name, process in self._processes.items() if process.poll() is not None]
            if ended_servers or time.monotonic() > deadline:
                log_ends = "\n".join(f"{name}: {self._end_of_log(name)}" for name in ended_servers or self._processes)
                raise AssertionError(f"'{event}' did not happen. Ended servers: {ended_servers}\n{log_ends}")
            time.sleep(0.25)

    def _end_of_log(self, name: str) -> str:
        return self.log_file(name).read_text(errors="replace")[-2000:]


def _is_true(condition: Callable[[], bool]) -> bool:
    try:
        return condition()
    except OSError:
        return False

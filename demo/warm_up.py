"""The process that makes the archive of Spark's classes while the demonstration does other work."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self


class WarmUp:
    """A process of `deltalite warm-up`, which makes the archive unless this Spark has one. It ends with the block."""

    def __init__(self, environment: Mapping[str, str], folder: Path, log: Path) -> None:
        """Start the process in a folder. Its output goes to the log."""
        with log.open("w") as output:
            self._process = subprocess.Popen(
                [Path(sys.executable).with_name("deltalite"), "warm-up"],
                env=environment,
                cwd=folder,
                stdout=output,
                stderr=output,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.is_running:
            self._process.send_signal(signal.SIGINT)
        self._process.wait()

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def wait(self) -> str:
        """Wait until the process has ended, and return what it did. Without an archive, jobs only start more slowly."""
        if self._process.wait() != 0:
            return "made no archive of Spark's classes, so all jobs start more slowly"
        return "made an archive of Spark's classes, for faster starts of all jobs"

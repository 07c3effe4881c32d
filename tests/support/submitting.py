"""Functions that run jobs as the operator does: with `spark-submit`, in a separate process."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from deltalite import jobs
from deltalite.markers import parse_marker
from deltalite.results import JobError, OperationResult

if TYPE_CHECKING:
    from deltalite.requests import WriteRequest

BIN = Path(sys.executable).parent
WRITE_JOB = Path(next(iter(jobs.__path__))) / "write.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedJob:
    """The exit code and the last end marker of a job, its standard output, and its standard error (`errors`)."""

    code: int
    marker: OperationResult | JobError | None
    output: str
    errors: str


def submit_command(
    folder: Path, request: WriteRequest | str, *, script: Path = WRITE_JOB, conf: dict[str, str] | None = None
) -> list[str]:
    """Write the request to a file in `folder`; returns the command that runs its job on one core.

    Spark searches the folders of `PATH` for `python3`. `conftest` puts the folder of this interpreter first.
    """
    request_file = folder / "request.json"
    request_file.write_text(request if isinstance(request, str) else request.to_json())
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        **(conf or {}),
    }
    flags = [flag for key, value in settings.items() for flag in ("--conf", f"{key}={value}")]
    return [str(BIN / "spark-submit"), "--master", "local[1]", *flags, str(script), str(request_file)]


def run_job(
    folder: Path, request: WriteRequest | str, *, script: Path = WRITE_JOB, conf: dict[str, str] | None = None
) -> FinishedJob:
    """Run a job and wait for its end."""
    command = submit_command(folder, request, script=script, conf=conf)
    completed = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False, cwd=folder)
    markers = end_markers(completed.stdout)
    return FinishedJob(
        code=completed.returncode,
        marker=markers[-1] if markers else None,
        output=completed.stdout,
        errors=completed.stderr,
    )


def end_markers(output: str) -> list[OperationResult | JobError]:
    """The markers in a job's output that report a result or an error."""
    markers = map(parse_marker, output.splitlines())
    return [marker for marker in markers if isinstance(marker, OperationResult | JobError)]

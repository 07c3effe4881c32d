"""Makes an archive of Spark's classes: runs a training job whose JVM writes the classes that it has loaded.

One process of a user makes an archive at a time. The JVM writes a temporary file, which is renamed when it is complete.
So tasks never use a part of an archive. Making an archive removes archives that no task has used for a week.

A JVM refuses to write an archive if its class path has a folder with files. Spark's configuration folder is always in
the class path. The training job therefore needs this folder to be empty or missing. It also runs without the folders
of Hadoop's configuration. A job with these folders can use the archive, because in its class path the folders follow
the jars.
"""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from deltalite.errors import InstallationError
from deltalite.installation.class_archive import (
    ARCHIVE_PREFIX,
    ARCHIVE_SUFFIX,
    FAILURE_SUFFIX,
    JVM_OPTIONS_VARIABLE,
    LOCK_FILE,
    ArchiveName,
    archive_option,
    fitting_archive,
    use_file,
)
from deltalite.installation.private_folder import (
    JOB_FOLDER_PREFIX,
    lock,
    open_private_folder,
    private_folder_path,
    temporary_private_folder,
)
from deltalite.installation.spark import conf_folder, find_spark_submit

_TRAINING_SCRIPT = Path(__file__).resolve().parent.parent / "jobs" / "training.py"
_TIMEOUT_SECONDS = 600.0
_MIN_UNUSED_SECONDS = 7 * 86_400.0
# These variables would add options, folders or another Python to the training job.
_VARIABLES_TO_OMIT = (
    JVM_OPTIONS_VARIABLE,
    "HADOOP_CONF_DIR",
    "PYSPARK_DRIVER_PYTHON",
    "PYSPARK_SUBMIT_ARGS",
    "YARN_CONF_DIR",
)
_TRAINING_SETTINGS = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",  # less work for the compiler, and the same archive
    "spark.driver.memory": "512m",
    "spark.eventLog.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.port": "0",  # any free port
    "spark.ui.showConsoleProgress": "false",
}
_FAILURE_LINE = re.compile(
    r"cannot have non-empty|error: non-empty|\[(warning|error)\s*\]\[cds|error occurred|exception", re.IGNORECASE
)
_SHOWN_LINES = 5
_KILLED_EXIT_CODE = 128 + signal.SIGKILL  # of a shell whose program was killed


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeArchive:
    """An archive on this machine.

    `seconds` is the time to make it; None if it existed before. `problem` is the error of the training job, None if it
    succeeded. The JVM of a failed job makes an archive too, with fewer classes.
    """

    path: Path
    size_bytes: int
    seconds: float | None
    problem: str | None = None


def make_archive(program: str, environ: Mapping[str, str], *, lazily: bool = False) -> MadeArchive | None:
    """Make the archive that fits the drivers of a spark-submit, unless it exists.

    Args:
        program: The path or name of spark-submit.
        environ: The environment of spark-submit.
        lazily: Return None if another process makes an archive, or if the making of this archive failed in the last 24
            hours. If `lazily` is False, the function waits for the other process, and ignores an earlier failure.

    Raises:
        InvalidRequestError: There is no Java, or no such program.
        InstallationError: This installation cannot make an archive.
    """
    folder = _private_folder()
    name = fitting_archive(folder, program, environ)
    if name is None:
        raise InstallationError(
            "Cannot make a class archive: Spark's Java or its folder `jars` is unknown, or the temporary folder has a "
            f"'{os.pathsep}' in its name.",
            remedy="Set JAVA_HOME and SPARK_HOME, or another TMPDIR. Tasks run without an archive.",
        )
    lock_file = folder / LOCK_FILE
    lock_file.touch(mode=0o600)
    with ExitStack() as stack:
        try:
            stack.enter_context(lock(lock_file, fcntl.LOCK_EX | (fcntl.LOCK_NB if lazily else 0)))
        except BlockingIOError:
            return None
        if (archive := name.find()) is not None:
            return MadeArchive(path=archive, size_bytes=archive.stat().st_size, seconds=None)
        if lazily and name.recent_failure(now=time.time()) is not None:
            return None
        return _make(name, program, environ)


def _private_folder() -> Path:
    folder = open_private_folder()
    if folder is None:
        raise InstallationError(
            f"Cannot make a class archive: another user may write to {private_folder_path()}, or it is not a folder.",
            remedy="Remove it, or set TMPDIR to another temporary folder for this command and for the worker.",
        )
    return folder


def _make(name: ArchiveName, program: str, environ: Mapping[str, str]) -> MadeArchive:
    started = time.monotonic()
    try:
        _check_class_path(program, environ)
        _remove_unused_archives(name.folder, now=time.time())
        name.record_failure("The last attempt did not end.")  # stays if this process is killed
        with temporary_private_folder(JOB_FOLDER_PREFIX, name.folder) as scratch:
            partial_file = scratch / "classes.jsa"
            problem = _train(scratch, partial_file, program, environ)
            partial_file.chmod(0o600)
            archive = partial_file.replace(name.path(partial_file.stat().st_size))
    except InstallationError as error:
        name.record_failure(str(error))
        raise
    except OSError as error:
        raise InstallationError(
            f"Cannot make a class archive in {name.folder}: {error}.",
            remedy="Free space, or set TMPDIR to another temporary folder. Tasks run without an archive.",
        ) from error
    name.forget_failure()
    seconds = time.monotonic() - started
    return MadeArchive(path=archive, size_bytes=archive.stat().st_size, seconds=seconds, problem=problem)


def _check_class_path(program: str, environ: Mapping[str, str]) -> None:
    """Raise if Spark's configuration folder has files."""
    conf = conf_folder(program, environ)
    if conf.is_dir() and any(conf.iterdir()):
        raise InstallationError(
            f"Cannot make a class archive: Spark's configuration folder {conf} has files. The folder is in the class "
            "path, and Java archives no classes if a folder in the class path has files.",
            remedy="Empty the folder or set SPARK_CONF_DIR to an empty folder, and put the settings into the Spark "
            "connection or `conf`. Or change nothing: tasks run without an archive.",
        )


def _train(scratch: Path, archive: Path, program: str, environ: Mapping[str, str]) -> str | None:
    """Run the training job, and return its error, if any.

    The JVM writes `archive` at its end, and all other files go to `scratch`. A JVM that has written an archive may end
    with exit code 1, so only the files show success.

    Raises:
        InstallationError: There is no archive afterwards.
    """
    rows, problem_file = scratch / "rows", scratch / "problem"
    rows.mkdir()
    settings = {
        **_TRAINING_SETTINGS,
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }
    flags = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    arguments = [str(_TRAINING_SCRIPT), str(rows), str(problem_file)]
    command = [find_spark_submit(program, environ), "--master", "local[2]", *flags, *arguments]
    variables = {name: value for name, value in environ.items() if name not in _VARIABLES_TO_OMIT} | {
        JVM_OPTIONS_VARIABLE: archive_option("ArchiveClassesAtExit", archive),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    log_file, was_killed = scratch / "log", False
    with log_file.open("wb") as log:
        process = subprocess.Popen(  # noqa: S603  the program that tasks start too
            command,
            env=variables,
            cwd=scratch,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            process.wait(_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            was_killed = True
            log.write(f"\nThe training job did not end within {_TIMEOUT_SECONDS:.0f} seconds.\n".encode())
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # also ends the Python of a job that was interrupted
            process.wait()
    was_killed = was_killed or process.returncode < 0 or process.returncode == _KILLED_EXIT_CODE
    # A JVM that was killed while it wrote has left a part of an archive.
    if was_killed or not (archive.is_file() and archive.stat().st_size):
        raise InstallationError(
            f"Cannot make a class archive: the JVM of the training job wrote none (exit code {process.returncode}): "
            + reason_in(log_file.read_text(encoding="utf-8", errors="replace")),
            remedy="Check the installation with `deltalite doctor`. Tasks run without an archive.",
        )
    if not problem_file.is_file():
        return "the job ended early"
    return problem_file.read_text(encoding="utf-8") or None


def reason_in(log: str) -> str:
    """Return the lines of the training job's log that explain its failure, or else its last lines."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    matching_lines = [line for line in lines if _FAILURE_LINE.search(line)]
    return " | ".join((matching_lines or lines or ["its output is empty"])[-_SHOWN_LINES:])


def _remove_unused_archives(folder: Path, *, now: float) -> None:
    """Remove archives that no task has used for a week, and old failure files. A running JVM keeps its archive."""
    for file in [
        *folder.glob(f"{ARCHIVE_PREFIX}*{ARCHIVE_SUFFIX}"),
        *folder.glob(f"{ARCHIVE_PREFIX}*{FAILURE_SUFFIX}"),
    ]:
        with suppress(OSError):
            last_use = file.lstat().st_mtime
            with suppress(FileNotFoundError):
                last_use = max(last_use, use_file(file).lstat().st_mtime)
            if now - last_use > _MIN_UNUSED_SECONDS:
                file.unlink()
                use_file(file).unlink(missing_ok=True)

"""Starts drivers on this worker with an archive of Spark's classes, and makes an archive in the background.

`[deltalite] class_archive` decides:

- `use` (the default): tasks use an archive that `deltalite warm-up` made.
- `auto`: as `use`. After a successful job in local mode, a worker without an archive also starts `deltalite warm-up` in
  the background.
- `off`: neither.

A problem with an archive neither fails nor delays a task.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import time
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from airflow.providers.common.compat.sdk import conf as airflow_settings

from airflow_provider_deltalite.preflight import Launch
from deltalite.installation.class_archive import (
    LOCK_FILE,
    ArchiveName,
    chooses_archive,
    fitting_archive,
    java_options,
    record_use,
)
from deltalite.installation.private_folder import is_unlocked, open_private_folder
from deltalite.installation.spark import find_spark_submit

_log = logging.getLogger(__name__)
_LOG_FILE = "spark-classes.log"
# The background process gets only the variables that it needs, because it must not keep the secrets of the task.
_PASSED_VARIABLES = re.compile(
    r"PATH|HOME|USER|LOGNAME|TMPDIR|TZ|LANG|LC_[A-Z]+|LD_LIBRARY_PATH|VIRTUAL_ENV|JAVA_HOME"
    r"|(SPARK|PYSPARK)_(HOME|CONF_DIR|PYTHON|LOCAL_IP|LOCAL_HOSTNAME)|PYTHON[A-Z]*"
)


class ArchiveUse(StrEnum):
    """The values of `[deltalite] class_archive`."""

    USE = "use"
    AUTO = "auto"
    OFF = "off"


def archive_use() -> ArchiveUse:
    """Return the setting; `off` with a warning if its value is invalid."""
    text = str(airflow_settings.get("deltalite", "class_archive", fallback=ArchiveUse.USE)).strip().lower()
    try:
        return ArchiveUse(text)
    except ValueError:
        _log.warning(
            "Using no class archive: [deltalite] class_archive is '%s'. Set it to one of %s.",
            text,
            ", ".join(f"'{value}'" for value in ArchiveUse),
        )
        return ArchiveUse.OFF


def archive_options(launch: Launch, user_options: str) -> str | None:
    """Return the Java options that make the driver use an archive, or None.

    The result is None if `class_archive` is off, if the driver has no archive, or if the user's options choose one.
    """
    try:
        name = None if archive_use() is ArchiveUse.OFF else _archive_name(launch)
        if name is None or chooses_archive(user_options) or (archive := name.find()) is None:
            return None
        record_use(archive)
    except Exception:  # noqa: BLE001  a job without an archive is only slower
        _log.debug("Using no class archive", exc_info=True)
        return None
    return java_options(archive)


def make_archive_later(launch: Launch) -> None:
    """Start `deltalite warm-up` in the background, if `class_archive` is `auto` and the master is local.

    The function starts nothing if there is an archive, if another process makes one, or if making one failed recently.
    """
    if not launch.is_local or archive_use() is not ArchiveUse.AUTO:
        return
    try:
        name = _archive_name(launch)
        if name is None or name.find() or name.recent_failure(now=time.time()) or _is_locked(name.folder):
            return
        log_file = name.folder / _LOG_FILE
        program = find_spark_submit(launch.binary, launch.environ)
        _start_detached(["warm-up", "--lazy", "--spark-submit", program], launch.environ, log_file)
        _log.info("Making an archive of Spark's classes in the background, for later tasks; its log is %s", log_file)
    except Exception:  # noqa: BLE001  the job has succeeded, so its task must not fail
        _log.debug("Could not start deltalite warm-up", exc_info=True)


def _archive_name(launch: Launch) -> ArchiveName | None:
    """Return the name of the driver's archive; None if it can have none, such as a driver in a cluster."""
    if launch.in_cluster or (folder := open_private_folder()) is None:
        return None
    return fitting_archive(folder, launch.binary, launch.environ)


def _is_locked(folder: Path) -> bool:
    lock_file = folder / LOCK_FILE
    return lock_file.exists() and not is_unlocked(lock_file)


def _start_detached(arguments: list[str], environ: Mapping[str, str], log_file: Path) -> None:
    """Start the command line in a new session, and do not wait for it.

    Python's `-P` leaves the working directory out of the search path. `posix_spawn` does not copy this process.
    """
    variables = {name: value for name, value in environ.items() if _PASSED_VARIABLES.fullmatch(name)}
    write_flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    os.posix_spawn(
        sys.executable,
        [sys.executable, "-P", "-m", "deltalite.cli", *arguments],
        variables,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log_file), write_flags, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )

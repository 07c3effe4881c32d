"""What travels to Spark with a task: the job's script, the library, the request, and settings that nobody may see.

The library is the installed `deltalite` package as a zip file for `--py-files`, so that the driver runs exactly the
code of the worker. The zip is deterministic and named by the hash of what is in it: tasks that run at the same time
make the same file, each under a name of its own, and the last rename wins. Request and settings may hold passwords:
their folder is open to its owner alone, and is gone when the task ends. A worker that is killed leaves it behind, and
the next one removes it: a lock, which dies with its process, tells the folders that are in use.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
import shutil
import stat
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip file can hold
_REGULAR_FILE = (stat.S_IFREG | 0o644) << 16  # where zip files keep the Unix mode
_UNIX = 3
_FOLDER = "job-"
_MAY_STILL_BE_READ_SECONDS = 3600.0  # a job whose worker was killed goes on, and reads its request when it starts


@dataclass(frozen=True, slots=True, kw_only=True)
class ShippedJob:
    """Paths on this worker, all absolute."""

    script: str
    library: str
    request: str
    settings: str  # where a properties file may be written


@contextmanager
def shipped(job: str, request_json: str) -> Iterator[ShippedJob]:
    """The job `deltalite/jobs/<job>.py` with its library and a request file that lives as long as the block."""
    cache = cache_directory()
    sweep(cache, now=time.time())
    library = shipped_library(cache)
    folder = Path(tempfile.mkdtemp(prefix=_FOLDER, dir=cache))  # made with mode 0700
    lock = os.open(folder, os.O_RDONLY)  # a process that is started does not inherit it
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        request = folder / f"deltalite-request-{folder.name.removeprefix(_FOLDER)}.json"  # one of its name at a driver
        request.touch(mode=0o600)
        request.write_text(request_json, encoding="utf-8")
        yield ShippedJob(
            script=str(installed_library() / "jobs" / f"{job}.py"),
            library=str(library),
            request=str(request),
            settings=str(folder / "settings.properties"),
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def sweep(cache: Path, *, now: float) -> None:
    """Remove the folders of jobs whose workers were killed, an hour after they were made."""
    for folder in cache.glob(f"{_FOLDER}*"):
        try:
            if now - folder.stat().st_mtime > _MAY_STILL_BE_READ_SECONDS and _is_abandoned(folder):
                shutil.rmtree(folder)
        except OSError:  # another worker was faster
            continue


def _is_abandoned(folder: Path) -> bool:
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        return True
    finally:
        os.close(lock)


def installed_library() -> Path:
    """The folder of the installed `deltalite` package, found without importing its jobs."""
    spec = find_spec("deltalite")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("The package 'deltalite' is not installed beside airflow_provider_deltalite.")
    return Path(next(iter(spec.submodule_search_locations)))


def shipped_library(directory: Path) -> Path:
    """The library's zip file in `directory`; made unless it is there, complete or not at all."""
    content = library_zip(installed_library())
    final = directory / f"deltalite-{hashlib.sha256(content).hexdigest()[:20]}.zip"
    if not final.exists():
        descriptor, staged = tempfile.mkstemp(dir=directory, suffix=".tmp")
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        Path(staged).replace(final)
    return final


def library_zip(package: Path) -> bytes:
    """The sources of `package` as a zip file: equal sources give equal bytes, wherever and whenever they are packed."""
    sources = sorted(
        (path.relative_to(package.parent).as_posix(), path)
        for pattern in ("*.py", "py.typed")
        for path in package.rglob(pattern)
    )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, path in sources:
            entry = zipfile.ZipInfo(name, date_time=_ZIP_EPOCH)
            entry.external_attr, entry.create_system = _REGULAR_FILE, _UNIX
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, path.read_bytes())
    return buffer.getvalue()


def cache_directory() -> Path:
    """A folder of this user alone, below the temporary one: code that a task will run lies in it.

    A folder of that name that belongs to another user, or that others may write, is not used.
    """
    shared = Path(tempfile.gettempdir()) / f"airflow-provider-deltalite-{os.getuid()}"
    shared.mkdir(mode=0o700, exist_ok=True)
    found = shared.lstat()
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    if ours and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return shared
    return Path(tempfile.mkdtemp(prefix="airflow-provider-deltalite-"))

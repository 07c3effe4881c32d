"""What travels to Spark with a task: the job's script, the library, and the request.

The library is the installed `deltalite` package as a zip file for `--py-files`, so that the driver runs exactly the
code of the worker. The zip is deterministic and named by the hash of what is in it: tasks that run at the same time
make the same file, each under a name of its own, and the last rename wins. The request may hold passwords of a data
source: its file can be read by its owner alone, and is gone when the task ends.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip file can hold
_REGULAR_FILE = (stat.S_IFREG | 0o644) << 16  # where zip files keep the Unix mode
_UNIX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ShippedJob:
    """Paths on this worker, all absolute."""

    script: str
    library: str
    request: str


@contextmanager
def shipped(job: str, request_json: str) -> Iterator[ShippedJob]:
    """The job `deltalite/jobs/<job>.py` with its library and a request file that lives as long as the block."""
    library = shipped_library(cache_directory())
    descriptor, request = tempfile.mkstemp(prefix="deltalite-request-", suffix=".json")  # made with mode 0600
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(request_json)
        yield ShippedJob(script=str(installed_library() / "jobs" / f"{job}.py"), library=str(library), request=request)
    finally:
        Path(request).unlink(missing_ok=True)


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

"""What travels to Spark with a task: the job's script, the library, the request, and settings that nobody may see.

The library is the installed `deltalite` package as a zip file for `--py-files`, so that the driver runs exactly the
code of the worker. The zip is named by a hash of the sources, so one that is there is not packed again. It lies in a
folder of this user below the temporary folder. Where something else has the name of that folder, or others may write
to it, the task uses a new folder and removes it at its end. Request and settings may hold passwords: their folder is
open to its owner alone, and is removed when the task ends. A killed worker leaves files behind, and a later task
removes them: a lock, which ends with its process, tells the folders that are in use.
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
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from secrets import token_hex

_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip file can hold
_REGULAR_FILE = (stat.S_IFREG | 0o644) << 16  # where zip files keep the Unix mode
_UNIX = 3
_NAME = "airflow-provider-deltalite-"  # of folders below the temporary one
_FALLBACK = f"{_NAME}task-"
_FOLDER = "job-"
_STAGED = ".tmp"
_MAY_STILL_BE_READ_SECONDS = 3600.0  # a job whose worker was killed goes on, and reads its request when it starts
_UNUSED_SECONDS = 7 * 86400.0  # a driver imports from its zip as long as it runs


@dataclass(frozen=True, slots=True, kw_only=True)
class ShippedJob:
    """Paths on this worker, all absolute; `nonce` stands in the request, and in every marker line of the job."""

    script: str
    library: str
    request: str
    settings: str  # where a properties file may be written; other private files of the task go beside it
    nonce: str


@contextmanager
def shipped(job: str, request_json: Callable[[str], str]) -> Iterator[ShippedJob]:
    """The job `deltalite/jobs/<job>.py` with its library and a request file that lives as long as the block.

    `request_json` makes the text of the request with the nonce that it is given.
    """
    nonce = token_hex(16)
    with cache_folder() as cache, ExitStack() as in_use:
        is_shared = not cache.name.startswith(_FALLBACK)  # else this task has locked it already
        with _locked(cache) if is_shared else nullcontext():
            sweep(cache, now=time.time())
            library = shipped_library(cache)
            in_use.enter_context(_locked(library, fcntl.LOCK_SH))
        with _private_folder(_FOLDER, cache) as folder:
            request = folder / f"deltalite-request-{folder.name.removeprefix(_FOLDER)}.json"  # one name at a driver
            request.touch(mode=0o600)
            request.write_text(request_json(nonce), encoding="utf-8")
            yield ShippedJob(
                script=str(installed_library() / "jobs" / f"{job}.py"),
                library=str(library),
                request=str(request),
                settings=str(folder / "settings.properties"),
                nonce=nonce,
            )


@contextmanager
def cache_folder() -> Iterator[Path]:
    """A folder of this user alone, below the temporary one: code that a task will run lies in it.

    The same for all tasks. A file or link of its name, or a folder that another user owns or may write to, is not used:
    the block then has a folder of its own, which is removed at its end.
    """
    temporary = Path(tempfile.gettempdir())
    shared = temporary / f"{_NAME}{os.getuid()}"
    with suppress(FileExistsError):
        shared.mkdir(mode=0o700)
    if _is_private(shared):
        yield shared
        return
    _sweep_folders(temporary, _FALLBACK, now=time.time())
    with _private_folder(_FALLBACK, temporary) as folder:
        yield folder


def _is_private(folder: Path) -> bool:
    found = folder.lstat()
    is_own_folder = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    return is_own_folder and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


@contextmanager
def _private_folder(prefix: str, parent: Path) -> Iterator[Path]:
    """A new folder of mode 0700, locked and removed with the block."""
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    try:
        with _locked(folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked(path: Path, kind: int = fcntl.LOCK_EX) -> Iterator[None]:
    """Hold the lock of a folder or file, which ends with this process: programs that it starts do not inherit it."""
    lock = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(lock, kind)
        yield
    finally:
        os.close(lock)


def sweep(cache: Path, *, now: float) -> None:
    """Remove what no task uses: folders and half-written files of killed workers after an hour, zips after a week."""
    _sweep_folders(cache, _FOLDER, now=now)
    for pattern, unused_seconds in ((f"*{_STAGED}", _MAY_STILL_BE_READ_SECONDS), ("*.zip", _UNUSED_SECONDS)):
        for file in cache.glob(pattern):
            with suppress(OSError):  # another worker was faster
                if now - file.lstat().st_mtime > unused_seconds and _is_abandoned(file):
                    file.unlink()


def _sweep_folders(parent: Path, prefix: str, *, now: float) -> None:
    for folder in parent.glob(f"{prefix}*"):
        with suppress(OSError):  # another worker was faster
            found = folder.lstat()
            is_old = stat.S_ISDIR(found.st_mode) and now - found.st_mtime > _MAY_STILL_BE_READ_SECONDS
            if is_old and found.st_uid == os.getuid() and _is_abandoned(folder):
                shutil.rmtree(folder)


def _is_abandoned(path: Path) -> bool:
    lock = os.open(path, os.O_RDONLY)
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
    """The library's zip file in `directory`; made unless it is there, complete or not at all.

    Its time of modification is the time of its last use.
    """
    sources = library_sources(installed_library())
    final = directory / f"deltalite-{_digest(sources)[:20]}.zip"
    if final.is_file():
        os.utime(final)
        return final
    descriptor, staged = tempfile.mkstemp(dir=directory, suffix=_STAGED)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(library_zip(sources))
        Path(staged).replace(final)
    except BaseException:
        Path(staged).unlink()
        raise
    return final


def library_sources(package: Path) -> dict[str, bytes]:
    """The sources of `package` by their names in the zip file, sorted."""
    names = sorted(
        (path.relative_to(package.parent).as_posix(), path)
        for pattern in ("*.py", "py.typed")
        for path in package.rglob(pattern)
    )
    return {name: path.read_bytes() for name, path in names}


def library_zip(sources: dict[str, bytes]) -> bytes:
    """Sources as a zip file: equal sources give equal bytes, wherever and whenever they are packed."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in sources.items():
            entry = zipfile.ZipInfo(name, date_time=_ZIP_EPOCH)
            entry.external_attr, entry.create_system = _REGULAR_FILE, _UNIX
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return buffer.getvalue()


def _digest(sources: dict[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name, content in sources.items():
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()

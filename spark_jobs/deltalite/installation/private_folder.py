"""The private folder of a user below the temporary folder, and locks of files and folders.

The folder holds files that other processes run: the library's zip file, and archives of classes. All tasks and commands
of the user share the folder, if no other user can write to it. A lock ends with its process, so an unlocked folder is
not in use.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

FOLDER_PREFIX = "airflow-provider-deltalite-"
"""The prefix of all folders of this package below the temporary folder."""
JOB_FOLDER_PREFIX = "job-"
"""The prefix of the folders of single jobs in the private folder."""


def private_folder_path() -> Path:
    """Return the path of this user's folder."""
    return Path(tempfile.gettempdir()) / f"{FOLDER_PREFIX}{os.getuid()}"


def open_private_folder() -> Path | None:
    """Return the folder of this user, and make it first if it does not exist.

    The result is None in these cases:

    - the name of the folder belongs to a file or a link;
    - another user owns the folder, or may write to it.
    """
    folder = private_folder_path()
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    return folder if stat.S_ISDIR(status.st_mode) and _is_private(status) else None


def is_private_file(path: Path) -> bool:
    """Whether the path is a file of this user to which no other user may write."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISREG(status.st_mode) and _is_private(status)


def _is_private(status: os.stat_result) -> bool:
    return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


@contextmanager
def temporary_private_folder(prefix: str, parent: Path) -> Iterator[Path]:
    """Make and lock a folder of mode 0700, and remove it after the block."""
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    try:
        with lock(folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def lock(path: Path, kind: int = fcntl.LOCK_EX) -> Iterator[None]:
    """Hold the lock of a folder or file during the block.

    The lock ends with this process at the latest, because child programs do not inherit it.

    Raises:
        BlockingIOError: `kind` has `LOCK_NB`, and another process holds the lock.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, kind)
        yield
    finally:
        os.close(descriptor)


def is_unlocked(path: Path) -> bool:
    """Whether no process holds the lock of a file or folder."""
    try:
        with lock(path, fcntl.LOCK_EX | fcntl.LOCK_NB):
            return True
    except BlockingIOError:
        return False

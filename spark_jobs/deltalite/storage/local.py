"""The log store of tables in a local or mounted file system.

To commit, the store writes a complete temporary file and links it to its final name. `link()` fails if the name is
taken, so exactly one writer wins, even across processes and over NFS. Readers never see a partial file. The file
and its folder are synced before the commit counts. Names of temporary files begin with a dot, so listings and other
engines ignore them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from deltalite.errors import DeltaLiteError, StorageError, StoragePermissionError, UnsupportedStorageError
from deltalite.storage.locations import check_local
from deltalite.storage.log_store import StoredFile

if TYPE_CHECKING:
    import pyarrow as pa

_NO_HARD_LINK_ERRNOS = frozenset(
    {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV, errno.EMLINK}
)
_PERMISSION_ERRNOS = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_MAX_FOLDER_ATTEMPTS = 10


class LocalLogStore:
    """A `LogStore` over a folder of the local file system.

    `single_writer` accepts a file system without hard links, on which two concurrent writers can lose commits.
    """

    def __init__(self, root: str, *, single_writer: bool = False) -> None:
        self._root = Path(root)
        self._single_writer = single_writer

    @property
    def root(self) -> str:
        """The table's absolute path."""
        return str(self._root)

    def list_from(self, name: str) -> Iterator[StoredFile]:
        """Yield the files in the folder of `name`, from `name` on, in order; hidden files only if `name` is hidden."""
        folder, _, first_base = name.rpartition("/")
        shows_hidden = first_base.startswith(".")
        try:
            with os.scandir(self._path(folder)) as entries:
                bases = sorted(e.name for e in entries if e.name >= first_base and (shows_hidden or e.name[0] != "."))
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise storage_error(error, f"list {folder or self.root}") from error
        for base in bases:
            full_name = f"{folder}/{base}" if folder else base
            # A file may have been deleted since the listing.
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(self._path(full_name))
                if stat.S_ISREG(status.st_mode):
                    yield StoredFile(
                        name=full_name, size_bytes=status.st_size, modified_ms=status.st_mtime_ns // 1_000_000
                    )

    def read(self, name: str) -> bytes | None:
        """Return the whole file, or None if it does not exist."""
        return self._read(name, -1)

    def read_start(self, name: str, size_bytes: int) -> bytes | None:
        """Return the first bytes, or None if the file does not exist."""
        return self._read(name, size_bytes)

    def _read(self, name: str, size_bytes: int) -> bytes | None:
        """Return the first `size_bytes` bytes, all bytes for -1, or None if the file does not exist."""
        try:
            with self._path(name).open("rb") as file:
                return file.read(size_bytes)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise storage_error(error, f"read {name}") from error

    def open(self, name: str) -> pa.NativeFile:
        """Open a native file handle, because a Python file under Arrow threads can abort the process at exit."""
        import pyarrow as pa  # noqa: PLC0415  the store's other methods do not need pyarrow

        return pa.OSFile(str(self._path(name)), "rb")

    def write_if_absent(self, name: str, data: bytes) -> bool:
        """Link a complete temporary file to `name`. Returns False if the name is taken.

        The store checks the name first, to save the write and sync of a file if the name is taken.
        """
        target = self._path(name)
        try:
            if os.path.lexists(target):
                return False
            with self._temporary_file(target, data) as temporary:
                is_created = self._link(temporary, target)
                _sync_folder(target.parent)
                return is_created
        except OSError as error:
            raise storage_error(error, f"create {name}") from error

    def write(self, name: str, data: bytes) -> None:
        """Rename a complete temporary file to `name`."""
        target = self._path(name)
        try:
            with self._temporary_file(target, data) as temporary:
                os.replace(temporary, target)
        except OSError as error:
            raise storage_error(error, f"write {name}") from error

    def delete(self, name: str) -> None:
        """Delete the file if it exists."""
        try:
            self._path(name).unlink(missing_ok=True)
        except OSError as error:
            raise storage_error(error, f"delete {name}") from error

    @contextlib.contextmanager
    def _temporary_file(self, target: Path, data: bytes) -> Iterator[str]:
        """Create a complete, synced file beside `target`, and delete it afterwards unless it was renamed."""
        temporary = target.parent / f".{target.name}.{uuid.uuid4()}.tmp"
        try:
            with _new_file(temporary) as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            yield str(temporary)
        finally:
            temporary.unlink(missing_ok=True)

    def _link(self, temporary: str, target: Path) -> bool:
        """Link a file to the name `target`; return False if another writer has taken the name."""
        try:
            os.link(temporary, target)
        except FileExistsError:
            # An NFS client may send the request twice, and the second then fails. A link count of two shows that the
            # first request succeeded.
            return os.stat(temporary).st_nlink > 1
        except OSError as error:
            if error.errno not in _NO_HARD_LINK_ERRNOS:
                raise
            if self._single_writer:
                return _rename_if_absent(temporary, target)
            raise UnsupportedStorageError(
                f"Could not commit to {self.root}: its file system has no hard links ({error.strerror}), so two "
                "concurrent writers could overwrite each other's commit.",
                remedy="Move the table to a file system with hard links, or set single_writer=True if no other process "
                "writes to the table.",
            ) from error
        return True

    def _path(self, name: str) -> Path:
        check_local(name)
        return Path(name.removeprefix("file:")) if name.startswith("file:/") else self._root / name


def _new_file(path: Path) -> BinaryIO:
    """Create a file and its folder.

    Another writer may remove the folder while it is empty.
    """
    attempt = 1
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            return path.open("xb")
        except FileNotFoundError:
            if attempt == _MAX_FOLDER_ATTEMPTS:
                raise
            attempt += 1


def _rename_if_absent(temporary: str, target: Path) -> bool:
    """Rename a file to `target` unless `target` exists; return whether it was renamed. Unsafe with several writers."""
    if target.exists():
        return False
    os.rename(temporary, target)
    return True


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def storage_error(error: OSError, action: str) -> DeltaLiteError:
    """Return the library's error for an operating system's error; `action` is the failed action, as `read <name>`."""
    if error.errno in _PERMISSION_ERRNOS:
        return StoragePermissionError(
            f"No permission to {action}: {error}.",
            remedy="Give the user that runs the task access to the table's folder.",
        )
    return StorageError(f"Could not {action}: {error}.", remedy="Check the disk and the mount, then retry the task.")

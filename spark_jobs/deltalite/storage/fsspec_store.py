"""The read-only log store of workers for any storage that fsspec supports.

Sensors, triggers, operators and `DeltaTable` use it to read logs and rows without Spark. It does not write, because few
fsspec file systems have a put-if-absent, and none declares it. It never uses cached listings. fsspec and the package
for each storage are optional.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import datetime
from typing import Any, NoReturn

import pyarrow as pa

from deltalite.errors import DeltaLiteError, StorageError, StoragePermissionError, UnsupportedStorageError
from deltalite.redaction import redacted
from deltalite.storage.locations import resolve_path
from deltalite.storage.log_store import StoredFile

# The bytes that one request reads ahead; the default of s3fs is 50 MB.
_BLOCK_BYTES = 4 * 1024 * 1024
# The keys of the modification time in s3fs, adlfs, gcsfs, local and memory file systems.
_TIME_KEYS = ("LastModified", "last_modified", "updated", "mtime", "created")
_CREDENTIAL_ERRORS = frozenset({"NoCredentialsError", "ClientAuthenticationError", "DefaultCredentialsError"})
# HTTP status codes for denied access, and for a range outside of the file.
_DENIED_STATUSES = frozenset({401, 403})
_OUT_OF_RANGE_STATUS = 416


class FsspecLogStore:
    """A `LogStore` over a folder of an fsspec file system. `root` is the table's address, with its scheme."""

    def __init__(self, root: str, fs: Any) -> None:
        self._root = root
        self._fs = fs

    @property
    def root(self) -> str:
        """The table's address."""
        return self._root

    def list_from(self, name: str) -> Iterator[StoredFile]:
        """Yield the files in the folder of `name`, from `name` on, in name order, without hidden files."""
        folder, _, first_base = name.rpartition("/")
        path, entries = self.entries(folder)
        listed_files = []
        for entry in entries:
            parent, _, base = entry["name"].rpartition("/")
            is_inside = parent.strip("/") == path.strip("/")
            if entry["type"] == "file" and is_inside and base >= first_base and base and not base.startswith("."):
                listed_files.append((base, entry))
        for base, entry in sorted(listed_files, key=lambda pair: pair[0]):
            full_name = f"{folder}/{base}" if folder else base
            yield StoredFile(name=full_name, size_bytes=entry["size"] or 0, modified_ms=modified_ms(entry))

    def entries(self, folder: str) -> tuple[str, list[dict[str, Any]]]:
        """Return fsspec's path of a folder, and its entries. A folder that does not exist has no entries."""
        path = self._path(folder)
        with self._converted_errors(f"list {folder or 'the files'}"):
            self._fs.invalidate_cache(path)
            try:
                return path, self._fs.ls(path, detail=True)
            except (FileNotFoundError, NotADirectoryError):
                return path, []

    def read(self, name: str) -> bytes | None:
        """Return the whole file, or None if it does not exist."""
        with self._converted_errors(f"read {name}"):
            try:
                data: bytes = self._fs.cat_file(self._path(name))
            except (FileNotFoundError, IsADirectoryError):
                return None
            return data

    def read_start(self, name: str, size_bytes: int) -> bytes | None:
        """Return the first bytes, or None if the file does not exist.

        The function takes one request, or two for an empty file. `read` and `open` need another request for the length
        of the file.
        """
        with self._converted_errors(f"read {name}"):
            path = self._path(name)
            try:
                start: bytes = self._fs.cat_file(path, start=0, end=size_bytes)
            except (FileNotFoundError, IsADirectoryError):
                return None
            except Exception as error:
                if not (_is_out_of_range(error) and self._is_empty(path)):
                    raise
                return b""
            return start

    def _is_empty(self, path: str) -> bool:
        """Whether a file is empty; False if the storage does not answer. A range request for an empty file fails."""
        with contextlib.suppress(Exception):
            self._fs.invalidate_cache(path)
            return bool(self._fs.info(path)["size"] == 0)
        return False

    @contextlib.contextmanager
    def open(self, name: str) -> Iterator[pa.NativeFile]:
        """Open a file for random access through Python."""
        with self._converted_errors(f"open {name}"):
            try:
                file = self._fs.open(self._path(name), "rb", block_size=_BLOCK_BYTES, cache_type="readahead")
            except IsADirectoryError as error:
                raise FileNotFoundError(name) from error
        with file, pa.PythonFile(_Reader(self, name, file), mode="r") as handle:
            yield handle

    def write_if_absent(self, name: str, data: bytes) -> bool:  # noqa: ARG002  the interface's
        """Raise `UnsupportedStorageError`."""
        self._reject_write(name)

    def write(self, name: str, data: bytes) -> None:  # noqa: ARG002  the interface's
        """Raise `UnsupportedStorageError`."""
        self._reject_write(name)

    def delete(self, name: str) -> None:
        """Raise `UnsupportedStorageError`."""
        self._reject_write(name)

    def _reject_write(self, name: str) -> NoReturn:
        raise UnsupportedStorageError(
            f"Could not change {name} of {self._root}: without Spark this storage is read-only.",
            remedy="Write through Spark: use an operator, or run a job.",
        )

    def _path(self, name: str) -> str:
        path = resolve_path(self._root, name) if name else self._root
        return str(self._fs._strip_protocol(path))  # noqa: SLF001  fsspec has no public function for this

    @contextlib.contextmanager
    def _converted_errors(self, action: str) -> Iterator[None]:
        """Convert the client's errors, which may have any type, to `StorageError`, except `FileNotFoundError`."""
        try:
            yield
        except (FileNotFoundError, DeltaLiteError):
            raise
        except Exception as error:
            if _is_access_denied(error):
                raise StoragePermissionError(
                    f"No permission to {action} of {self._root}: {_error_text(error)}.",
                    remedy="Name the Airflow connection of the storage in storage_conn_id, or give the worker's "
                    "identity access to the table.",
                ) from error
            raise StorageError(
                f"Could not {action} of {self._root}: {type(error).__name__}: {_error_text(error)}.",
                remedy="Check the storage and the network, then retry the task.",
            ) from error


def _is_access_denied(error: Exception) -> bool:
    """Whether an error means denied access, by its type (s3fs), its status code (other clients) or its message."""
    has_denied_type = isinstance(error, PermissionError) or type(error).__name__ in _CREDENTIAL_ERRORS
    has_message_of_gcsfs = str(error).startswith("Forbidden")
    return has_denied_type or _status(error) in _DENIED_STATUSES or has_message_of_gcsfs


def _is_out_of_range(error: Exception) -> bool:
    """Whether an error means that the requested range is outside of the file."""
    return _status(error) == _OUT_OF_RANGE_STATUS or "range" in str(error).lower()


def _status(error: Exception) -> int | None:
    """Return the HTTP status of an error, which clients store under several names."""
    for name in ("status_code", "status", "code"):
        value = str(getattr(error, name, ""))
        if value.isascii() and value.isdecimal():
            return int(value)
    return None


def _error_text(error: Exception) -> str:
    """Return the text of an error for use within a sentence, without secrets: an error may quote a signed address."""
    return redacted(str(error)).rstrip(".")


class _Reader:
    """A file object that converts its client's errors to `StorageError`."""

    closed = False

    def __init__(self, store: FsspecLogStore, name: str, file: Any) -> None:
        self._store, self._name, self._file = store, name, file

    def read(self, size: int = -1) -> bytes:
        with self._store._converted_errors(f"read {self._name}"):  # noqa: SLF001  a class of this module
            data: bytes = self._file.read(size)
            return data

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True


def modified_ms(entry: dict[str, Any]) -> int:
    """Return the modification time of an entry (milliseconds UTC); 0 if the entry contains none."""
    value = next((entry[key] for key in _TIME_KEYS if entry.get(key) is not None), 0)
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    return int((value.timestamp() if isinstance(value, datetime) else float(value)) * 1000)

"""The interface to storage.

A store belongs to one table: names are relative to its root and use `/`; absolute paths stay as they are. It guarantees
what the protocol requires:

- A file is complete or absent.
- `write_if_absent` succeeds for exactly one writer of a name.
- `list_from` returns every file that was complete before the call.

A lost put is a return value, not an error. After a `StorageError`, the put may have succeeded but cannot succeed later.
If storage may still be processing the put, for example after a timeout, the store raises `CommitStateUnknownError`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file in a listing. Times are milliseconds UTC."""

    name: str
    size_bytes: int
    modified_ms: int


class LogStore(Protocol):
    """Access to the files of one table."""

    @property
    def root(self) -> str:
        """The table's address in canonical form."""
        ...

    def list_from(self, name: str) -> Iterator[StoredFile]:
        """Return the files in the folder of `name`, without subfolders, whose names sort at or after it, in order.

        A folder that does not exist is empty. Files whose names begin with a dot are included only if `name` begins
        with a dot: they are temporary files of writers, and Hadoop's checksums.
        """
        ...

    def read(self, name: str) -> bytes | None:
        """Return the whole content, or None if the file does not exist."""
        ...

    def read_start(self, name: str, size_bytes: int) -> bytes | None:
        """Return the first bytes of a file, or the whole file if it is shorter; None if the file does not exist.

        This is the cheapest read of a file that may be absent or large. It takes one request if the storage can be read
        without a request for the length.
        """
        ...

    def open(self, name: str) -> AbstractContextManager[pa.NativeFile]:
        """Open a file for random access. Raises `FileNotFoundError`."""
        ...

    def write_if_absent(self, name: str, data: bytes) -> bool:
        """Create the complete file unless it exists. Returns True for the writer that created it, else False."""
        ...

    def write(self, name: str, data: bytes) -> None:
        """Create or replace the file. Readers see the old or the new content, never a part of it."""
        ...

    def delete(self, name: str) -> None:
        """Delete the file if it exists."""
        ...

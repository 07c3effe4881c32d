"""The interface to storage.

A store belongs to one table. Names are relative to the table's root and use `/`; a store accepts absolute paths too.
Each store gives these guarantees, which the protocol requires:

- A file is complete or absent.
- `write_if_absent` succeeds for exactly one writer of a name.
- `list_from` returns every file that was complete before the call.

If another writer has created the file, `write_if_absent` returns False and raises no error. After a `StorageError`, the
put may have succeeded, but it cannot succeed later. If storage may still be processing the put, for example after a
timeout, the store raises `CommitStateUnknownError`.
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
        """Return the files in the folder of `name`, from `name` on, in name order and without subfolders.

        A folder that does not exist is empty. If `name` does not begin with a dot, the result omits names that do:
        temporary files of writers, and Hadoop's checksums.
        """
        ...

    def read(self, name: str) -> bytes | None:
        """Return the whole content, or None if the file does not exist."""
        ...

    def read_start(self, name: str, size_bytes: int) -> bytes | None:
        """Return the first bytes of a file, or the whole file if it is shorter; None if the file does not exist.

        This is the cheapest read of a file that may be absent or large. It takes one request, unless the storage needs
        another request for the length of the file.
        """
        ...

    def open(self, name: str) -> AbstractContextManager[pa.NativeFile]:
        """Open a file for random access.

        Raises:
            FileNotFoundError: the file does not exist.
        """
        ...

    def write_if_absent(self, name: str, data: bytes) -> bool:
        """Create the complete file unless it exists. Returns whether this call created the file."""
        ...

    def write(self, name: str, data: bytes) -> None:
        """Create or replace the file. Readers see the old or the new content, never a part of it."""
        ...

    def delete(self, name: str) -> None:
        """Delete the file if it exists."""
        ...

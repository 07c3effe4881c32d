"""The one seam to storage.

A store is bound to one table: names are relative to its root and use `/`, absolute paths are passed through. What it
must give is what the protocol needs: files are complete or absent, `write_if_absent` lets exactly one writer of a
name win, and `list_from` sees every file that was complete before it began. A lost put is a return value; what may
not happen is raised. A put that raises `StorageError` may have landed, and will not land any more; one of which
nobody knows whether storage is still at it, such as a time-out, raises `CommitStateUnknownError`.
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
    """A file as a listing shows it. Times are milliseconds UTC."""

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
        """The files beside `name` (in its folder, not below) whose names sort at or after it, in order.

        A folder that does not exist is empty. Files whose names begin with a dot are shown only where that of `name`
        does: they are temporary files of writers, and checksums of Hadoop's.
        """
        ...

    def read(self, name: str) -> bytes | None:
        """The whole content, or None where there is no such file."""
        ...

    def read_start(self, name: str, size_bytes: int) -> bytes | None:
        """The first bytes of a file, all of a shorter one, or None where there is no such file.

        The cheapest look at a file that may be absent or large: one request, where the storage can be read without
        asking for the length first.
        """
        ...

    def open(self, name: str) -> AbstractContextManager[pa.NativeFile]:
        """Random access to a file. Raises `FileNotFoundError`."""
        ...

    def write_if_absent(self, name: str, data: bytes) -> bool:
        """Create the file, complete, unless it exists: True for the one writer who made it, False for the others."""
        ...

    def write(self, name: str, data: bytes) -> None:
        """Create or replace the file; readers see the old or the new content, never a part."""
        ...

    def delete(self, name: str) -> None:
        """Remove the file; one that is not there is fine."""
        ...

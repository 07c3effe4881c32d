"""A store in memory with injected faults, for tests.

The store implements the whole contract of `LogStore`, so a test can reproduce a race or a crash step by step. It calls
the hook `before` before each access and the hook `after` after it, both with the operation and the name. `open` calls
only `before`. A test can raise an error in a hook, or write the commit of another writer. Times come from the injected
clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from deltalite.storage.log_store import StoredFile

if TYPE_CHECKING:
    import pyarrow as pa

Hook = Callable[[str, str], None]
"""A function that takes the operation and the name of the file."""


def _no_hook(_operation: str, _name: str) -> None:
    return None


class MemoryLogStore:
    """A `LogStore` over a dictionary; tests may read and change `files`, which maps names to (content, modified_ms)."""

    def __init__(self, *, clock_ms: Callable[[], int] | None = None) -> None:
        self.files: dict[str, tuple[bytes, int]] = {}
        self.before: Hook = _no_hook
        self.after: Hook = _no_hook
        self._clock_ms = clock_ms or (lambda: time.time_ns() // 1_000_000)

    @property
    def root(self) -> str:
        """A fixed address."""
        return "memory://table"

    def list_from(self, name: str) -> Iterator[StoredFile]:
        """Yield the files in the folder of `name`, from `name` on, in order; hidden files only if `name` is hidden."""
        self.before("list", name)
        folder, _, first_base = name.rpartition("/")
        for stored_name in sorted(self.files):
            base = stored_name.rpartition("/")[2]
            is_shown = first_base.startswith(".") or not base.startswith(".")
            if stored_name.rpartition("/")[0] == folder and stored_name >= name and is_shown:
                data, modified_ms = self.files[stored_name]
                yield StoredFile(name=stored_name, size_bytes=len(data), modified_ms=modified_ms)
        self.after("list", name)

    def read(self, name: str) -> bytes | None:
        """Return the content, or None."""
        self.before("read", name)
        content = self.files[name][0] if name in self.files else None
        self.after("read", name)
        return content

    def read_start(self, name: str, size_bytes: int) -> bytes | None:
        """Return the first bytes of the content, or None."""
        self.before("read_start", name)
        start = self.files[name][0][:size_bytes] if name in self.files else None
        self.after("read_start", name)
        return start

    def open(self, name: str) -> pa.NativeFile:
        """Open a reader over the content."""
        import pyarrow as pa  # noqa: PLC0415  the store's other methods do not need pyarrow

        self.before("open", name)
        if name not in self.files:
            raise FileNotFoundError(name)
        return pa.BufferReader(self.files[name][0])

    def write_if_absent(self, name: str, data: bytes) -> bool:
        """Store `data` unless the name is taken."""
        self.before("write_if_absent", name)
        is_absent = name not in self.files
        if is_absent:
            self.files[name] = (data, self._clock_ms())
        self.after("write_if_absent", name)
        return is_absent

    def write(self, name: str, data: bytes) -> None:
        """Store `data`."""
        self.before("write", name)
        self.files[name] = (data, self._clock_ms())
        self.after("write", name)

    def delete(self, name: str) -> None:
        """Delete the file if it exists."""
        self.before("delete", name)
        self.files.pop(name, None)
        self.after("delete", name)

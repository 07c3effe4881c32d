"""A table's folder as a tree: listed in parallel, and cleared of files and empty folders.

`LogStore` is for files that are known by name; this is for whoever must see what lies there. A listing shows plain
files and folders. Symbolic links and what else a file system may hold are not followed, not listed and not deleted:
`has_more` only says that the folder is not empty. Names are relative to the table's root and use `/`; nothing outside
of it can be named. What is deleted was a file at that moment, reached without a link.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Protocol

from deltalite.errors import DeltaLiteError


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """What lies directly in a folder; the root's name is empty. Times are milliseconds UTC.

    Of files, which may be very many, `bases` are the names inside the folder, beside their sizes and times. `folders`
    are the whole names of those in it, each with the time of its last change, 0 where the storage has none.
    """

    name: str
    bases: Sequence[str] = ()
    sizes: Sequence[int] = ()
    times_ms: Sequence[int] = ()
    folders: Sequence[tuple[str, int]] = ()
    has_more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """What became of files that were to be deleted; one that was not there counts as neither."""

    deleted: int = 0
    failed: int = 0
    error: DeltaLiteError | None = field(default=None)

    def __add__(self, other: Deletion) -> Deletion:
        return Deletion(
            deleted=self.deleted + other.deleted,
            failed=self.failed + other.failed,
            error=self.error or other.error,
        )


class ListedTree(Protocol):
    """A folder that can be listed, from several threads at once."""

    @property
    def root(self) -> str:
        """The table's address."""
        ...

    @property
    def threads(self) -> int:
        """How many requests at once are best."""
        ...

    def list(self, folder: str) -> Folder:
        """What lies in a folder; nothing where there is none.

        Raises:
            StorageError, StoragePermissionError: it cannot be listed, so that nobody knows what is there.
        """
        ...


class TableTree(ListedTree, Protocol):
    """A folder that can be cleared, from several threads at once."""

    @property
    def batch(self) -> int:
        """How many files are best deleted in one call."""
        ...

    def delete_files(self, names: Sequence[str]) -> Deletion:
        """Delete files, as far as they are there and are plain files. Does not raise for a file that it cannot."""
        ...

    def remove_folder(self, name: str) -> bool:
        """Remove a folder if nothing is in it; whether it did."""
        ...


def walk(tree: ListedTree, visit: Callable[[Folder], Iterable[str]]) -> None:
    """List the root, and then each folder that `visit` names when it is given what lies in the one above.

    Folders come one at a time, in no order but after the one above; a few for each thread are held at once.

    Raises as `ListedTree.list` does: a listing that lacks a part is none.
    """
    threads = tree.threads
    waiting: deque[str] = deque([""])
    running: set[Future[Folder]] = set()
    with ThreadPoolExecutor(max_workers=threads, thread_name_prefix="list") as pool:
        try:
            while waiting or running:
                while waiting and len(running) < 2 * threads:
                    running.add(pool.submit(tree.list, waiting.popleft()))
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    waiting.extend(visit(future.result()))
        finally:
            for future in running:
                future.cancel()

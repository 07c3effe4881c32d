"""The folder tree of a table: parallel listing, and deletion of files and empty folders.

`LogStore` accesses files by name; a tree discovers files. A listing contains plain files and folders. Symbolic links
and other entries are not followed, listed or deleted; `has_more` is then True. Names are relative to the table's root
and use `/`, so they cannot name a file outside of the root. Only plain files that are reachable without a link are
deleted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Protocol

from deltalite.errors import DeltaLiteError


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderContent:
    """The direct content of a folder; the root's name is empty. Times are milliseconds UTC.

    `bases` are the names of the files inside the folder. `sizes` and `times_ms` are the sizes and modification times of
    these files. `folders` are the whole names of subfolders with their modification times; a time is 0 if the storage
    does not store it. `has_more` is True if the folder contains other entries, such as links. `etags` are the ETags of
    the files; empty if the storage has none or the tree does not read them.
    """

    name: str
    bases: Sequence[str] = ()
    sizes: Sequence[int] = ()
    times_ms: Sequence[int] = ()
    folders: Sequence[tuple[str, int]] = ()
    has_more: bool = False
    etags: Sequence[str | None] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """The outcome of a deletion of files. `deleted` and `failed` count files; neither counts a missing file.

    `error` is the first error.
    """

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
    """A folder tree that several threads can list at once."""

    @property
    def root(self) -> str:
        """The table's address."""
        ...

    @property
    def threads(self) -> int:
        """The best number of concurrent requests."""
        ...

    def list(self, folder: str) -> FolderContent:
        """Return the content of a folder; empty if it does not exist.

        Raises:
            StorageError, StoragePermissionError: the folder cannot be listed completely.
        """
        ...


class TableTree(ListedTree, Protocol):
    """A folder tree from which several threads can delete at once."""

    @property
    def files_per_call(self) -> int:
        """The best number of files to delete in one call."""
        ...

    def delete_files(self, names: Sequence[str]) -> Deletion:
        """Delete the plain files among `names` that exist. Reports a failure in the result and raises no error."""
        ...

    def remove_folder(self, name: str) -> bool:
        """Remove a folder if it is empty. Returns whether it was removed."""
        ...


def walk(tree: ListedTree, visit: Callable[[FolderContent], Iterable[str]]) -> None:
    """List the root, and then each folder that `visit` returns for the content of its parent folder.

    `walk` calls `visit` for one folder at a time. A folder comes after its parent; otherwise the order is arbitrary.
    Memory holds a few listings per thread.

    Raises:
        StorageError, StoragePermissionError: a folder cannot be listed completely.
    """
    threads = tree.threads
    unlisted_folders: deque[str] = deque([""])
    running: set[Future[FolderContent]] = set()
    with ThreadPoolExecutor(max_workers=threads, thread_name_prefix="list") as pool:
        try:
            while unlisted_folders or running:
                while unlisted_folders and len(running) < 2 * threads:
                    running.add(pool.submit(tree.list, unlisted_folders.popleft()))
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    unlisted_folders.extend(visit(future.result()))
        finally:
            for future in running:
                future.cancel()

"""Which files are there, and how large they are: by listing their folders, each once, or by asking for each file.

One listing answers for all files of a folder, which on an object store is a thousand times fewer requests than asking
for each; a few files of a large folder are asked for by name. Both happen in parallel, a bounded number at a time.
Listings are kept as sorted names, about a hundred bytes a file. A folder that cannot be looked into, on another storage
or without permission, says nothing about its files.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum

from deltalite.errors import StorageError, StoragePermissionError, UnsupportedStorageError
from deltalite.storage.log_store import LogStore

_MOST_THREADS = 8
_FILES_IN_A_REQUEST = 1_000


class Absent(Enum):
    """Why there is no size: the file is not there, or its folder cannot be looked into."""

    MISSING = "missing"
    UNTOLD = "untold"


@dataclass(frozen=True, slots=True)
class _Folder:
    names: list[str]
    sizes: array[int]


class Presence:
    """The files of a table's folders."""

    def __init__(self, store: LogStore) -> None:
        self._store = store
        self._folders: dict[str, _Folder | None] = {}

    def sizes(self, names: Sequence[str]) -> list[int | Absent]:
        """The size in bytes of each of some files, by their real names as in the log.

        Raises:
            StorageError: storage does not answer.
        """
        self._look_into({name.rpartition("/")[0] for name in names} - self._folders.keys())
        return [self._size(name) for name in names]

    @property
    def unseen(self) -> list[str]:
        """The folders that cannot be looked into."""
        return sorted(folder for folder, found in self._folders.items() if found is None)

    def sizes_by_name(self, names: Sequence[str]) -> list[int | Absent]:
        """The same, without a listing: a request for each file. Raises `StorageError`."""
        with ThreadPoolExecutor(max_workers=_MOST_THREADS, thread_name_prefix="look") as pool:
            sizes = list(pool.map(self._size_by_name, names))
        untold = (name.rpartition("/")[0] for name, size in zip(names, sizes, strict=True) if size is Absent.UNTOLD)
        self._folders.update(dict.fromkeys(untold))
        return sizes

    def _look_into(self, folders: Iterable[str]) -> None:
        ordered = sorted(folders)
        if len(ordered) > 1:
            with ThreadPoolExecutor(max_workers=min(_MOST_THREADS, len(ordered)), thread_name_prefix="list") as pool:
                self._folders.update(zip(ordered, pool.map(self._listed, ordered), strict=True))
        else:
            self._folders.update((folder, self._listed(folder)) for folder in ordered)

    def _listed(self, folder: str) -> _Folder | None:
        names: list[str] = []
        sizes = array("q")
        try:
            for file in self._store.list_from(f"{folder}/" if folder else ""):
                names.append(file.name)
                sizes.append(file.size_bytes)
        except (UnsupportedStorageError, StoragePermissionError):
            return None
        return _Folder(names, sizes)

    def _size(self, name: str) -> int | Absent:
        folder = self._folders[name.rpartition("/")[0]]
        if folder is None:
            return Absent.UNTOLD
        place = bisect_left(folder.names, name)
        is_there = place < len(folder.names) and folder.names[place] == name
        return folder.sizes[place] if is_there else Absent.MISSING

    def _size_by_name(self, name: str) -> int | Absent:
        try:
            with self._store.open(name) as handle:
                return int(handle.size())
        except (FileNotFoundError, NotADirectoryError):
            return Absent.MISSING
        except (UnsupportedStorageError, StoragePermissionError, PermissionError):
            return Absent.UNTOLD
        except OSError as error:
            raise StorageError(
                f"{name} of {self._store.root} cannot be looked at: {error}.",
                remedy="Check the storage; the task may be retried.",
            ) from error


def costs_less_by_name(names: Sequence[str], all_files: int) -> bool:
    """Whether asking for some of the files of a table that has about so many takes no more requests than listing.

    A listing takes one for each folder, and one more for each thousand of files.
    """
    folders = {name.rpartition("/")[0] for name in names}
    return len(names) <= len(folders) + all_files // _FILES_IN_A_REQUEST

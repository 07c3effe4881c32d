"""The existence and sizes of data files, from listings of their folders or from a request per file.

On an object store, one listing request returns up to a thousand files. Requests per file are cheaper for a few files of
a large folder. Both run in parallel, a bounded number at a time. A listing is cached as sorted names, about a hundred
bytes per file. A folder on another storage or without permission cannot be listed; the existence of its files is then
unknown.
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

_MAX_THREADS = 8
_FILES_IN_A_REQUEST = 1_000


class Absent(Enum):
    """The reason for a missing size: the file does not exist, or it is unknown because its folder is inaccessible."""

    MISSING = "missing"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class _Folder:
    names: list[str]
    sizes: array[int]


class Presence:
    """The sizes of the files in a table's folders, with a cache of the listings."""

    def __init__(self, store: LogStore) -> None:
        self._store = store
        self._folders: dict[str, _Folder | None] = {}

    def sizes(self, names: Sequence[str]) -> list[int | Absent]:
        """Return the size in bytes of each file from listings, or the reason why the size is missing.

        `names` are the names in the log, decoded.

        Raises:
            StorageError: storage does not answer.
        """
        self._list_folders({name.rpartition("/")[0] for name in names} - self._folders.keys())
        return [self._size(name) for name in names]

    def sizes_by_cheaper_way(self, names: Sequence[str], num_table_files: int) -> list[int | Absent]:
        """Return the same sizes as `sizes`, with listings or with a request per file, whichever is cheaper.

        `num_table_files` is the approximate number of files of the whole table. Raises `StorageError`.
        """
        by_request = requests_per_file_are_as_cheap(names, num_table_files)
        return self.sizes_by_request(names) if by_request else self.sizes(names)

    @property
    def inaccessible_folders(self) -> list[str]:
        """The folders that are not accessible."""
        return sorted(folder for folder, listing in self._folders.items() if listing is None)

    def sizes_by_request(self, names: Sequence[str]) -> list[int | Absent]:
        """Return the same sizes as `sizes`, with a request per file instead of listings. Raises `StorageError`."""
        with ThreadPoolExecutor(max_workers=_MAX_THREADS, thread_name_prefix="size") as pool:
            sizes = list(pool.map(self._request_size, names))
        inaccessible = (
            name.rpartition("/")[0] for name, size in zip(names, sizes, strict=True) if size is Absent.UNKNOWN
        )
        self._folders.update(dict.fromkeys(inaccessible))
        return sizes

    def _list_folders(self, folders: Iterable[str]) -> None:
        sorted_folders = sorted(folders)
        if len(sorted_folders) > 1:
            num_threads = min(_MAX_THREADS, len(sorted_folders))
            with ThreadPoolExecutor(max_workers=num_threads, thread_name_prefix="list") as pool:
                listings = pool.map(self._list_folder, sorted_folders)
                self._folders.update(zip(sorted_folders, listings, strict=True))
        else:
            self._folders.update((folder, self._list_folder(folder)) for folder in sorted_folders)

    def _list_folder(self, folder: str) -> _Folder | None:
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
            return Absent.UNKNOWN
        index = bisect_left(folder.names, name)
        exists = index < len(folder.names) and folder.names[index] == name
        return folder.sizes[index] if exists else Absent.MISSING

    def _request_size(self, name: str) -> int | Absent:
        try:
            with self._store.open(name) as handle:
                return int(handle.size())
        except (FileNotFoundError, NotADirectoryError):
            return Absent.MISSING
        except (UnsupportedStorageError, StoragePermissionError, PermissionError):
            return Absent.UNKNOWN
        except OSError as error:
            raise StorageError(
                f"The size of {name} in {self._store.root} cannot be read: {error}.",
                remedy="Check the storage, then run the operation again.",
            ) from error


def requests_per_file_are_as_cheap(names: Sequence[str], num_table_files: int) -> bool:
    """Whether one request per file is at most as expensive as listings of the folders.

    Listings take one request per folder, and one more for each thousand files of the table.
    """
    folders = {name.rpartition("/")[0] for name in names}
    return len(names) <= len(folders) + num_table_files // _FILES_IN_A_REQUEST

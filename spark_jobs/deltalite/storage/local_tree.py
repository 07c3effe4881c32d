"""The folder tree of a table in a local or mounted file system.

The tree deletes files through a handle of their folder. It opens the folder part by part and follows no links, so it
never enters a folder that was replaced by a link after the listing. Hadoop keeps a checksum in `.name.crc` beside each
local file; the tree deletes it together with the file.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from itertools import groupby

from deltalite.storage.local import storage_error
from deltalite.storage.trees import Deletion, FolderContent

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY
_FILES_PER_CALL = 500
# A local disk needs only one thread; a mount benefits from several.
_THREADS = 4


class LocalTree:
    """A `TableTree` over a local folder."""

    files_per_call = _FILES_PER_CALL
    threads = _THREADS

    def __init__(self, root: str) -> None:
        self._root = root

    @property
    def root(self) -> str:
        """The table's absolute path."""
        return self._root

    def list(self, folder: str) -> FolderContent:
        """Return the content of a folder. A name that is not UTF-8 only sets `has_more`, because no log can hold it."""
        bases: list[str] = []
        sizes: list[int] = []
        times_ms: list[int] = []
        folders: list[tuple[str, int]] = []
        has_more = False
        try:
            with os.scandir(os.path.join(self._root, folder)) as entries:
                for entry in entries:
                    base = entry.name
                    try:
                        is_file, is_folder = entry.is_file(follow_symlinks=False), entry.is_dir(follow_symlinks=False)
                        if not (is_file or is_folder) or not (base.isascii() or _is_text(base)):
                            has_more = True
                            continue
                        status = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:  # The entry was deleted after the scan began.
                        continue
                    if is_file:
                        bases.append(base)
                        sizes.append(status.st_size)
                        times_ms.append(status.st_mtime_ns // 1_000_000)
                    else:
                        folders.append((f"{folder}/{base}" if folder else base, status.st_mtime_ns // 1_000_000))
        except (FileNotFoundError, NotADirectoryError):  # The folder does not exist, or no longer exists.
            return FolderContent(name=folder)
        except OSError as error:
            raise storage_error(error, f"list {folder or self._root}") from error
        return FolderContent(
            name=folder, bases=bases, sizes=sizes, times_ms=times_ms, folders=folders, has_more=has_more
        )

    def delete_files(self, names: Sequence[str]) -> Deletion:
        """Delete plain files and Hadoop's checksum files beside them, folder by folder."""
        outcome = Deletion()
        for folder, folder_names in groupby(names, lambda name: name.rpartition("/")[0]):
            bases = [name.rpartition("/")[2] for name in folder_names]
            try:
                with self._open_folder(folder) as handle:
                    for base in bases:
                        outcome += self._delete_with_checksum(handle, base)
            # The folder was deleted or replaced by a link since the listing.
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                outcome += Deletion(failed=len(bases), error=storage_error(error, f"open {folder or self._root}"))
        return outcome

    def remove_folder(self, name: str) -> bool:
        """Remove a folder if it is empty. Returns whether it was removed."""
        parent, _, base = name.rpartition("/")
        try:
            with self._open_folder(parent) as handle:
                os.rmdir(base, dir_fd=handle)
        except OSError:  # The folder is not empty, does not exist, or is protected.
            return False
        return True

    @contextlib.contextmanager
    def _open_folder(self, folder: str) -> Iterator[int]:
        """Open a handle of a folder. Raises `NotADirectoryError` if a part of its name is a link."""
        handle = os.open(self._root, _FOLDER_FLAGS)
        try:
            for part in folder.split("/") if folder else ():
                subfolder_handle = os.open(part, _FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=handle)
                os.close(handle)
                handle = subfolder_handle
            yield handle
        finally:
            os.close(handle)

    def _delete_with_checksum(self, handle: int, base: str) -> Deletion:
        """Delete a file and Hadoop's checksum file beside it. The result does not count the checksum file."""
        try:
            if not _unlink_file(handle, base):
                return Deletion()
            with contextlib.suppress(OSError):
                _unlink_file(handle, f".{base}.crc")
        except OSError as error:
            return Deletion(failed=1, error=storage_error(error, f"delete {base} of {self._root}"))
        return Deletion(deleted=1)


def _is_text(base: str) -> bool:
    """Whether a file name is valid UTF-8."""
    try:
        base.encode()
    except UnicodeEncodeError:
        return False
    return True


def _unlink_file(handle: int, base: str) -> bool:
    """Delete a plain file from a folder; return False if the folder contains no such file."""
    try:
        if not stat.S_ISREG(os.stat(base, dir_fd=handle, follow_symlinks=False).st_mode):
            return False
        os.unlink(base, dir_fd=handle)
    except FileNotFoundError:
        return False
    return True

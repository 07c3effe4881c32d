"""The check of a worker, without Spark, that a table has loaded all files of a folder.

The worker lists the folder, and looks up the files in the record of the table. If all files are loaded, the check
returns a result, and the task starts no job. Otherwise the task starts a job, which lists the folder and reads the
record again.
"""

from __future__ import annotations

from deltalite.errors import UnsupportedStorageError
from deltalite.loaded_files.choice import choose_files
from deltalite.loaded_files.listing import SourceFolder, find_files, list_files
from deltalite.loaded_files.manifest import current_manifest_number, read_manifest
from deltalite.loaded_files.record import find_loaded
from deltalite.protocol.actions import NOTHING_LOADED
from deltalite.requests import CopyRequest
from deltalite.requests.source_paths import split_address
from deltalite.results import OperationResult
from deltalite.snapshot import Snapshot
from deltalite.storage.locations import canonical_address, parse_location
from deltalite.storage.log_store import LogStore
from deltalite.storage.opening import listed_tree
from deltalite.storage.trees import FolderContent, ListedTree
from deltalite.txn.loaded_files import result_without_load

_MAX_LISTED_FILES = 100_000


def source_folder(request: CopyRequest) -> str:
    """Return the address of the folder of the source, without a pattern."""
    folder, _ = split_address(request.source.path or "")
    return folder


def result_without_new_files(base: Snapshot, request: CopyRequest, source_store: LogStore) -> OperationResult | None:
    """Return the result of a request if all its files are loaded; None if a file may be new.

    `base` is the newest snapshot of the table. `source_store` has the folder of the source as its root. The result is
    None too if no file matches, or if the request has `force`.

    Raises:
        UnsupportedStorageError: the folder has too many files to list them here.
        DeltaLiteError: the log cannot be read, or the folder cannot be listed.
    """
    manifest_number = current_manifest_number(base.transactions)
    if manifest_number == NOTHING_LOADED or request.force:
        return None
    _, path_pattern = split_address(request.source.path or "")
    address = canonical_address(parse_location(source_store.root))
    folder = SourceFolder(tree=_LimitedTree(listed_tree(source_store)), address=address)
    if request.file_names is not None:
        files = find_files(folder, request.file_names)
    else:
        files = list_files(folder, path_pattern, request.pattern)
    if not files.num_rows:
        return None
    is_loaded = find_loaded(base.store, read_manifest(base.store, manifest_number), files)
    choice = choose_files(files, is_loaded, force=False, max_files=None, max_bytes=None)
    return result_without_load(request, base.store.root, base.version, choice)


class _LimitedTree:
    """A tree that stops the listing of very many files. The job then lists the files."""

    def __init__(self, tree: ListedTree) -> None:
        self._tree, self._file_count = tree, 0

    @property
    def root(self) -> str:
        """The address of the folder."""
        return self._tree.root

    @property
    def threads(self) -> int:
        """The best number of concurrent requests."""
        return self._tree.threads

    def list(self, folder: str) -> FolderContent:
        """Return the content of a folder. Raises `UnsupportedStorageError` if the folders have too many files."""
        content = self._tree.list(folder)
        self._file_count += len(content.bases)
        if self._file_count > _MAX_LISTED_FILES:
            raise UnsupportedStorageError(
                f"{self.root} has more than {_MAX_LISTED_FILES} files.", remedy="Let the job list the files."
            )
        return content

"""The folder tree of a table on any storage that fsspec supports, for listing only.

Listings never come from a cache. Object stores have no real folders, so folders have no modification time.
"""

from __future__ import annotations

from deltalite.storage.fsspec_store import FsspecLogStore, modified_ms
from deltalite.storage.trees import FolderContent

_THREADS = 8


class FsspecTree:
    """A `ListedTree` over the folder of a store."""

    threads = _THREADS

    def __init__(self, store: FsspecLogStore) -> None:
        self._store = store

    @property
    def root(self) -> str:
        """The table's address."""
        return self._store.root

    def list(self, folder: str) -> FolderContent:
        """Return the content of a folder. Symbolic links only set `has_more`."""
        path, entries = self._store.entries(folder)
        children = [(e["name"].rpartition("/")[2], e) for e in entries if e["name"].strip("/") != path.strip("/")]
        without_links = [(base, e) for base, e in children if base and not e.get("islink")]
        files = [(base, e) for base, e in without_links if e["type"] == "file"]
        folders = [base for base, e in without_links if e["type"] == "directory"]
        return FolderContent(
            name=folder,
            bases=[base for base, _ in files],
            sizes=[e["size"] or 0 for _, e in files],
            times_ms=[modified_ms(e) for _, e in files],
            folders=[(f"{folder}/{base}" if folder else base, 0) for base in folders],
            has_more=len(files) + len(folders) < len(children),
        )

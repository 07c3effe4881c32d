"""The tree of a table on any storage that Hadoop reaches, listed with `listStatus`, with bulk deletion where possible.

Names from a listing are never parsed as addresses, because a folder may be called `s3:`. Object stores delete many
files in one request (`BulkDelete`, Hadoop 3.4.1 and later). The response reports failures, but not missing files, so
missing files count as deleted. Folders of object stores have no modification time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from deltalite.errors import DeltaLiteError, StorageError
from deltalite.spark.hadoop.file_statuses import listed_entries
from deltalite.spark.hadoop.files import HADOOP_ERRORS, HadoopFiles, is_missing
from deltalite.spark.hadoop.folders import folder_of
from deltalite.spark.runtime.java_classes import java_class
from deltalite.storage.local_tree import LocalTree
from deltalite.storage.locations import parse_location
from deltalite.storage.trees import Deletion, FolderContent, ListedTree, TableTree

_BULK_DELETE = "fs.capability.bulk.delete"
_ETAG_SOURCE = "org.apache.hadoop.fs.EtagSource"  # Hadoop 3.3.2 and later; S3A and ABFS implement it
_FILES_PER_BATCH = 50
_THREADS = 16


def tree_of(spark: SparkSession, root: str) -> TableTree:
    """Return the tree of the table with the address `root`."""
    if parse_location(root).is_local:
        return LocalTree(root)
    return HadoopTree(HadoopFiles(spark, root), folders_have_times=folder_of(spark, root).has_cheap_rename)


def source_tree(spark: SparkSession, root: str) -> ListedTree:
    """Return the tree of a folder with source files. Its listings have ETags if the storage has them."""
    if parse_location(root).is_local:
        return LocalTree(root)
    return HadoopTree(HadoopFiles(spark, root), folders_have_times=False, reads_etags=True)


class HadoopTree:
    """A `TableTree` over a folder that Hadoop reaches. With `reads_etags`, each file costs two more JVM calls."""

    threads = _THREADS

    def __init__(self, files: HadoopFiles, *, folders_have_times: bool, reads_etags: bool = False) -> None:
        self._files = files
        self._reads_etags = reads_etags
        self._folders_have_times = folders_have_times
        self._bulk_size = self._max_bulk_size() if files.has_capability(_BULK_DELETE) else 1

    @property
    def root(self) -> str:
        """The table's address."""
        return self._files.root

    @property
    def files_per_call(self) -> int:
        """The number of files in one request, or in one thread's batch without bulk deletion."""
        return self._bulk_size if self._bulk_size > 1 else _FILES_PER_BATCH

    def list(self, folder: str) -> FolderContent:
        """Return the content of a folder, empty if there is no such folder."""
        with self._files.errors("list", folder):
            try:
                statuses = self._files.fs.listStatus(self._path(folder))
                entries = listed_entries(self._files.jvm, statuses)
                etags = self._etags(statuses, [n for n, e in enumerate(entries) if e.is_file])
            except HADOOP_ERRORS as error:
                if not is_missing(error):
                    raise
                return FolderContent(name=folder)
        prefix = f"{folder}/" if folder else ""
        files = [e for e in entries if e.is_file]
        folders = [(prefix + e.name, e.modified_ms if self._folders_have_times else 0) for e in entries if e.is_folder]
        return FolderContent(
            name=folder,
            bases=[e.name for e in files],
            sizes=[e.size_bytes for e in files],
            times_ms=[e.modified_ms for e in files],
            folders=folders,
            has_more=len(files) + len(folders) < len(entries),
            etags=etags,
        )

    def delete_files(self, names: Sequence[str]) -> Deletion:
        """Delete files, in one request if the storage supports it, and return the counts."""
        if self._bulk_size > 1:
            return self._delete_in_bulk(names)
        deletion = Deletion()
        for name in names:
            deletion += self._delete(name)
        return deletion

    def remove_folder(self, name: str) -> bool:
        """Remove an empty folder, and return whether it was removed. Hadoop keeps a folder that has content."""
        try:
            return bool(self._files.fs.delete(self._path(name), False))
        except HADOOP_ERRORS:
            return False

    def _delete(self, name: str) -> Deletion:
        try:
            with self._files.errors("delete", name):
                return Deletion(deleted=int(self._files.fs.delete(self._path(name), False)))
        except DeltaLiteError as error:
            return Deletion(failed=1, error=error)

    def _delete_in_bulk(self, names: Sequence[str]) -> Deletion:
        try:
            with self._files.errors("delete", "files"):
                paths = java_class(self._files.jvm, "java.util.ArrayList")()
                for name in names:
                    paths.add(self._path(name))
                bulk = self._files.fs.createBulkDelete(self._path(""))
                try:
                    failures = list(bulk.bulkDelete(paths))
                finally:
                    bulk.close()
        except DeltaLiteError as error:
            return Deletion(failed=len(names), error=error)
        if not failures:
            return Deletion(deleted=len(names))
        first_failure = failures[0]
        storage_error = StorageError(
            f"Could not delete {first_failure.getKey().toString()}: {first_failure.getValue()}.",
            remedy="Check the storage and the permission to delete; the task may be retried.",
        )
        return Deletion(deleted=len(names) - len(failures), failed=len(failures), error=storage_error)

    def _etags(self, statuses: Any, positions: Sequence[int]) -> Sequence[str | None]:
        """Return the ETags of the statuses at these positions; empty if the storage has none, or they are not read."""
        if not self._reads_etags or not positions:
            return []
        etag_source = java_class(self._files.jvm, "java.lang.Class").forName(_ETAG_SOURCE)
        if not etag_source.isInstance(statuses[positions[0]]):
            return []
        return [statuses[position].getEtag() for position in positions]

    def _max_bulk_size(self) -> int:
        with self._files.errors("check"):
            bulk = self._files.fs.createBulkDelete(self._path(""))
            try:
                return int(bulk.pageSize())
            finally:
                bulk.close()

    def _path(self, name: str) -> Any:
        # Hadoop reads the address of a bucket without the final slash as the working directory of the user.
        return self._files.path_of(f"{self._files.uri}/{name}")

"""The folder of a table in the write path: create, list, move and clean up, on any storage.

Names are relative to the table's root. If a rename is one cheap operation (`has_cheap_rename`), files are staged and
then moved. On an object store, files stay in the folder in which they were written. Local folders are accessed without
Spark, and all other folders through Hadoop. If a cleanup cannot remove a file, the file stays, and no error is raised.
No version refers to such a file, and a vacuum deletes it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from pyspark.sql import SparkSession

from deltalite.errors import InvalidTableAddressError, StorageError, StoragePermissionError
from deltalite.spark.hadoop.files import HADOOP_ERRORS, HadoopFiles, error_text, hadoop_setting
from deltalite.spark.hadoop.put import has_hierarchical_namespace
from deltalite.spark.hadoop.uris import spark_uri
from deltalite.storage.locations import parse_location
from deltalite.storage.log_store import StoredFile

_log = logging.getLogger(__name__)
_NOT_REMOVED = "Could not remove %s of %s: %s. No version refers to this file, so a vacuum will delete it."
_MAX_RENAMES = 5
_LOCAL_CLIENT_SETTING = "fs.file.impl"
_CLIENT_WITHOUT_CHECKSUMS = "org.apache.hadoop.fs.RawLocalFileSystem"
# Hadoop file systems that rename in one operation. On other file systems a rename may be a copy.
_SCHEMES_WITH_RENAME = frozenset({"hdfs", "webhdfs", "swebhdfs", "viewfs"})


class TableFolder(Protocol):
    """The files below the root of one table."""

    @property
    def root(self) -> str:
        """The table's address."""
        ...

    @property
    def uri(self) -> str:
        """The address in the form that Spark accepts."""
        ...

    @property
    def has_cheap_rename(self) -> bool:
        """Whether a rename is one cheap operation."""
        ...

    @property
    def write_options(self) -> Mapping[str, str]:
        """Options for Spark writes into this folder."""
        ...

    def make(self, name: str) -> None:
        """Create a folder and its parents."""
        ...

    def names(self) -> list[str]:
        """Return the names of the files and folders directly in the root."""
        ...

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, or None if there is no such file."""
        ...

    def files_below(self, name: str, *, but_not_in: str) -> list[StoredFile]:
        """Return all files below a folder, sorted by name, without those in folders named `but_not_in`."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Move a file, and create the folder of `target`."""
        ...

    def missing_folders(self) -> list[str]:
        """Return the missing folders that a write would create, among the root and its parents.

        A write to an object store creates no folders, so the list is empty.
        """
        ...

    def denial(self, error: Exception) -> StoragePermissionError | None:
        """Return the typed error of a Spark job to which a storage denied access, or None for any other error."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file. If this fails, log a warning."""
        ...

    def remove_tree(self, name: str) -> None:
        """Remove a folder with its content. If this fails, the folder stays, and no error is raised."""
        ...

    def remove_if_empty(self, name: str) -> None:
        """Remove a folder if it is empty. `name` is its name, or its path from `missing_folders`."""
        ...


def folder_of(spark: SparkSession, root: str) -> TableFolder:
    """Return the folder of the table with the address `root`."""
    return _LocalFolder(spark, root) if parse_location(root).is_local else _HadoopFolder(HadoopFiles(spark, root))


class _LocalFolder:
    """A folder of the local file system."""

    has_cheap_rename = True

    def __init__(self, spark: SparkSession, root: str) -> None:
        self._spark = spark
        self._root = Path(root)

    @property
    def root(self) -> str:
        return str(self._root)

    @property
    def uri(self) -> str:
        return spark_uri(self.root)

    @property
    def write_options(self) -> Mapping[str, str]:
        """Options that select Hadoop's client without checksum files, unless the user has chosen a client.

        The default client writes a checksum file for each file, and starts the program `chmod` for both. The checksum
        files are of no use, because the job does not move them to the final place of the data files.
        """
        if hadoop_setting(self._spark, _LOCAL_CLIENT_SETTING) is not None:
            return {}
        # Without the second setting, Hadoop would use its cached client.
        return {_LOCAL_CLIENT_SETTING: _CLIENT_WITHOUT_CHECKSUMS, f"{_LOCAL_CLIENT_SETTING}.disable.cache": "true"}

    def make(self, name: str) -> None:
        with self._errors():
            (self._root / name).mkdir(parents=True, exist_ok=True)

    def names(self) -> list[str]:
        try:
            return sorted(os.listdir(self._root))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def read(self, name: str) -> bytes | None:
        with self._errors(), contextlib.suppress(FileNotFoundError):
            return (self._root / name).read_bytes()
        return None

    def files_below(self, name: str, *, but_not_in: str) -> list[StoredFile]:
        files = []
        for folder, subfolders, names in os.walk(self._root / name):
            subfolders[:] = [subfolder for subfolder in subfolders if subfolder != but_not_in]
            for base in names:
                path = os.path.join(folder, base)
                status = os.stat(path)
                files.append(
                    StoredFile(
                        name=str(Path(path).relative_to(self._root)),
                        size_bytes=status.st_size,
                        modified_ms=status.st_mtime_ns // 1_000_000,
                    )
                )
        return sorted(files, key=lambda file: file.name)

    def rename(self, source: str, target: str) -> None:
        with self._errors():
            _rename_into_place(self._root / source, self._root / target)

    def missing_folders(self) -> list[str]:
        return [str(folder) for folder in (self._root, *self._root.parents) if not folder.exists()]

    def denial(self, error: Exception) -> StoragePermissionError | None:  # noqa: ARG002  `make` finds missing permissions
        return None

    def remove(self, name: str) -> None:
        try:
            (self._root / name).unlink(missing_ok=True)
        except OSError as error:
            _log.warning(_NOT_REMOVED, name, self.root, error)

    def remove_tree(self, name: str) -> None:
        shutil.rmtree(self._root / name, ignore_errors=True)

    def remove_if_empty(self, name: str) -> None:
        with contextlib.suppress(OSError):
            (self._root / name).rmdir()

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except PermissionError as error:
            raise StoragePermissionError(
                f"No permission to write to {self._root}: {error}.",
                remedy="Give the user that runs the job access to the table's folder.",
            ) from error
        except (NotADirectoryError, FileExistsError) as error:
            raise InvalidTableAddressError(
                f"{self._root} cannot be a table: {error}.",
                remedy="Give the address of a folder, or an address that does not exist yet.",
            ) from error
        except OSError as error:
            raise StorageError(
                f"Cannot write to {self._root}: {error}.",
                remedy="Check the disk and the mount; the task may be retried.",
            ) from error


class _HadoopFolder:
    """A folder that Hadoop reaches."""

    write_options: Mapping[str, str] = MappingProxyType({})

    def __init__(self, files: HadoopFiles) -> None:
        self._files = files

    @property
    def root(self) -> str:
        return self._files.root

    @property
    def uri(self) -> str:
        return self._files.uri

    @property
    def has_cheap_rename(self) -> bool:
        return self._files.scheme in _SCHEMES_WITH_RENAME or has_hierarchical_namespace(self._files)

    def read(self, name: str) -> bytes | None:
        return self._files.read(name)

    def make(self, name: str) -> None:
        with self._files.errors("make", name):
            self._files.fs.mkdirs(self._files.path(name))

    def names(self) -> list[str]:
        return sorted(entry.name for entry in self._files.entries(""))

    def files_below(self, name: str, *, but_not_in: str) -> list[StoredFile]:
        files = []
        folders = [name]
        while folders:
            folder = folders.pop()
            for entry in self._files.entries(folder):
                entry_name = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_file:
                    files.append(
                        StoredFile(name=entry_name, size_bytes=entry.size_bytes, modified_ms=entry.modified_ms)
                    )
                elif entry.name != but_not_in:
                    folders.append(entry_name)
        return sorted(files, key=lambda file: file.name)

    def rename(self, source: str, target: str) -> None:
        fs = self._files.fs
        with self._files.errors("move", source):
            for _ in range(_MAX_RENAMES):  # another writer's cleanup may remove the empty folder in between
                fs.mkdirs(self._files.path(target).getParent())
                if fs.rename(self._files.path(source), self._files.path(target)):
                    return
        raise StorageError(
            f"Could not move {source} of {self.root} to {target}.", remedy="Check the storage; the task may be retried."
        )

    def missing_folders(self) -> list[str]:
        if not self.has_cheap_rename:
            return []
        folders, path = [], self._files.path("")
        with self._files.errors("check"):
            while path is not None and not self._files.fs.exists(path):
                folders.append(str(path.toString()))
                path = path.getParent()
        return folders

    def denial(self, error: Exception) -> StoragePermissionError | None:
        return self._files.denial(error)

    def remove(self, name: str) -> None:
        try:
            self._files.fs.delete(self._files.path(name), False)
        except HADOOP_ERRORS as error:
            _log.warning(_NOT_REMOVED, name, self.root, error_text(error))

    def remove_tree(self, name: str) -> None:
        self._delete(name, with_content=True)

    def remove_if_empty(self, name: str) -> None:
        self._delete(name, with_content=False)

    def _delete(self, name: str, *, with_content: bool) -> None:
        with contextlib.suppress(*HADOOP_ERRORS):
            self._files.fs.delete(self._files.path(name), with_content)


def _rename_into_place(source: Path, target: Path) -> None:
    """Create the folder of `target`, and move the file. Retry if another writer's cleanup removes the empty folder.

    Data files have unique names, so an existing target is an error and is not replaced.
    """
    if target.exists():
        raise FileExistsError(f"{target} exists already")
    for _ in range(_MAX_RENAMES):
        target.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.rename(source, target)
            return
    os.rename(source, target)

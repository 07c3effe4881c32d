"""The log store over Hadoop's FileSystem, for tables on any storage that Spark reaches.

The module `put` implements put-if-absent. The store selects the method at the first write, or in `check_writable`,
which a command calls before it reads or writes data. Files are opened for byte ranges, so reading a footer transfers
only the footer. If a reader needs more than 4 MiB of a file, the store copies the file to the driver's disk.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from deltalite.spark.hadoop.files import HADOOP_ERRORS, LARGE_BYTES, HadoopFiles, is_missing
from deltalite.spark.hadoop.put import PutMethod, put_if_absent, put_method_of, replace
from deltalite.spark.runtime.java_classes import java_class
from deltalite.storage.log_store import StoredFile

_READ_POLICY, _RANDOM_ACCESS = "fs.option.openfile.read.policy", "parquet, random"
_MAX_BYTES_BY_RANGES = 4 * LARGE_BYTES


class HadoopLogStore:
    """A `LogStore` over a folder that Hadoop reaches. `root` is the table's canonical address."""

    def __init__(self, spark: SparkSession, root: str, *, single_writer: bool = False) -> None:
        self.files = HadoopFiles(spark, root)
        self._single_writer = single_writer
        self._selected_method: PutMethod | None = None

    @property
    def root(self) -> str:
        """The table's address."""
        return self.files.root

    def check_writable(self) -> PutMethod:
        """Check that the store has a put-if-absent method, and return the method.

        Raises:
            UnsupportedStorageError: the storage has no such method, and `single_writer` is not set.
            StorageError: the storage does not answer.
        """
        return self._put_method

    def list_from(self, name: str) -> Iterator[StoredFile]:
        """Yield the files in the folder of `name` from `name` on, sorted by name.

        Hidden files are left out, unless `name` is hidden.
        """
        folder, _, first = name.rpartition("/")
        entries = [e for e in self.files.entries(folder) if e.is_file and e.name >= first]
        for entry in sorted(entries, key=lambda e: e.name):
            if first.startswith(".") or not entry.name.startswith("."):
                yield StoredFile(
                    name=f"{folder}/{entry.name}" if folder else entry.name,
                    size_bytes=entry.size_bytes,
                    modified_ms=entry.modified_ms,
                )

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, or None if there is no such file."""
        return self.files.read(name)

    def read_start(self, name: str, size_bytes: int) -> bytes | None:
        """Return the first bytes of a file, or None if there is no such file."""
        return self.files.read_start(name, size_bytes)

    @contextmanager
    def open(self, name: str) -> Iterator[pa.NativeFile]:
        """Open a file for random access by byte ranges."""
        with _RangeFile(self.files, name) as range_file, pa.PythonFile(range_file, mode="r") as handle:
            yield handle

    def write_if_absent(self, name: str, data: bytes) -> bool:
        """Create the complete file and return True, or return False if the name exists."""
        return put_if_absent(self.files, self._put_method, name, data)

    def write(self, name: str, data: bytes) -> None:
        """Create or replace the file."""
        replace(self.files, self._put_method, name, data)
        self.files.forget_listing()

    def delete(self, name: str) -> None:
        """Remove the file."""
        path = self.files.path(name)
        with self.files.errors("delete", name):
            self.files.fs_of(path).delete(path, False)

    @property
    def _put_method(self) -> PutMethod:
        """The put-if-absent method, selected once.

        This is not a `cached_property`, because Python 3.11 uses one lock for all instances (see `Snapshot.files`).
        """
        if self._selected_method is None:
            self._selected_method = put_method_of(self.files, single_writer=self._single_writer)
        return self._selected_method


class _RangeFile(io.RawIOBase):
    """A Python file that reads byte ranges of a Hadoop file.

    Raises:
        FileNotFoundError: there is no such file.
    """

    def __init__(self, files: HadoopFiles, name: str) -> None:
        self._files, self._name = files, name
        self._position = self._bytes_by_ranges = 0
        self._local_copy: io.FileIO | None = None
        self._resources = ExitStack()
        path = files.path(name)
        with files.errors("open", name):
            try:
                status = files.fs_of(path).getFileStatus(path)
                opening = (
                    files.fs_of(path).openFile(path).withFileStatus(status).opt(_READ_POLICY, _RANDOM_ACCESS).build()
                )
                self._size = int(status.getLen())
                futures = java_class(files.jvm, "org.apache.hadoop.util.functional.FutureIO")
                self._stream: Any = futures.awaitFuture(opening)
            except HADOOP_ERRORS as error:
                if not is_missing(error):
                    raise
                raise FileNotFoundError(name) from error
        self._resources.callback(self._stream.close)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = start + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def read(self, size: int = -1) -> bytes:
        remaining = max(self._size - self._position, 0)
        requested = remaining if size < 0 else min(size, remaining)
        if not requested:
            return b""
        data = self._read(requested)
        self._position += len(data)
        return data

    def close(self) -> None:
        if not self.closed:
            with self._files.errors("close", self._name):
                self._resources.close()
        super().close()

    def _read(self, size: int) -> bytes:
        if self._local_copy is None and self._bytes_by_ranges + size > _MAX_BYTES_BY_RANGES:
            copy = self._resources.enter_context(self._files.local_copy(self._name))
            self._local_copy = self._resources.enter_context(io.FileIO(copy))
        if self._local_copy is not None:
            self._local_copy.seek(self._position)
            return self._local_copy.read(size) or b""
        self._bytes_by_ranges += size
        with self._files.errors("read", self._name):
            self._stream.seek(self._position)
            return bytes(self._stream.readNBytes(size))

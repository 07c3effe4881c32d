"""Files on whatever storage Hadoop's FileSystem reaches, through the driver's JVM.

Names are relative to one table's root, or absolute, as in `LogStore`; the file system of the root serves the one, its
own the other. What Hadoop throws becomes a typed error here, and nowhere else. Bytes cross between Python and the JVM
at about 10 MB/s, so that large content goes through a file on the driver's disk instead.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from typing import Any, NoReturn

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from deltalite.errors import (
    InvalidTableAddressError,
    StorageError,
    StoragePermissionError,
    UnsupportedStorageError,
)
from deltalite.spark.file_statuses import ListedEntry, listed_entries
from deltalite.spark.uris import spark_uri
from deltalite.storage.locations import resolved

HADOOP_ERRORS = (Py4JError, PySparkException, ConnectionError)
"""What a call into Hadoop raises: PySpark takes some of Java's classes for its own, and the JVM may be gone."""

LARGE_BYTES = 1024 * 1024
_COPY_BUFFER_BYTES = 1024 * 1024
_MISSING = ("java.io.FileNotFoundException", "java.nio.file.NoSuchFileException")
_FORBIDDEN = ("org.apache.hadoop.security.AccessControlException", "java.nio.file.AccessDeniedException")
_NO_STORE = ("org.apache.hadoop.fs.s3a.UnknownStoreException",)
_PACKAGES = {
    "s3a": "org.apache.hadoop:hadoop-aws",
    "abfs": "org.apache.hadoop:hadoop-azure",
    "abfss": "org.apache.hadoop:hadoop-azure",
    "gs": "com.google.cloud.bigdataoss:gcs-connector",
}


class HadoopFiles:
    """Hadoop's view of one table's files.

    Raises:
        UnsupportedStorageError: this Spark has no file system for the scheme.
        StorageError: it cannot be opened.
    """

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.root = root
        self.jvm: Any = spark._jvm
        self._gateway: Any = spark.sparkContext._gateway
        session: Any = spark._jsparkSession
        self.conf: Any = session.sessionState().newHadoopConf()
        self.fs: Any = self._opened(spark_uri(root))
        self.uri: str = self._qualified(spark_uri(root)).rstrip("/")  # a bucket's own path ends with one
        self._file_context: Any = None
        if ":///" in root:  # the authority is Hadoop's default, and other engines may have another
            self.root = self.uri

    @property
    def scheme(self) -> str:
        """That of the file system which serves the root."""
        return str(self.fs.getUri().getScheme())

    def path(self, name: str) -> Any:
        """The Java `Path` of a name."""
        return self.jvm.org.apache.hadoop.fs.Path(spark_uri(resolved(self.root, name)) if name else self.uri)

    def fs_of(self, path: Any) -> Any:
        """The file system that serves a path."""
        if path.toString().startswith(f"{self.uri}/"):
            return self.fs
        return self._opened(path.toString())

    def has_capability(self, name: str) -> bool:
        """Whether the file system says of itself that it can do something, by Hadoop's name for it."""
        with self.errors("look at"):
            return bool(self.fs.hasPathCapability(self.path(""), name))

    def entries(self, folder: str) -> list[ListedEntry]:
        """The files and folders in a folder, in no particular order; none where there is no such folder."""
        path = self.path(folder)
        with self.errors("list", folder):
            try:
                return listed_entries(self.jvm, self.fs_of(path).listStatus(path))
            except HADOOP_ERRORS as error:
                if not is_missing(error):
                    raise
                return []

    def exists(self, name: str) -> bool:
        """Whether there is a file or folder of that name."""
        path = self.path(name)
        with self.errors("look at", name):
            return bool(self.fs_of(path).exists(path))

    def read(self, name: str) -> bytes | None:
        """The whole content, or None where there is no such file."""
        data = self.read_start(name, LARGE_BYTES + 1)
        if data is None or len(data) <= LARGE_BYTES:
            return data
        with self.local_copy(name) as copy, open(copy, "rb") as file:
            return file.read()

    def read_start(self, name: str, size_bytes: int) -> bytes | None:
        """The first bytes, all of a shorter file, or None where there is no such file."""
        path = self.path(name)
        with self.errors("read", name):
            try:
                stream = self.fs_of(path).open(path)
                try:
                    start: bytes = stream.readNBytes(size_bytes)
                finally:
                    stream.close()
            except HADOOP_ERRORS as error:
                if not is_missing(error):
                    raise
                return None
            return start

    @contextlib.contextmanager
    def local_copy(self, name: str) -> Iterator[str]:
        """A copy on the driver's disk, by its path, for as long as the block runs."""
        with tempfile.TemporaryDirectory(prefix="deltalite-") as folder:
            target = os.path.join(folder, "copy")
            self.copy_to(name, target)
            yield target

    def copy_to(self, name: str, target: str) -> None:
        """Copy a file to a path of the driver's disk."""
        path = self.path(name)
        with self.errors("read", name):
            local = self.jvm.org.apache.hadoop.fs.Path(f"file:{target}")
            self.fs_of(path).copyToLocalFile(False, path, local, True)

    def pour(self, data: bytes, stream: Any) -> None:
        """Write all of `data` to a Java output stream and close it; one that fails before its end is not closed.

        For an object store the file begins to be with the close of its stream.
        """
        if len(data) <= LARGE_BYTES:
            stream.write(data)
        else:
            with tempfile.NamedTemporaryFile(prefix="deltalite-") as file:
                file.write(data)
                file.flush()
                source = self.jvm.java.io.FileInputStream(file.name)
                try:
                    self.jvm.org.apache.hadoop.io.IOUtils.copyBytes(source, stream, _COPY_BUFFER_BYTES, False)
                finally:
                    source.close()
        stream.close()

    def rename_options(self, option: str) -> Any:
        """The Java array with one `Options.Rename`, `NONE` or `OVERWRITE`."""
        rename = self.jvm.org.apache.hadoop.fs.Options.Rename
        options = self._gateway.new_array(rename, 1)
        options[0] = getattr(rename, option)
        return options

    @property
    def file_context(self) -> Any:
        """The `FileContext` of the root, whose rename says whether it may replace.

        Not a `cached_property`, for the reason that `Snapshot.files` gives: it connects to the storage.
        """
        if self._file_context is None:
            self._file_context = self.jvm.org.apache.hadoop.fs.FileContext.getFileContext(self.fs.getUri(), self.conf)
        return self._file_context

    @contextlib.contextmanager
    def errors(self, doing: str, name: str = "") -> Iterator[None]:
        """Give what Hadoop throws in the block its type; a driver whose JVM is gone is a storage that is silent."""
        try:
            yield
        except HADOOP_ERRORS as error:
            self.refuse(error, doing, name or "it")

    def refuse(self, error: Exception, doing: str, name: str) -> NoReturn:
        """Raise the typed error for what Hadoop threw."""
        problem = f"Could not {doing} {name} of {self.root}: {said(error)}."
        if threw(error, *_FORBIDDEN):
            raise StoragePermissionError(
                f"No permission to {doing} {name} of {self.root}: {said(error)}.",
                remedy="Give the identity that Spark runs under access to the table.",
            ) from error
        if threw(error, *_NO_STORE):
            raise InvalidTableAddressError(problem, remedy="Correct the name of the bucket, or make it.") from error
        raise StorageError(problem, remedy="Check the storage and the network; the task may be retried.") from error

    def _opened(self, uri: str) -> Any:
        try:
            return self.jvm.org.apache.hadoop.fs.Path(uri).getFileSystem(self.conf)
        except HADOOP_ERRORS as error:
            scheme = uri.partition(":")[0]
            if threw(error, "org.apache.hadoop.fs.UnsupportedFileSystemException") or _lacks_class(error):
                package = _PACKAGES.get(scheme)
                raise UnsupportedStorageError(
                    f"This Spark has no Hadoop file system for '{scheme}' ({said(error)}), which {self.root} needs.",
                    remedy="Add the storage's connector to Spark's classpath"
                    + (f": {package}, of the version that fits Spark's Hadoop, in `packages`." if package else "."),
                ) from error
            self.refuse(error, "open", "the storage")

    def _qualified(self, uri: str) -> str:
        return str(self.fs.makeQualified(self.jvm.org.apache.hadoop.fs.Path(uri)).toString())


def is_missing(error: Exception) -> bool:
    """Whether Hadoop says that there is no such file or folder."""
    return threw(error, *_MISSING)


def threw(error: Exception, *classes: str) -> bool:
    """Whether the Java exception behind an error is of one of the classes, by their whole names, or of one below."""
    thrown = _thrown(error)
    found = None if thrown is None else thrown.getClass()
    while found is not None:
        if found.getName() in classes:
            return True
        found = found.getSuperclass()
    return False


def said(error: Exception) -> str:
    """The Java class and the first line of what it says."""
    thrown = _thrown(error)
    text = str(error if thrown is None else thrown.toString())
    return (text.strip().splitlines() or [type(error).__name__])[0].rstrip(".")


def _thrown(error: Exception) -> Any:
    """The Java exception behind an error, None where there is none."""
    return error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)


def _lacks_class(error: Exception) -> bool:
    return "ClassNotFoundException" in said(error) or "NoClassDefFoundError" in said(error)

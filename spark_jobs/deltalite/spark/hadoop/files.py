"""Files on any storage that Hadoop's FileSystem reaches, through the driver's JVM.

Names are relative to the root of one table, or absolute, as in `LogStore`. The root's file system serves relative
names; an absolute name may be on another file system. This module converts Hadoop's exceptions to typed errors.
Bytes cross between Python and the JVM at about 10 MB/s, so large content goes through a file on the driver's disk.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
from deltalite.spark.hadoop.file_statuses import ListedEntry, listed_entries
from deltalite.spark.hadoop.uris import spark_uri
from deltalite.spark.runtime.java_classes import java_class
from deltalite.storage.locations import resolve_path

HADOOP_ERRORS = (Py4JError, PySparkException, ConnectionError)
"""The errors of a call into Hadoop. PySpark converts some Java exceptions, and the JVM may have stopped."""

LARGE_BYTES = 1024 * 1024
_COPY_BUFFER_BYTES = 1024 * 1024
_MAX_CAUSES = 20
_MISSING_FILE_EXCEPTIONS = ("java.io.FileNotFoundException", "java.nio.file.NoSuchFileException")
_PERMISSION_EXCEPTIONS = ("org.apache.hadoop.security.AccessControlException", "java.nio.file.AccessDeniedException")
# S3 rejects expired credentials as a bad request (400) with one of these codes, and invalid ones with 403.
_BAD_REQUEST_EXCEPTION = "org.apache.hadoop.fs.s3a.AWSBadRequestException"
_EXPIRED_CREDENTIALS_CODES = ("ExpiredToken", "TokenRefreshRequired")
# Google's connectors have no exception class for denied access. The cause of their exception has the answer of HTTP
# or gRPC.
# Google answers `invalid_grant` if it refuses a key of a service account, or if the clock of the machine is wrong.
_GOOGLE_DENIAL = re.compile(
    r"^[\w.$]*GoogleJsonResponseException: 40[13]\b|\b(PERMISSION_DENIED|UNAUTHENTICATED): "
    r'|"error"\s*:\s*"invalid_grant"'
)
# Google may also answer 403 to too many requests, with one of these reasons: rateLimitExceeded, userRateLimitExceeded.
_GOOGLE_THROTTLING = re.compile("rateLimitExceeded", re.IGNORECASE)
_MISSING_BUCKET_EXCEPTIONS = ("org.apache.hadoop.fs.s3a.UnknownStoreException",)
_CONNECTOR_PACKAGES = {
    "s3a": "org.apache.hadoop:hadoop-aws",
    "abfs": "org.apache.hadoop:hadoop-azure",
    "abfss": "org.apache.hadoop:hadoop-azure",
    "gs": "org.apache.hadoop:hadoop-gcp",
}
# Hadoop has a connector for Google Cloud Storage from this version on. Before it, Google's connector is the only one.
_MIN_HADOOP_WITH_GOOGLE = (3, 5)


def default_file_system(spark: SparkSession) -> str:
    """Return the address of the file system in which Spark looks for a path without a scheme (`fs.defaultFS`)."""
    file_system = java_class(spark._jvm, "org.apache.hadoop.fs.FileSystem")
    return str(file_system.getDefaultUri(_hadoop_conf(spark)).toString())


def hadoop_setting(spark: SparkSession, name: str) -> str | None:
    """Return a setting of Hadoop in this session; None if nobody has set it and Hadoop has no default for it."""
    value = _hadoop_conf(spark).get(name)
    return None if value is None else str(value)


def _hadoop_conf(spark: SparkSession) -> Any:
    session: Any = spark._jsparkSession
    return session.sessionState().newHadoopConf()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listing:
    """The listing of a folder: a Java `FileStatus[]`, and the position of each entry with content, by its name."""

    folder: str
    statuses: Any
    positions: Mapping[str, int]


class HadoopFiles:
    """The files of one table in Hadoop's FileSystem.

    Raises:
        UnsupportedStorageError: this Spark has no file system for the scheme.
        StorageError: the file system cannot be opened.
    """

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.root = root
        self.jvm: Any = spark._jvm
        self._gateway: Any = spark.sparkContext._gateway
        self.conf = _hadoop_conf(spark)
        self.fs: Any = self._open_file_system(spark_uri(root))
        self.uri: str = self._qualified(spark_uri(root)).rstrip("/")  # the path of a bucket ends with a slash
        self._file_context: Any = None
        self._newest_listing: _Listing | None = None
        if ":///" in root:  # make Hadoop's default authority explicit; other engines may have another default
            self.root = self.uri

    @property
    def scheme(self) -> str:
        """The scheme of the root's file system."""
        return str(self.fs.getUri().getScheme())

    @property
    def hadoop_version(self) -> str:
        """The version of the driver's Hadoop, such as `3.5.0`."""
        return str(java_class(self.jvm, "org.apache.hadoop.util.VersionInfo").getVersion())

    def path(self, name: str) -> Any:
        """Return the Java `Path` of a name."""
        return self.path_of(spark_uri(resolve_path(self.root, name)) if name else self.uri)

    def path_of(self, uri: str) -> Any:
        """Return the Java `Path` of a URI."""
        return java_class(self.jvm, "org.apache.hadoop.fs.Path")(uri)

    def fs_of(self, path: Any) -> Any:
        """Return the file system that serves a path."""
        if path.toString().startswith(f"{self.uri}/"):
            return self.fs
        return self._open_file_system(path.toString())

    def has_capability(self, name: str) -> bool:
        """Whether the file system reports a capability. `name` is Hadoop's name for the capability."""
        with self.errors("check"):
            return bool(self.fs.hasPathCapability(self.path(""), name))

    def entries(self, folder: str) -> list[ListedEntry]:
        """Return the files and folders in a folder, in no particular order; empty if there is no such folder."""
        path = self.path(folder)
        with self.errors("list", folder):
            try:
                statuses = self.fs_of(path).listStatus(path)
                entries = listed_entries(self.jvm, statuses)
            except HADOOP_ERRORS as error:
                if not is_missing(error):
                    raise
                return []
        # Some storages show a name before its content. With a status of length 0, a read would return no content.
        positions = {entry.name: position for position, entry in enumerate(entries) if entry.size_bytes}
        self._newest_listing = _Listing(folder=folder, statuses=statuses, positions=positions)
        return entries

    def exists(self, name: str) -> bool:
        """Whether there is a file or folder with this name."""
        path = self.path(name)
        with self.errors("check", name):
            return bool(self.fs_of(path).exists(path))

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, or None if there is no such file."""
        data = self.read_start(name, LARGE_BYTES + 1)
        if data is None or len(data) <= LARGE_BYTES:
            return data
        with self.local_copy(name) as copy, open(copy, "rb") as file:
            return file.read()

    def read_start(self, name: str, size_bytes: int) -> bytes | None:
        """Return up to `size_bytes` from the start of a file, or None if there is no such file.

        If the newest listing has the file, the listed status saves a request on S3. If the read with this status fails,
        for example because the file has changed, the file is read again without the status.
        """
        path = self.path(name)
        with self.errors("read", name):
            try:
                if (status := self._listed_status(name)) is not None:
                    try:
                        return _start_of(self._open_listed(path, status), size_bytes)
                    except HADOOP_ERRORS as error:
                        if _is_access_denied(error):
                            raise
                return _start_of(self.fs_of(path).open(path), size_bytes)
            except HADOOP_ERRORS as error:
                if not is_missing(error):
                    raise
                return None

    def forget_listing(self) -> None:
        """Forget the newest listing, because a file in it was overwritten."""
        self._newest_listing = None

    def _open_listed(self, path: Any, status: Any) -> Any:
        """Open a file with the `FileStatus` of a listing, and return the Java input stream."""
        futures = java_class(self.jvm, "org.apache.hadoop.util.functional.FutureIO")
        return futures.awaitFuture(self.fs_of(path).openFile(path).withFileStatus(status).build())

    def _listed_status(self, name: str) -> Any:
        """Return the Java `FileStatus` of a file in the newest listing, or None if the listing lacks it."""
        folder, _, base = name.rpartition("/")
        listed = self._newest_listing
        if listed is None or listed.folder != folder or base not in listed.positions:
            return None
        return listed.statuses[listed.positions[base]]

    @contextlib.contextmanager
    def local_copy(self, name: str) -> Iterator[str]:
        """Yield the path of a copy on the driver's disk, which is removed after the block."""
        with tempfile.TemporaryDirectory(prefix="deltalite-") as folder:
            target = os.path.join(folder, "copy")
            self.copy_to(name, target)
            yield target

    def copy_to(self, name: str, target: str) -> None:
        """Copy a file to a path of the driver's disk."""
        path = self.path(name)
        with self.errors("read", name):
            local = self.path_of(f"file:{target}")
            self.fs_of(path).copyToLocalFile(False, path, local, True)

    def write_and_close(self, data: bytes, stream: Any) -> None:
        """Write all of `data` to a Java output stream, and close the stream.

        After a failure, leave the stream open, because closing it would create the file on an object store.
        """
        if len(data) <= LARGE_BYTES:
            stream.write(data)
        else:
            with tempfile.NamedTemporaryFile(prefix="deltalite-") as file:
                file.write(data)
                file.flush()
                source = java_class(self.jvm, "java.io.FileInputStream")(file.name)
                utils = java_class(self.jvm, "org.apache.hadoop.io.IOUtils")
                try:
                    utils.copyBytes(source, stream, _COPY_BUFFER_BYTES, False)
                finally:
                    source.close()
        stream.close()

    def rename_options(self, option: str) -> Any:
        """Return a Java array with one `Options.Rename`: `NONE` or `OVERWRITE`."""
        rename = java_class(self.jvm, "org.apache.hadoop.fs.Options").Rename
        options = self._gateway.new_array(rename, 1)
        options[0] = getattr(rename, option)
        return options

    @property
    def file_context(self) -> Any:
        """The `FileContext` of the root. Its rename has an option to overwrite.

        This is not a `cached_property`, because Python 3.11 uses one lock for all instances (see `Snapshot.files`).
        """
        if self._file_context is None:
            contexts = java_class(self.jvm, "org.apache.hadoop.fs.FileContext")
            self._file_context = contexts.getFileContext(self.fs.getUri(), self.conf)
        return self._file_context

    @contextlib.contextmanager
    def errors(self, action: str, name: str = "") -> Iterator[None]:
        """Convert Hadoop's exceptions in the block to typed errors. If the JVM has stopped, raise a `StorageError`."""
        try:
            yield
        except HADOOP_ERRORS as error:
            self.raise_typed(error, action, name)

    def raise_typed(self, error: Exception, action: str, name: str) -> NoReturn:
        """Raise the typed error for an exception of Hadoop.

        Args:
            error: the exception.
            action: the failed action as a verb, such as `read`.
            name: the file or the part of the table, or "" for the table's folder.
        """
        subject = f"{name} of {self.root}" if name else self.root
        reason = _reason_text(error)
        problem = f"Could not {action} {subject}: {reason}."
        if _is_access_denied(error):
            raise StoragePermissionError(
                f"No permission to {action} {subject}: {reason}.",
                remedy="Give the identity that Spark runs under access to the table. If its credentials have expired "
                "or were deleted, replace them.",
            ) from error
        if has_java_class(error, *_MISSING_BUCKET_EXCEPTIONS):
            raise InvalidTableAddressError(problem, remedy="Correct the name of the bucket, or create it.") from error
        raise StorageError(problem, remedy="Check the storage and the network; the task may be retried.") from error

    def denial(self, error: Exception) -> StoragePermissionError | None:
        """Return the typed error of a Spark job to which a storage denied access, or None for any other error.

        The storage may hold the table or a source, because one task reads and writes.
        """
        for exception in _java_causes(error):
            text = str(exception.toString())
            # The text of Spark's exceptions repeats the texts of their causes, which come later.
            is_of_spark = exception.getClass().getName().startswith("org.apache.spark.")
            if _is_denial_exception(exception) or (not is_of_spark and _is_denial_of_google(text)):
                return StoragePermissionError(
                    f"No permission for a file that the write to {self.root} reads or writes: {_first_line(text)}.",
                    remedy="Give the identity that Spark runs under access to the table and its sources. If its "
                    "credentials have expired or were deleted, replace them.",
                )
        return None

    def _open_file_system(self, uri: str) -> Any:
        try:
            return self.path_of(uri).getFileSystem(self.conf)
        except HADOOP_ERRORS as error:
            scheme = uri.partition(":")[0]
            has_no_file_system = has_java_class(error, "org.apache.hadoop.fs.UnsupportedFileSystemException")
            if has_no_file_system or _lacks_class(error):
                hint = connector_hint(scheme, self.hadoop_version)
                raise UnsupportedStorageError(
                    f"Cannot open {self.root}: this Spark has no Hadoop file system for '{scheme}' "
                    f"({error_text(error)}).",
                    remedy=f"Add the storage's connector to Spark's classpath{hint}.",
                ) from error
            self.raise_typed(error, "open", "the storage")

    def _qualified(self, uri: str) -> str:
        return str(self.fs.makeQualified(self.path_of(uri)).toString())


def _start_of(stream: Any, size_bytes: int) -> bytes:
    """Return up to `size_bytes` from the start of a Java input stream, and close the stream."""
    try:
        start: bytes = stream.readNBytes(size_bytes)
    finally:
        stream.close()
    return start


def connector_hint(scheme: str, hadoop_version: str) -> str:
    """Return the end of a sentence that names the package of a storage's connector; empty if it is unknown."""
    if scheme not in _CONNECTOR_PACKAGES:
        return ""
    if scheme == "gs" and parsed_version(hadoop_version) < _MIN_HADOOP_WITH_GOOGLE:
        return ": com.google.cloud.bigdataoss:gcs-connector, the jar with the classifier `shaded`, in `jars`"
    return f": {_CONNECTOR_PACKAGES[scheme]}:{hadoop_version} in `packages`"


def parsed_version(hadoop_version: str) -> tuple[int, int]:
    """Return the major and the minor number of a version of Hadoop, such as `3.5.0`."""
    major, minor = hadoop_version.split(".")[:2]
    return int(major), int(minor)


def is_missing(error: Exception) -> bool:
    """Whether the error means that there is no such file or folder."""
    return has_java_class(error, *_MISSING_FILE_EXCEPTIONS)


def _is_access_denied(error: Exception) -> bool:
    """Whether the storage denied access, or the credentials have expired."""
    exception = _java_exception(error)
    is_denial = exception is not None and _is_denial_exception(exception)
    return is_denial or any(map(_is_denial_of_google, _full_texts(error)))


def _is_denial_exception(exception: Any) -> bool:
    """Whether a Java exception of a storage means that access was denied, or that the credentials have expired."""
    if _is_instance(exception, *_PERMISSION_EXCEPTIONS):
        return True
    text = _first_line(str(exception.toString()))
    return _is_instance(exception, _BAD_REQUEST_EXCEPTION) and any(code in text for code in _EXPIRED_CREDENTIALS_CODES)


def _is_denial_of_google(text: str) -> bool:
    return _GOOGLE_DENIAL.search(text) is not None and not _GOOGLE_THROTTLING.search(text)


def has_java_class(error: Exception, *class_names: str) -> bool:
    """Whether the Java exception behind an error is an instance of one of the classes.

    `class_names` contain the packages of the classes.
    """
    exception = _java_exception(error)
    return exception is not None and _is_instance(exception, *class_names)


def _is_instance(exception: Any, *class_names: str) -> bool:
    exception_class = exception.getClass()
    while exception_class is not None:
        if exception_class.getName() in class_names:
            return True
        exception_class = exception_class.getSuperclass()
    return False


def error_text(error: Exception) -> str:
    """Return the Java class and the first line of the message of an error."""
    exception = _java_exception(error)
    return _first_line(str(error if exception is None else exception.toString())) or type(error).__name__


def error_texts(error: Exception) -> list[str]:
    """Return the `error_text` of an error and of each of its causes."""
    return [_first_line(text) for text in _full_texts(error)] or [error_text(error)]


def _full_texts(error: Exception) -> list[str]:
    """Return the Java class and the message of an error and of its causes; empty if no Java exception is known."""
    return [str(exception.toString()) for exception in _java_causes(error)]


def _reason_text(error: Exception) -> str:
    """Return `error_text`, and the cause if the error is a general one.

    Google's connector raises an `IOException` such as "Upload failed". Only the cause tells the reason.
    """
    text, *causes = error_texts(error)
    if not causes or not text.startswith("java.io.IOException: ") or causes[0] in text:
        return text
    return f"{text} ({causes[0]})"


def _first_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[0].rstrip(".")


def _java_causes(error: Exception) -> Iterator[Any]:
    """Yield the Java exception behind an error, if it is known, and its causes."""
    exception = _java_exception(error)
    for _ in range(_MAX_CAUSES):
        if exception is None:
            return
        yield exception
        exception = exception.getCause()


def _java_exception(error: Exception) -> Any:
    """Return the Java exception behind an error, or None."""
    return error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)


def _lacks_class(error: Exception) -> bool:
    return "ClassNotFoundException" in error_text(error) or "NoClassDefFoundError" in error_text(error)

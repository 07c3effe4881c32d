"""Put-if-absent on Hadoop's file systems: how each storage lets exactly one writer create a name.

1 Conditional create (S3A of Hadoop 3.4.2 and later reports this capability): the store rejects the upload if the name
  exists. Some S3-compatible services accept the condition and ignore it, so every service but Amazon's is tested first.
2 HDFS and Azure: write a temporary file, then rename it without overwrite. In an Azure account without a hierarchical
  namespace, the connector of Hadoop 3.5 and later renames by a copy that fails if the target exists. Azure may show the
  target before its content, so readers of the log ignore an empty newest commit.
3 Google Cloud Storage: create without overwrite, which the connector sends as a condition on the generation.
4 Any other storage: check for the file, then rename. Two writers can both believe that they created the file, so the
  user has to accept the risk with `single_writer`.

The storage gives the guarantee, not this process. A put without an answer raises a `StorageError`, or a
`CommitStateUnknownError` if its request may still be running. The log shows the outcome. Hadoop's documents: "The
Hadoop FileSystem API", rename and createFile; the committer notes of each connector.
"""

from __future__ import annotations

import logging
import os
import re
import uuid
from collections.abc import Callable
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from deltalite.errors import CommitStateUnknownError, StorageError, UnsupportedStorageError
from deltalite.spark.hadoop.files import (
    HADOOP_ERRORS,
    HadoopFiles,
    error_text,
    error_texts,
    has_java_class,
    parsed_version,
)

_CONDITIONAL_CREATE = "fs.option.create.conditional.overwrite"
# Azure's connector reports this capability only for accounts with a hierarchical namespace, where a rename is atomic.
_ATOMIC_RENAME_CAPABILITY = "fs.capability.etags.preserved.in.rename"
# Without a hierarchical namespace, older connectors rename by requests that can replace the target.
_MIN_HADOOP_OF_CONDITIONAL_COPY = (3, 5)
_EXISTS_EXCEPTIONS = ("org.apache.hadoop.fs.FileAlreadyExistsException", "java.nio.file.FileAlreadyExistsException")
_CHANGED_EXCEPTION = "org.apache.hadoop.fs.s3a.RemoteFileChangedException"
# A failed condition in the two protocols of Google's clients. In HTTP, the status follows the name of the Java class.
_FAILED_CONDITION = re.compile(r"^[\w.$]+: 412\b|FAILED_PRECONDITION")
_AMAZON_DOMAINS = ("amazonaws.com", "amazonaws.com.cn")
_ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_HDFS_SCHEMES = frozenset({"hdfs", "webhdfs", "swebhdfs"})
_AZURE_SCHEMES = frozenset({"abfs", "abfss"})

_log = logging.getLogger(__name__)


class PutMethod(StrEnum):
    """The method that creates a name: the four numbered cases in the docstring of this module."""

    CONDITIONAL_CREATE = "conditional create"
    RENAME = "rename without overwrite"
    NEW_GENERATION = "create without overwrite"
    CHECK_FIRST = "check first"


def put_method_of(files: HadoopFiles, *, single_writer: bool) -> PutMethod:
    """Return the put-if-absent method of a table's storage.

    Raises:
        UnsupportedStorageError: the storage has no such method, and `single_writer` is not set.
        StorageError: the storage does not answer.
    """
    scheme = files.scheme
    reason, remedy = "does not guarantee that only one writer can create a file", _remedy(scheme)
    if files.has_capability(_CONDITIONAL_CREATE):
        if _enforces_conditions(files):
            return PutMethod.CONDITIONAL_CREATE
        reason = "accepts conditional puts but ignores the condition"
        remedy = "Use a release of the service that enforces the condition."
    if scheme in _HDFS_SCHEMES or has_hierarchical_namespace(files) or _renames_by_conditional_copy(files):
        return PutMethod.RENAME
    if scheme == "gs":
        return PutMethod.NEW_GENERATION
    if single_writer:
        _log.warning(
            "Writing to %s without put-if-absent, because single_writer is set: the storage %s. A second writer at the "
            "same time can lose commits.",
            files.root,
            reason,
        )
        return PutMethod.CHECK_FIRST
    raise UnsupportedStorageError(
        f"Cannot write to {files.root}: its storage ({files.fs.getClass().getName()}) {reason}. Two writers could both "
        "believe that they made the same commit.",
        remedy=f"{remedy} If nobody else writes to the table, set single_writer=True to accept the risk.",
    )


def has_hierarchical_namespace(files: HadoopFiles) -> bool:
    """Whether the files are in an Azure account in which a rename is one atomic operation."""
    return files.scheme in _AZURE_SCHEMES and files.has_capability(_ATOMIC_RENAME_CAPABILITY)


def _renames_by_conditional_copy(files: HadoopFiles) -> bool:
    """Whether the files are in Azure, and its connector is new enough to rename by copies that replace no file."""
    if files.scheme not in _AZURE_SCHEMES:
        return False
    return parsed_version(files.hadoop_version) >= _MIN_HADOOP_OF_CONDITIONAL_COPY


def _enforces_conditions(files: HadoopFiles) -> bool:
    """Whether the service rejects a second conditional put. A probe file tests every service but Amazon's."""
    if files.scheme == "s3a" and _is_amazon(files.fs.getConf().get("fs.s3a.endpoint")):
        return True
    name = f"_delta_log/.put-if-absent-{uuid.uuid4()}"
    try:
        return _create_conditionally(files, name, b"one") and not _create_conditionally(files, name, b"two")
    finally:
        _try_delete(files, files.path(name))


def _is_amazon(endpoint: str | None) -> bool:
    """Whether the client talks to Amazon's own service. The SDK also reads an endpoint from the environment."""
    if not endpoint:
        return not any(os.environ.get(name) for name in _ENDPOINT_VARIABLES)
    host = urlsplit(endpoint if "://" in endpoint else f"//{endpoint}").hostname or ""
    return any(host == domain or host.endswith(f".{domain}") for domain in _AMAZON_DOMAINS)


def _remedy(scheme: str) -> str:
    if scheme == "s3a":
        return "Use hadoop-aws 3.4.2 or later, and leave fs.s3a.create.conditional.enabled on."
    if scheme in _AZURE_SCHEMES:
        return "Use hadoop-azure 3.5 or later, or an account with a hierarchical namespace."
    return "Move the table to a storage with this guarantee."


def put_if_absent(files: HadoopFiles, method: PutMethod, name: str, data: bytes) -> bool:
    """Create the complete file unless its name exists. Return True if this call created it.

    Raises:
        StorageError: the put failed, or its answer was lost.
        CommitStateUnknownError: the file may still be created after this call.
    """
    puts: dict[PutMethod, Callable[[HadoopFiles, str, bytes], bool]] = {
        PutMethod.CONDITIONAL_CREATE: _create_conditionally,
        PutMethod.RENAME: _rename_without_overwrite,
        PutMethod.NEW_GENERATION: _create_without_overwrite,
        PutMethod.CHECK_FIRST: _create_after_check,
    }
    return puts[method](files, name, data)


def replace(files: HadoopFiles, method: PutMethod, name: str, data: bytes) -> None:
    """Create or replace the file.

    Object stores replace a file atomically. On other storages a complete temporary file is renamed to `name`. This is
    atomic on HDFS. On Azure, and with `CHECK_FIRST`, the file is missing for a moment.
    """
    path = files.path(name)
    with files.errors("write", name):
        if method in (PutMethod.CONDITIONAL_CREATE, PutMethod.NEW_GENERATION):
            files.write_and_close(data, files.fs.create(path, True))
            return
        temporary = _temporary_path(files, name)
        try:
            files.write_and_close(data, files.fs.create(temporary, False))
            if method is PutMethod.RENAME:
                files.file_context.rename(temporary, path, files.rename_options("OVERWRITE"))
            else:
                files.fs.delete(path, False)
                if not files.fs.rename(temporary, path):
                    raise _put_error(files, name)
        finally:
            files.fs.delete(temporary, False)


def _create_conditionally(files: HadoopFiles, name: str, data: bytes) -> bool:
    builder = files.fs.createFile(files.path(name))
    with files.errors("create", name):
        try:
            files.write_and_close(data, builder.must(_CONDITIONAL_CREATE, True).overwrite(True).recursive().build())
        except HADOOP_ERRORS as error:
            is_changed = has_java_class(error, _CHANGED_EXCEPTION) and "412" in error_text(error)
            if has_java_class(error, *_EXISTS_EXCEPTIONS) or is_changed:
                return False
            raise
        return True


def _create_without_overwrite(files: HadoopFiles, name: str, data: bytes) -> bool:
    with files.errors("create", name):
        try:
            files.write_and_close(data, files.fs.create(files.path(name), False))
        except HADOOP_ERRORS as error:
            if has_java_class(error, *_EXISTS_EXCEPTIONS) or _is_failed_condition(error):
                return False
            raise
        return True


def _is_failed_condition(error: Exception) -> bool:
    """Whether Google Cloud Storage rejected the condition of an upload.

    The connectors report an error at the end of an upload as "Upload failed". Only the cause tells the reason.
    """
    return any(_FAILED_CONDITION.search(text) for text in error_texts(error))


def _rename_without_overwrite(files: HadoopFiles, name: str, data: bytes) -> bool:
    """Rename a temporary file, and return whether this call created the file `name`.

    Only the rename removes the temporary file, so a missing temporary file shows that the rename happened:

    1. The rename succeeded: this call created the file.
    2. The rename failed, and the temporary file is missing: the rename happened, and the content confirms it.
    3. The rename failed, and the temporary file could be deleted: the rename can no longer happen. The name belongs to
       another writer, or is free.
    4. The rename failed, and the deletion too: the rename may still happen.
    """
    temporary, path = _temporary_path(files, name), files.path(name)
    try:
        with files.errors("create", name):
            files.write_and_close(data, files.fs.create(temporary, False))
    except StorageError:
        _try_delete(files, temporary)
        raise
    try:
        files.file_context.rename(temporary, path, files.rename_options("NONE"))
    except HADOOP_ERRORS as error:
        match _try_delete(files, temporary):
            case False:  # compare the content, because a deletion that was sent twice also returns False
                return files.read(name) == data
            case True if files.exists(name):
                return False
            case True:
                files.raise_typed(error, "create", name)
            case None:
                raise CommitStateUnknownError(
                    f"The storage did not answer the rename to {name} of {files.root}. The rename may still happen: "
                    f"{error_text(error)}.",
                    remedy="Check whether the table's history shows this run, before you run the task again.",
                ) from error
    return True


def _create_after_check(files: HadoopFiles, name: str, data: bytes) -> bool:
    if files.exists(name):
        return False
    temporary, path = _temporary_path(files, name), files.path(name)
    with files.errors("create", name):
        try:
            files.write_and_close(data, files.fs.create(temporary, False))
            if files.fs.rename(temporary, path):
                return True
        finally:
            files.fs.delete(temporary, False)
    if files.exists(name):
        return False
    raise _put_error(files, name)


def _put_error(files: HadoopFiles, name: str) -> StorageError:
    return StorageError(
        f"Could not create {name} of {files.root}.", remedy="Check the storage; the task may be retried."
    )


def _temporary_path(files: HadoopFiles, name: str) -> Any:
    """Return a hidden path beside `name`, which listings and other engines ignore."""
    folder, _, base = name.rpartition("/")
    return files.path(f"{folder}/.{base}.{uuid.uuid4()}.tmp" if folder else f".{base}.{uuid.uuid4()}.tmp")


def _try_delete(files: HadoopFiles, path: Any) -> bool | None:
    """Delete a file. Return whether it existed, or None if the storage does not answer."""
    try:
        return bool(files.fs.delete(path, False))
    except HADOOP_ERRORS:
        return None

"""Put-if-absent on Hadoop's file systems: how each storage lets exactly one writer create a name.

1 Conditional create (S3A of Hadoop 3.4.2 and later reports this capability): the store rejects the upload if the name
  exists. Some S3-compatible services accept the condition and ignore it, so every service but Amazon's is tested first.
2 HDFS, and Azure with a hierarchical namespace: write a temporary file, then rename it without overwrite.
3 Google Cloud Storage: create without overwrite, which the connector sends as a condition on the generation.
4 Any other storage: check for the file, then rename. Two writers can both believe that they won, so the user has to
  accept the risk with `single_writer`.

The storage gives the guarantee, not this process. A put without an answer is a `StorageError`. If a request may still
be running, it is a `CommitStateUnknownError`; the log then shows the outcome. Hadoop's documents: "The Hadoop
FileSystem API", rename and createFile; the committer notes of each connector.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Callable
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from deltalite.errors import CommitStateUnknownError, StorageError, UnsupportedStorageError
from deltalite.spark.hadoop.files import HADOOP_ERRORS, HadoopFiles, said, threw

_CONDITIONAL = "fs.option.create.conditional.overwrite"
# Azure's connector reports this only for accounts with a hierarchical namespace, where a rename is atomic.
_REAL_RENAME = "fs.capability.etags.preserved.in.rename"
_EXISTS = ("org.apache.hadoop.fs.FileAlreadyExistsException", "java.nio.file.FileAlreadyExistsException")
_CHANGED = "org.apache.hadoop.fs.s3a.RemoteFileChangedException"
# How the two protocols of Google's connector report a failed condition.
_REFUSED = ("412", "FAILED_PRECONDITION", "conditionNotMet")
_AMAZON = ("amazonaws.com", "amazonaws.com.cn")
_ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_HDFS = frozenset({"hdfs", "webhdfs", "swebhdfs"})
_AZURE = frozenset({"abfs", "abfss"})

_log = logging.getLogger(__name__)


class PutWay(StrEnum):
    """How a name is created; the numbered cases above."""

    CONDITIONAL_CREATE = "conditional create"
    RENAME = "rename without overwrite"
    NEW_GENERATION = "create without overwrite"
    LOOK_FIRST = "look first"


def way_of(files: HadoopFiles, *, single_writer: bool) -> PutWay:
    """Return the put-if-absent method of a table's storage.

    Raises:
        UnsupportedStorageError: the storage has none, and `single_writer` is not set.
    """
    scheme = files.scheme
    reason, remedy = "does not say that only one writer can create a file", _remedy(scheme)
    if files.has_capability(_CONDITIONAL):
        if _keeps_conditions(files):
            return PutWay.CONDITIONAL_CREATE
        reason, remedy = "takes conditional puts and does not keep them", "Use a release of the service that does."
    if scheme in _HDFS or (scheme in _AZURE and files.has_capability(_REAL_RENAME)):
        return PutWay.RENAME
    if scheme == "gs":
        return PutWay.NEW_GENERATION
    if single_writer:
        _log.warning(
            "The storage of %s %s, and single_writer accepts it: a second writer at the same time can lose commits.",
            files.root,
            reason,
        )
        return PutWay.LOOK_FIRST
    raise UnsupportedStorageError(
        f"The storage of {files.root} ({files.fs.getClass().getName()}) {reason}, so two writers could both believe "
        "that they made one commit.",
        remedy=f"{remedy} Where nobody else writes to the table, single_writer=True accepts the risk.",
    )


def _keeps_conditions(files: HadoopFiles) -> bool:
    """Whether the service rejects a second conditional put. Amazon's does; others are tested with a temporary file."""
    if files.scheme == "s3a" and _is_amazon(files.fs.getConf().get("fs.s3a.endpoint")):
        return True
    name = f"_delta_log/.put-if-absent-{uuid.uuid4()}"
    try:
        return _create_conditionally(files, name, b"one") and not _create_conditionally(files, name, b"two")
    finally:
        _deleted(files, files.path(name))


def _is_amazon(endpoint: str | None) -> bool:
    """Whether the client talks to Amazon's own service. The SDK also reads an endpoint from the environment."""
    if not endpoint:
        return not any(os.environ.get(name) for name in _ENDPOINT_VARIABLES)
    host = urlsplit(endpoint if "://" in endpoint else f"//{endpoint}").hostname or ""
    return any(host == own or host.endswith(f".{own}") for own in _AMAZON)


def _remedy(scheme: str) -> str:
    if scheme == "s3a":
        return "Use hadoop-aws 3.4.2 or later, and leave fs.s3a.create.conditional.enabled on."
    if scheme in _AZURE:
        return "Use an account with a hierarchical namespace."
    return "Keep the table on a storage that does."


def put_if_absent(files: HadoopFiles, way: PutWay, name: str, data: bytes) -> bool:
    """Create the complete file unless its name exists. Return True if this call created it.

    Raises:
        StorageError: the put failed, or its answer was lost.
        CommitStateUnknownError: the file may still be created after this call.
    """
    puts: dict[PutWay, Callable[[HadoopFiles, str, bytes], bool]] = {
        PutWay.CONDITIONAL_CREATE: _create_conditionally,
        PutWay.RENAME: _rename_without_overwrite,
        PutWay.NEW_GENERATION: _create_new,
        PutWay.LOOK_FIRST: _look_first,
    }
    return puts[way](files, name, data)


def replace(files: HadoopFiles, way: PutWay, name: str, data: bytes) -> None:
    """Create or replace the file.

    Object stores replace it atomically. Elsewhere a complete temporary file is renamed to it. This is atomic on HDFS.
    On Azure, and with `LOOK_FIRST`, the file is missing for a moment.
    """
    path = files.path(name)
    with files.errors("write", name):
        if way in (PutWay.CONDITIONAL_CREATE, PutWay.NEW_GENERATION):
            files.pour(data, files.fs.create(path, True))
            return
        temporary = _temporary(files, name)
        try:
            files.pour(data, files.fs.create(temporary, False))
            if way is PutWay.RENAME:
                files.file_context.rename(temporary, path, files.rename_options("OVERWRITE"))
            else:
                files.fs.delete(path, False)
                if not files.fs.rename(temporary, path):
                    raise _failed(files, name)
        finally:
            files.fs.delete(temporary, False)


def _create_conditionally(files: HadoopFiles, name: str, data: bytes) -> bool:
    builder = files.fs.createFile(files.path(name))
    with files.errors("create", name):
        try:
            files.pour(data, builder.must(_CONDITIONAL, True).overwrite(True).recursive().build())
        except HADOOP_ERRORS as error:
            if threw(error, *_EXISTS) or (threw(error, _CHANGED) and "412" in said(error)):
                return False
            raise
        return True


def _create_new(files: HadoopFiles, name: str, data: bytes) -> bool:
    with files.errors("create", name):
        try:
            files.pour(data, files.fs.create(files.path(name), False))
        except HADOOP_ERRORS as error:
            answer = said(error).replace(name.rpartition("/")[2], "")  # the file name may contain these digits
            if threw(error, *_EXISTS) or any(sign in answer for sign in _REFUSED):
                return False
            raise
        return True


def _rename_without_overwrite(files: HadoopFiles, name: str, data: bytes) -> bool:
    """Rename a temporary file. Only this rename can remove it, so its absence afterwards shows whether it happened.

    1. The rename succeeded: this call created the file.
    2. The rename failed, and the temporary file is gone: the rename happened, and the content confirms it.
    3. The rename failed, and the temporary file could be deleted: the rename can no longer happen. The name belongs to
       another writer, or is free.
    4. The rename failed, and the deletion too: the rename may still happen.
    """
    temporary, path = _temporary(files, name), files.path(name)
    try:
        with files.errors("create", name):
            files.pour(data, files.fs.create(temporary, False))
    except StorageError:
        _deleted(files, temporary)
        raise
    try:
        files.file_context.rename(temporary, path, files.rename_options("NONE"))
    except HADOOP_ERRORS as error:
        match _deleted(files, temporary):
            case False:  # compare the content, because a deletion that was sent twice also returns False
                return files.read(name) == data
            case True if files.exists(name):
                return False
            case True:
                files.refuse(error, "create", name)
            case None:
                raise CommitStateUnknownError(
                    f"The rename to {name} of {files.root} was not answered ({said(error)}), and may still happen.",
                    remedy="Look whether the table's history shows this run before it is run again.",
                ) from error
    return True


def _look_first(files: HadoopFiles, name: str, data: bytes) -> bool:
    if files.exists(name):
        return False
    temporary, path = _temporary(files, name), files.path(name)
    with files.errors("create", name):
        try:
            files.pour(data, files.fs.create(temporary, False))
            if files.fs.rename(temporary, path):
                return True
        finally:
            files.fs.delete(temporary, False)
    if files.exists(name):
        return False
    raise _failed(files, name)


def _failed(files: HadoopFiles, name: str) -> StorageError:
    return StorageError(
        f"Could not create {name} of {files.root}.", remedy="Check the storage; the task may be retried."
    )


def _temporary(files: HadoopFiles, name: str) -> Any:
    """Return a hidden path beside `name`, which listings and other engines ignore."""
    folder, _, base = name.rpartition("/")
    return files.path(f"{folder}/.{base}.{uuid.uuid4()}.tmp" if folder else f".{base}.{uuid.uuid4()}.tmp")


def _deleted(files: HadoopFiles, path: Any) -> bool | None:
    """Delete a file. Return whether it existed, or None if the storage does not answer."""
    try:
        return bool(files.fs.delete(path, False))
    except HADOOP_ERRORS:
        return None

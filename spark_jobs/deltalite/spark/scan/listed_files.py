"""The files of the log in Spark's terms: their addresses, their sizes, and Spark's spelling of them.

A path in the log may be relative, absolute, encoded, or contain `..`. Hadoop normalizes it, and a join by file finds a
row only if both sides have the same spelling. Protocol: Add File and Remove File.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import re
from collections.abc import Sequence
from urllib.parse import unquote

from pyspark.sql import DataFrame

from deltalite.errors import CorruptDataFileError
from deltalite.protocol.paths import decode_path
from deltalite.spark.hadoop.uris import spark_uri
from deltalite.spark.scan.native_relation import ListedFile, input_files
from deltalite.storage.locations import resolve_path

_ONE_SLASH = re.compile(r"^file:/+")
# Scheme and authority (absent in a local address), then the path.
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://[^/]*)?(/.*)", re.DOTALL)


def one_of_each_storage(files: Sequence[ListedFile]) -> list[str]:
    """Return the address of one file for each storage except the local one."""
    storages = ((match[1], file.uri) for file in files if (match := _ADDRESS.match(file.uri)) is not None)
    return list({storage: uri for storage, uri in storages if storage is not None}.values())


def listed_file(root: str, path: str, size_bytes: int | None, modified_ms: int | None) -> ListedFile:
    """Return the file of a path in the log."""
    match = _ADDRESS.fullmatch(resolve_path(root, decode_path(path)))
    if match is None:
        raise CorruptDataFileError(
            f"The log names the data file {path!r}, which is not a path.", remedy="Read the table with another engine."
        )
    storage, file_path = match[1] or "", match[2]
    # Spelled as in Hadoop, so that a join by file finds it.
    address = storage + posixpath.normpath(file_path)
    if not storage:
        with contextlib.suppress(OSError):  # a missing file raises an error when it is read
            size_bytes = os.stat(address).st_size
    # Spark ignores empty files, and no data file is empty.
    return ListedFile(uri=spark_uri(address), size_bytes=max(size_bytes or 0, 1), modified_ms=max(modified_ms or 0, 0))


def spellings(relation: DataFrame, files: Sequence[ListedFile]) -> list[str]:
    """Return each file as in `_metadata.file_path`: percent-encoded by Java, with one slash after the scheme."""
    spelled_by_spark = (_ONE_SLASH.sub("file:/", spelled.rstrip("/")) for spelled in input_files(relation))
    spelling_of_uri = {unquote(spelled): spelled for spelled in spelled_by_spark}
    try:
        return [spelling_of_uri[file.uri] for file in files]
    except KeyError as error:
        raise CorruptDataFileError(
            f"The log names the data file {error.args[0]!r}, but Spark changes this name.",
            remedy="Read the table without Spark.",
        ) from error

"""The data files that the log names: their addresses, their sizes, and Spark's spelling of the addresses.

A path in the log may be relative, absolute, encoded, or contain `..`. Hadoop normalizes the path. A join by file needs
the same spelling on both sides. Protocol: Add File and Remove File.
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

_LOCAL_PREFIX_PATTERN = re.compile(r"^file:/+")
# The scheme and the authority, which a local address lacks, then the path.
_ADDRESS_PATTERN = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://[^/]*)?(/.*)", re.DOTALL)


def one_uri_of_each_storage(files: Sequence[ListedFile]) -> list[str]:
    """Return the address of one file for each storage except the local one."""
    storages = ((match[1], file.uri) for file in files if (match := _ADDRESS_PATTERN.match(file.uri)) is not None)
    return list({storage: uri for storage, uri in storages if storage is not None}.values())


def listed_file(root: str, path: str, size_bytes: int | None, modified_ms: int | None) -> ListedFile:
    """Return the file for a path in the log.

    Raises:
        CorruptDataFileError: the text is not a path.
    """
    match = _ADDRESS_PATTERN.fullmatch(resolve_path(root, decode_path(path)))
    if match is None:
        raise CorruptDataFileError(
            f"The log names the data file {path!r}, which is not a path.", remedy="Read the table with another engine."
        )
    storage, file_path = match[1] or "", match[2]
    address = storage + posixpath.normpath(file_path)
    if not storage:
        with contextlib.suppress(OSError):  # Spark reports a missing file when it reads the file
            size_bytes = os.stat(address).st_size
    # Spark ignores empty files, and no data file is empty.
    return ListedFile(uri=spark_uri(address), size_bytes=max(size_bytes or 0, 1), modified_ms=max(modified_ms or 0, 0))


def spellings(relation: DataFrame, files: Sequence[ListedFile]) -> list[str]:
    """Return the address of each file as in `_metadata.file_path`, percent-encoded.

    A local address has one slash after the scheme.

    Raises:
        CorruptDataFileError: Spark reads a file under another name.
    """
    spelled_by_spark = (_LOCAL_PREFIX_PATTERN.sub("file:/", spelled.rstrip("/")) for spelled in input_files(relation))
    spelling_of_uri = {unquote(spelled): spelled for spelled in spelled_by_spark}
    try:
        return [spelling_of_uri[file.uri] for file in files]
    except KeyError as error:
        raise CorruptDataFileError(
            f"The log names the data file {error.args[0]!r}, but Spark reads it under another name.",
            remedy="Read the table without Spark.",
        ) from error

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
_PLACE = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://[^/]*)?(/.*)", re.DOTALL)


def one_of_each_place(files: Sequence[ListedFile]) -> list[str]:
    """Return the address of one file for each storage except the local one."""
    places = ((found[1], file.uri) for file in files if (found := _PLACE.match(file.uri)) is not None)
    return list({place: uri for place, uri in places if place is not None}.values())


def listed_file(root: str, path: str, size_bytes: int | None, modified_ms: int | None) -> ListedFile:
    """Return the file of a path in the log."""
    found = _PLACE.fullmatch(resolve_path(root, decode_path(path)))
    if found is None:
        raise CorruptDataFileError(
            f"The log names the data file {path!r}, which is no path.", remedy="Read the table with another engine."
        )
    place, inside = found[1] or "", found[2]
    # Spelled as in Hadoop, so that a join by file finds it.
    real = place + posixpath.normpath(inside)
    if not place:
        with contextlib.suppress(OSError):  # a missing file raises an error when it is read
            size_bytes = os.stat(real).st_size
    # Spark ignores empty files, and no data file is empty.
    return ListedFile(uri=spark_uri(real), size_bytes=max(size_bytes or 0, 1), modified_ms=max(modified_ms or 0, 0))


def spellings(relation: DataFrame, files: Sequence[ListedFile]) -> list[str]:
    """Return each file as in `_metadata.file_path`: percent-encoded by Java, with one slash after the scheme."""
    spelled_by_spark = (_ONE_SLASH.sub("file:/", spelled.rstrip("/")) for spelled in input_files(relation))
    known = {unquote(spelled): spelled for spelled in spelled_by_spark}
    try:
        return [known[file.uri] for file in files]
    except KeyError as error:
        raise CorruptDataFileError(
            f"The log names the data file {error.args[0]!r}, a name that Spark changes.",
            remedy="Read the table without Spark.",
        ) from error

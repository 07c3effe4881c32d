"""The files that Spark observes in a query: their paths or, if the query reads many files, numbers for the paths.

After each task, the driver merges the observed set and turns it into a text. So the set must stay small. A query over
at most `MAX_KEYS` files observes paths. In a query over more files, each path has one of `MAX_KEYS` numbers, and Spark
observes the numbers. Several paths can have the same number, so the result can contain a few other files too.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.spark.reader.bad_record_lines import address_of, addresses_by_path

MAX_KEYS = 4096
# Spark escapes some characters of a path, and Hadoop spells schemes in several ways. Letters and digits always agree.
_SCHEME_AND_BUCKET = r"^[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?"
_OTHER_CHARACTERS = r"[^A-Za-z0-9]"
_ESCAPES_AND_OTHER_CHARACTERS = rf"%[0-9A-Fa-f]{{2}}|{_OTHER_CHARACTERS}"


def observes_paths(file_count: int) -> bool:
    """Whether a query over this number of files observes their paths."""
    return file_count <= MAX_KEYS


def observed_key(spark_path: Column, file_count: int) -> Column:
    """Return the text to observe for a path in Spark's spelling, in a query over this number of files."""
    if observes_paths(file_count):
        return spark_path
    path = F.regexp_replace(spark_path, _SCHEME_AND_BUCKET, "")
    letters_and_digits = F.regexp_replace(path, _ESCAPES_AND_OTHER_CHARACTERS, "")
    return (F.crc32(letters_and_digits.cast("binary")) % MAX_KEYS).cast("string")


def observed_files(keys: Iterable[str], addresses: Sequence[str]) -> list[str]:
    """Return the addresses to which the observed keys belong. `addresses` are those of all files of the query."""
    if observes_paths(len(addresses)):
        by_path = addresses_by_path(addresses)
        observed_addresses = {address_of(path, by_path) for path in keys}
        return [address for address in addresses if address in observed_addresses]
    observed_numbers = set(keys)
    return [address for address in addresses if _number(address) in observed_numbers]


def _number(address: str) -> str:
    path = re.sub(_SCHEME_AND_BUCKET, "", address)
    letters_and_digits = re.sub(_OTHER_CHARACTERS, "", path)
    return str(zlib.crc32(letters_and_digits.encode()) % MAX_KEYS)

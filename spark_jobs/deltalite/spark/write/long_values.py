"""Partition values that cannot be folder names.

Spark writes each partition into a folder named after its escaped value. File systems allow names of 255 bytes, and one
name is reserved for null. A longer value, or the text of the reserved name, gets a folder named after its hash, and the
log gets the value itself, because directory names have no meaning for readers. The value of a hash is known in advance
or read from the rows a second time. The second read happens only if a file lies in such a folder.
Protocol: Add File and Remove File (`partitionValues`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.errors import SourceError
from deltalite.protocol.paths import HIVE_ESCAPED, HIVE_NULL, partition_dir
from deltalite.spark.columns.names import named

# The limit of HDFS, Linux and macOS. It is applied to object stores too, so that a table can move.
_MAX_BYTES = 255
_STAND_IN = "long-value-"
_HASH_DIGITS = 32


def folder_text(text: Column, name: str) -> Column:
    """Return the folder text of a partition value of the column `name`: the value or its stand-in.

    A value that looks like a stand-in or like the null folder gets a stand-in too, so that folders are unambiguous.
    """
    room = _MAX_BYTES - len(partition_dir({name: "x"}).encode()) + 1
    escaped = F.regexp_replace(text, F.lit(HIVE_ESCAPED.pattern), F.lit("%XX"))
    fits = (F.octet_length(text) * 3 <= room) | (F.octet_length(escaped) <= room)
    stand_in = F.concat(F.lit(_STAND_IN), F.substring(F.sha2(text, 256), 1, _HASH_DIGITS))
    is_itself = fits & ~text.startswith(_STAND_IN) & (text != HIVE_NULL)
    return F.when(text.isNull() | is_itself, text).otherwise(stand_in)


def long_values(
    folders: Iterable[str | None], rows: DataFrame, texts: Mapping[str, Column], known: Iterable[str]
) -> dict[str, str]:
    """Return the value behind each stand-in.

    Args:
        folders: the values in the folder names.
        rows: the written rows.
        texts: for each partition column, its text as an expression over the rows.
        known: possible values; stand-ins for other values are looked up in the rows.

    Raises:
        SourceError: the rows have other values in the second read.
    """
    stand_ins = {value for value in folders if value is not None and value.startswith(_STAND_IN)}
    if not stand_ins:
        return {}
    values = {_stand_in(text): text for text in known}
    for name, text in texts.items() if stand_ins - values.keys() else ():
        folders_and_texts = rows.select(folder_text(text, name).alias("folder"), text.alias("text"))
        replaced = folders_and_texts.where(named("folder").startswith(_STAND_IN)).distinct().collect()
        values |= {row["folder"]: row["text"] for row in replaced}
    if missing := stand_ins - values.keys():
        raise SourceError(
            f"{len(missing)} partition values cannot be folder names, so the input was read again for them. The second "
            "read returned other values.",
            remedy="Write a query that returns the same values each time, or partition by shorter values.",
        )
    return {stand_in: values[stand_in] for stand_in in stand_ins}


def _stand_in(text: str) -> str:
    return _STAND_IN + hashlib.sha256(text.encode()).hexdigest()[:_HASH_DIGITS]

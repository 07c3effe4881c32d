"""Partition values that cannot be folder names.

Spark writes each partition into a folder with the escaped value in its name. File systems allow names of 255 bytes, and
one text is reserved for null. A value that is too long, or equal to the reserved text, gets a stand-in: a text with the
hash of the value. The log gets the value itself, because directory names have no meaning for readers. If the value of a
used stand-in is not known in advance, the rows are read again, once for each partition column.
Protocol: Add File and Remove File (`partitionValues`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.errors import SourceError
from deltalite.protocol.paths import HIVE_ESCAPED, HIVE_NULL, partition_dir
from deltalite.spark.columns.names import column_named

# The limit of HDFS, Linux and macOS. Object stores get the same limit, so that a table can be copied to a file system.
_MAX_BYTES = 255
_STAND_IN_PREFIX = "long-value-"
_HASH_DIGITS = 32


def folder_text(text: Column, name: str) -> Column:
    """Return the folder text of a partition value of the column `name`: the value or its stand-in.

    A value that looks like a stand-in or like the null folder gets a stand-in too, so that folders are unambiguous.
    """
    max_text_bytes = _MAX_BYTES - len(partition_dir({name: "x"}).encode()) + 1
    escaped = F.regexp_replace(text, F.lit(HIVE_ESCAPED.pattern), F.lit("%XX"))
    fits = (F.octet_length(text) * 3 <= max_text_bytes) | (F.octet_length(escaped) <= max_text_bytes)
    stand_in = F.concat(F.lit(_STAND_IN_PREFIX), F.substring(F.sha2(text, 256), 1, _HASH_DIGITS))
    can_name_folder = fits & ~text.startswith(_STAND_IN_PREFIX) & (text != HIVE_NULL)
    return F.when(text.isNull() | can_name_folder, text).otherwise(stand_in)


def values_of_stand_ins(
    folder_values: Iterable[str | None], rows: DataFrame, texts: Mapping[str, Column], known_values: Iterable[str]
) -> dict[str, str]:
    """Return the value behind each stand-in.

    Args:
        folder_values: the values in the folder names.
        rows: the written rows.
        texts: for each partition column, its text as an expression over the rows.
        known_values: values that may occur. For stand-ins of other values, the rows are read again.

    Raises:
        SourceError: the rows have other values in the second read.
    """
    stand_ins = {value for value in folder_values if value is not None and value.startswith(_STAND_IN_PREFIX)}
    if not stand_ins:
        return {}
    values = {_stand_in(text): text for text in known_values}
    for name, text in texts.items() if stand_ins - values.keys() else ():
        folders_and_texts = rows.select(folder_text(text, name).alias("folder"), text.alias("text"))
        has_stand_in = column_named("folder").startswith(_STAND_IN_PREFIX)
        rows_with_stand_in = folders_and_texts.where(has_stand_in).distinct().collect()
        values |= {row["folder"]: row["text"] for row in rows_with_stand_in}
    if unknown_stand_ins := stand_ins - values.keys():
        raise SourceError(
            "The input was read twice, because some partition values cannot be folder names. The second read lacked "
            f"{len(unknown_stand_ins)} of these values.",
            remedy="Write a query that returns the same values each time, or partition by shorter values.",
        )
    return {stand_in: values[stand_in] for stand_in in stand_ins}


def _stand_in(text: str) -> str:
    return _STAND_IN_PREFIX + hashlib.sha256(text.encode()).hexdigest()[:_HASH_DIGITS]

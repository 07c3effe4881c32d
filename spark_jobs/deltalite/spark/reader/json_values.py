"""JSON texts with more text after their first value. Spark's reader reads this value, and silently ignores the rest.

Some writers put several objects into one line, without a separator. With the option `multiLine`, the text is a whole
file. So the objects after the first one would be lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.errors import SourceError
from deltalite.spark.hadoop.uris import load_paths
from deltalite.spark.reader.bad_record_lines import (
    TEXT_SETTINGS,
    LineFormat,
    address_of,
    addresses_by_path,
    line_reader,
    line_text,
)
from deltalite.spark.runtime.session import settings

MORE_TEXT = "has more text after its first JSON value"
_SHOWN_CHARACTERS = 100
# A closing bracket, and after it a text that can begin another value. A text without a match counts as one value, even
# if it is not JSON.
_PERHAPS_MORE = r"[}\]]\s*(?:[^\s,}\]]|,\s*[{\[])"
_BYTE_ORDER_MARK = "\ufeff"
# Spark ignores a comma after an object. If an array has one object in each line, each line ends with a comma.
_COMMA_OR_BLANK = ", \t\r\n"


def has_more_text(text: Column, options: Mapping[str, str]) -> Column:
    """Return whether a text has more text after its first value. `options` are those of Spark's JSON functions."""
    trimmed = F.rtrim(F.ltrim(text, F.lit(_BYTE_ORDER_MARK)), F.lit(_COMMA_OR_BLANK))
    values = F.from_json(_as_array(trimmed), "array<string>", {**options, "mode": "PERMISSIVE"})
    perhaps_more = text.rlike(_PERHAPS_MORE) & ~F.size(values).eqNullSafe(1)
    # `json_array_length` takes no options, but is several times faster. It recognizes most texts of one value.
    return F.when(F.json_array_length(_as_array(text)).eqNullSafe(1), F.lit(False)).otherwise(perhaps_more)


def _as_array(text: Column) -> Column:
    return F.concat(F.lit("["), text, F.lit("]"))


def find_more_text(
    spark: SparkSession, addresses: Sequence[str], line_format: LineFormat, options: Mapping[str, str]
) -> SourceError | None:
    """Return the error for a record with more text after its first value, None if there is no such record.

    `options` are as in `has_more_text`.
    """
    with settings(spark, TEXT_SETTINGS):
        text = line_text(line_format)
        lines = line_reader(spark, line_format).load(load_paths(addresses))
        record = F.struct(F.col("_metadata.file_path"), F.substring(text, 1, _SHOWN_CHARACTERS))
        bad_record = F.when(has_more_text(text, options), record)
        [(first_record,)] = lines.agg(F.first(bad_record, ignorenulls=True)).collect()
    if first_record is None:
        return None
    address = address_of(first_record[0], addresses_by_path(addresses))
    return SourceError(
        f"Nothing was written: a record of {address} {MORE_TEXT}, and Spark reads only that value. The record begins "
        f"with: {first_record[1]}",
        remedy="Write one JSON object in each line. With the option `multiLine`, write one object or one array in each "
        "file. Or set `quarantine`, which leaves out such records.",
    )

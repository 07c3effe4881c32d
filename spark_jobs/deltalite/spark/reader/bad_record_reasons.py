"""The reason why a record of a CSV or JSON file does not fit its schema, as a sentence.

Spark's reader says only that a record is bad. The column expressions here parse the record again, once with the types
and once as texts, and compare the results. Spark computes them for bad records only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows
from pyspark.sql import types as spark_types

from deltalite.protocol.schema import DataType
from deltalite.spark.columns.lost_values import loses_value
from deltalite.spark.columns.names import quoted
from deltalite.spark.columns.types import from_spark
from deltalite.spark.runtime.errors import LOST_VALUE

CORRUPT = "_deltalite_corrupt_record"
"""The column in which Spark's reader returns the text of a bad record."""
PERMISSIVE = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
"""The options with which Spark's reader returns bad records."""
_SHOWN_CHARACTERS = 100
_NESTED_TYPES = (spark_types.StructType, spark_types.ArrayType, spark_types.MapType)


def corrupt_field() -> spark_types.StructField:
    """Return the field of `CORRUPT`."""
    return spark_types.StructField(CORRUPT, spark_types.StringType())


def parsed_record(
    record: Column, file_format: str, columns: spark_types.StructType, options: Mapping[str, str]
) -> Column:
    """Return the record as a struct of the columns and `CORRUPT`, which is null if the record fits."""
    all_options = {**options, **PERMISSIVE}
    schema = spark_types.StructType([*columns.fields, corrupt_field()])
    if file_format == "json":
        return F.from_json(record, schema, all_options)
    return F.from_csv(record, ddl(schema), all_options)


def as_texts(columns: spark_types.StructType) -> spark_types.StructType:
    """Return the columns with the type STRING."""
    return spark_types.StructType(
        [spark_types.StructField(column.name, spark_types.StringType()) for column in columns]
    )


def ddl(columns: spark_types.StructType) -> str:
    """Return the DDL of columns that are not nested."""
    return ", ".join(f"{quoted(column.name)} {column.dataType.simpleString()}" for column in columns)


def reason_of(
    record: Column,
    file_format: str,
    columns: spark_types.StructType,
    options: Mapping[str, str],
    types: Mapping[str, DataType],
    *,
    texts: Column,
    typed: Column,
    other: Column,
) -> Column:
    """Return the reason why a bad record does not fit.

    Args:
        record: the text of the record.
        file_format: `csv` or `json`.
        columns: the columns with the types of the reader.
        options: the options of the source.
        types: the types to which the texts of some columns are converted, by lower-case name.
        texts: the record, parsed with all columns as texts.
        typed: the record, parsed with its columns.
        other: the reason for a record whose values fit their columns, null without one.
    """
    reasons = [_shape_reason(record, texts, file_format, len(columns.fields), options)]
    for column, field in zip(columns.fields, from_spark(columns), strict=True):
        text, value = texts.getField(column.name), typed.getField(column.name)
        to_type = types.get(column.name.lower(), field.type)
        is_bad = text.isNotNull() & value.isNull()
        if isinstance(column.dataType, _NESTED_TYPES):
            parsed_column = parsed_record(record, file_format, spark_types.StructType([column]), options)
            is_bad = text.isNotNull() & parsed_column.getField(CORRUPT).isNotNull()
        reasons.append(F.when(is_bad, _column_reason(column.name, str(to_type), text, "cannot be read as it")))
        is_lost = loses_value(value, field.type, to_type)
        if is_lost is not None:
            reasons.append(F.when(is_lost, _column_reason(column.name, str(to_type), text, LOST_VALUE)))
    return F.coalesce(*reasons, other, F.lit("The record does not fit the schema."))


def _column_reason(name: str, type_text: str, text: Column, problem: str) -> Column:
    beginning = F.concat(F.left(text, F.lit(_SHOWN_CHARACTERS)), F.lit("..."))
    shown_text = F.when(F.length(text) > _SHOWN_CHARACTERS, beginning).otherwise(text)
    prefix = F.lit(f"The column '{name}' has the type {type_text}, and the text '")
    return F.concat(prefix, shown_text, F.lit(f"' {problem}."))


def _shape_reason(
    record: Column, texts: Column, file_format: str, column_count: int, options: Mapping[str, str]
) -> Column:
    """Return the reason if the record has another shape than the schema, else null."""
    if file_format == "json":
        return F.when(texts.getField(CORRUPT).isNotNull(), F.lit("Spark cannot read the record as a JSON object."))
    count = _csv_column_count(record, options)
    is_short = count < column_count
    text = F.concat(
        F.lit("The record has too "),
        F.when(is_short, F.lit("few")).otherwise(F.lit("many")),
        F.lit(" columns: "),
        count.cast("string"),
        F.lit(f" instead of {column_count}."),
    )
    return F.when(count != column_count, text)


def _csv_column_count(record: Column, options: Mapping[str, str]) -> Column:
    """Return the number of columns in a CSV record: the number of separators outside of quotes, plus one."""
    separator, quoted_text = csv_patterns(options)
    without_quotes = record if quoted_text is None else F.regexp_replace(record, quoted_text, "$1x")
    return F.size(F.split(without_quotes, separator))


def csv_patterns(options: Mapping[str, str]) -> tuple[str, str | None]:
    """Return Java's regular expressions for a separator, and for a quoted text at the beginning of a column.

    The second one is None if the source has no quotes. Its first group is the text before the quote.
    """
    values = {name.lower(): value for name, value in options.items()}
    separator = values.get("sep", values.get("delimiter", ","))
    pattern = _escaped("\t" if separator == r"\t" else separator)
    quote, escape = values.get("quote", '"'), values.get("escape", "\\")
    if len(quote) != 1 or quote == "\0":
        return pattern, None
    quote_pattern, escape_pattern = _escaped(quote), _escaped(escape)
    two_quotes = f"{quote_pattern}{quote_pattern}"
    # Possessive quantifiers, because Java's matcher would need a deep stack for a long text.
    other_text = f"[^{quote_pattern}{escape_pattern}]*+"
    inner_quote = two_quotes if escape in ("", quote) else f"(?:{two_quotes}|{escape_pattern}.)"
    quoted_text = f"{quote_pattern}{other_text}(?:{inner_quote}{other_text})*+{quote_pattern}"
    return pattern, f"(?s)(^|{pattern})\\s*+{quoted_text}"


def _escaped(text: str) -> str:
    """Return a regular expression that matches the text, also inside of brackets."""
    return "".join(re.escape(c) if c.isascii() and not c.isalnum() and c != "\t" else c for c in text)

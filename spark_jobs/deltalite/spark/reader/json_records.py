"""The records in the lines of JSON files, parsed by Spark's functions.

A line has one object, or an array of objects. If an object of an array cannot be parsed, all objects of the line are
bad, because Spark's reader rejects the line. If an object can be parsed and does not fit, only this object is bad.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows
from pyspark.sql import types as spark_types

from deltalite.spark.reader.bad_record_lines import FILE, LINE, TEXT
from deltalite.spark.reader.bad_record_reasons import CORRUPT, corrupt_field, parsed_record
from deltalite.spark.reader.json_values import has_more_text
from deltalite.spark.reader.record_schema import RecordSchema

RECORD, SUBJECT, COUNT = "record", "subject", "count"
_ITEMS, _PARSED, _IS_CORRUPT, _IS_UNFIT = "_deltalite_items", "_deltalite_parsed", "is_corrupt", "is_unfit"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """The records of a line.

    - `text`: the line without a byte order mark.
    - `items`: the array of the records, null if `json_texts` returns null.
    - `is_invalid`: whether Spark's reader rejects the line because of invalid UTF-8.
    """

    text: Column
    items: Column
    is_invalid: Column

    @property
    def corrupt_items(self) -> Column:
        return F.filter(self.items, lambda item: item[_IS_CORRUPT])

    @property
    def is_corrupt(self) -> Column:
        """Whether all records of the line are bad."""
        return self.items.isNull() | (F.size(self.corrupt_items) > 0) | self.is_invalid


def json_texts(text: Column, options: Mapping[str, str]) -> Column:
    """Return the texts of the records in a line as an array.

    The array is null if the line begins as an array but is not JSON, or has more text after its first value.
    """
    is_array = text.rlike(r"^[\x00-\x20]*\[")
    no_texts = F.lit(None).cast("array<string>")
    return (
        F.when(has_more_text(text, options), no_texts)
        .when(is_array, F.from_json(text, "array<string>", dict(options)))
        .otherwise(F.array(text))
    )


def without_byte_order_mark(text: Column) -> Column:
    """Return a text without the byte order mark at its beginning."""
    return F.regexp_replace(text, "^\ufeff", "")


def bad_json_records(schema: RecordSchema, lines: DataFrame) -> DataFrame:
    """Return `FILE`, `LINE`, `RECORD`, `SUBJECT` and `COUNT` of the bad records in numbered lines."""
    lines, line = _with_items(schema, lines)
    count = F.when(line.items.isNull() | line.is_invalid, 1).otherwise(F.size(line.items))
    subject = F.coalesce(F.get(line.corrupt_items, F.lit(0))[SUBJECT], line.text)
    corrupt = F.struct(line.text.alias(RECORD), subject.alias(SUBJECT), count.alias(COUNT))
    unfit_items = F.transform(
        F.filter(line.items, lambda item: item[_IS_UNFIT]),
        lambda item: F.struct(item[SUBJECT].alias(RECORD), item[SUBJECT].alias(SUBJECT), F.lit(1).alias(COUNT)),
    )
    records = F.when(line.is_corrupt, F.array(corrupt)).otherwise(unfit_items)
    return lines.select(FILE, LINE, F.inline(records))


def json_rows(schema: RecordSchema, lines: DataFrame) -> DataFrame:
    """Return the columns of `schema`, `CORRUPT`, and the other columns of `lines`, as Spark's reader returns them.

    `CORRUPT` also has the text of a record with a wrong name, although Spark's reader would accept this record.
    """
    other_names = [name for name in lines.columns if name != TEXT]
    lines, line = _with_items(schema, lines)
    parsed_type = spark_types.StructType([*schema.columns.fields, corrupt_field()])
    one_bad = F.array(
        F.struct(F.lit(None).cast(parsed_type).alias(_PARSED), line.text.alias(CORRUPT)),
    )
    rows = F.transform(
        line.items,
        lambda item: F.struct(
            item[_PARSED].alias(_PARSED),
            F.when(line.is_corrupt, line.text).when(schema.name_problem(item[SUBJECT]).isNotNull(), item[SUBJECT])
            .alias(CORRUPT),
        ),
    )  # fmt: skip
    records = F.when(line.items.isNull() | line.is_invalid, one_bad).otherwise(rows)
    names = schema.columns.names
    return lines.select(*other_names, F.inline(records)).select(
        *[F.col(_PARSED).getField(name).alias(name) for name in names], CORRUPT, *other_names
    )


def _with_items(schema: RecordSchema, lines: DataFrame) -> tuple[DataFrame, _Line]:
    """Return the lines with their records in the column `_ITEMS`, and the columns that describe a line."""
    # Spark's reader rejects invalid UTF-8, unless the source names an encoding. It skips a byte order mark.
    is_invalid = F.lit(False) if schema.has_encoding else ~F.is_valid_utf8(F.col(TEXT))
    text = without_byte_order_mark(F.col(TEXT))

    def checked(item: Column) -> Column:
        parsed = parsed_record(item, "json", schema.columns, schema.options)
        return F.struct(
            item.alias(SUBJECT),
            parsed.alias(_PARSED),
            (item.isNull() | parsed.getField(CORRUPT).isNotNull()).alias(_IS_CORRUPT),
            (schema.is_unfit(parsed.getField) | schema.name_problem(item).isNotNull()).alias(_IS_UNFIT),
        )

    lines = lines.withColumn(_ITEMS, F.transform(json_texts(text, schema.options), checked))
    return lines, _Line(text=text, items=F.col(_ITEMS), is_invalid=is_invalid)

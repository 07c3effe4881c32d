"""The schema with which the records of CSV and JSON files are parsed, and the conditions for a bad record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows
from pyspark.sql import types as spark_types

from deltalite.protocol.schema import DataType, StructType
from deltalite.requests import Source
from deltalite.spark.columns.lost_values import any_of, loses_value
from deltalite.spark.columns.types import from_spark
from deltalite.spark.columns.unknown_values import known_values, unknown_name
from deltalite.spark.reader.bad_record_lines import CSV_BLANK, JSON_BLANK, LineFormat, spark_charset
from deltalite.spark.reader.json_names import problem_of_names
from deltalite.spark.reader.json_values import MORE_TEXT, has_more_text

_TRUE = "true"


def lower_options(source: Source) -> Mapping[str, str]:
    """Return the options of a source by their lower-case names."""
    return {name.lower(): value for name, value in source.options.items()}


def line_format_of(source: Source) -> LineFormat | None:
    """Return how the lines of CSV or JSON files are read, or None if a record is not a line that Spark can decode."""
    options, is_csv = lower_options(source), source.format == "csv"
    is_multi_line = options.get("multiline", "false").lower() == _TRUE
    charset = spark_charset(options.get("encoding", options.get("charset", "utf-8")))
    if charset is None or (is_csv and is_multi_line):
        return None
    return LineFormat(
        separator=options.get("linesep"),
        charset=charset,
        has_header=is_csv and options.get("header", "false").lower() == _TRUE,
        comment=options.get("comment") if is_csv else None,
        is_whole_text=is_multi_line,
        blank=CSV_BLANK if is_csv else JSON_BLANK,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSchema:
    """How the records of some files are parsed.

    - `addresses`: the canonical addresses of the files.
    - `columns`: the columns of the files, with the types of Spark's reader.
    - `types`: the types to which texts of these columns are converted, by lower-case name.
    - `table`: the columns of the table, if a value in another column makes a record bad; else None.
    - `names`: the columns of all JSON records, if their names are checked (`json_names.py`); else None.
    """

    source: Source
    addresses: Sequence[str]
    columns: spark_types.StructType
    types: Mapping[str, DataType]
    table: StructType | None = None
    names: StructType | None = None

    @property
    def options(self) -> Mapping[str, str]:
        """The options of the source by their lower-case names."""
        return lower_options(self.source)

    @property
    def line_format(self) -> LineFormat | None:
        """How the lines of the files are read, or None if a record is not a line that Spark can decode."""
        return line_format_of(self.source)

    @property
    def has_encoding(self) -> bool:
        """Whether the source names the encoding of its files."""
        return "encoding" in self.options or "charset" in self.options

    def is_unfit(self, value_of: Callable[[str], Column]) -> Column:
        """Return whether a record has a value that does not fit its column, or whose column is not in the table.

        `value_of` returns the record's value for the name of a column.
        """
        return self._has_lost_value(value_of) | self.unknown_name(value_of).isNotNull()

    def unknown_name(self, value_of: Callable[[str], Column]) -> Column:
        """Return the path of a column that the table lacks and that has a value; null if all columns are known."""
        name = None if self.table is None else unknown_name(value_of, from_spark(self.columns), self.table)
        return F.lit(None).cast("string") if name is None else name

    def name_problem(self, text: Column) -> Column:
        """Return the problem of the names in a JSON object, as a sentence; null without a problem."""
        if self.names is None:
            return F.lit(None).cast("string")
        return problem_of_names(text, self.names, self.options)

    def other_reason(self, text: Column, value_of: Callable[[str], Column]) -> Column:
        """Return why a record is bad although each value fits its column; null without such a reason."""
        unknown = F.concat(F.lit("The table has no column '"), self.unknown_name(value_of), F.lit("'."))
        if self.source.format != "json":
            return unknown
        more_text = F.when(has_more_text(text, self.options), F.lit(f"The record {MORE_TEXT}."))
        return F.coalesce(more_text, self.name_problem(text), unknown)

    def without_unknown_columns(self, frame: DataFrame) -> DataFrame:
        """Return the rows without the columns that the table lacks."""
        return frame if self.table is None else known_values(frame, from_spark(self.columns), self.table)

    def _has_lost_value(self, value_of: Callable[[str], Column]) -> Column:
        """Return whether a text does not convert to the type of its column."""
        conditions = [
            loses_value(value_of(column.name), column.type, self.types[column.name.lower()])
            for column in from_spark(self.columns)
            if column.name.lower() in self.types
        ]
        lost = any_of([condition for condition in conditions if condition is not None])
        return F.lit(False) if lost is None else F.coalesce(lost, F.lit(False))

"""Conversion of a text to another simple type, if the conversion loses nothing.

UPDATE and MERGE accept a text for a number, a decimal, a boolean, a date, a time or bytes, as delta-spark does under
ANSI store assignment. delta-spark rounds and cuts such texts. Here a text does not convert if it would lose digits, a
time of day or a time zone. A text without a year, such as `now` or `10:00`, does not convert either, because Spark
would add the current date. A load of files uses the same conversion for the values that it reads as texts.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.protocol.schema import DecimalType, PrimitiveType
from deltalite.spark.columns.types import spark_type

TYPES_FROM_TEXT = frozenset(
    {"byte", "short", "integer", "long", "float", "double", "boolean", "binary", "date", "timestamp", "timestamp_ntz"}
)
"""The types, besides decimals, that a text can convert to."""

_NUMBER_PATTERN = r"^\s*[+-]?(\d*)\.?(\d*)(?:[eE]([+-]?\d+))?\s*$"
_DAY_PATTERN_START = r"[+-]?\d{4,7}(-\d{1,2}(-\d{1,2}"
_TIME_PATTERN = r"\d{1,2}(:\d{1,2}(:\d{1,2}(\.\d{0,6}0*)?)?)?"
# The spellings of dates and times that Spark accepts, without and with a time zone. Spark drops digits below
# microseconds, so only zeros may stand there.
_DATE_TIME_PATTERN = rf"^\s*{_DAY_PATTERN_START}([ T]({_TIME_PATTERN})?)?)?)?\s*$"
_ZONED_DATE_TIME_PATTERN = rf"^\s*{_DAY_PATTERN_START}([ T]({_TIME_PATTERN}\s*([A-Za-z+-][\w:/+-]*)?)?)?)?)?\s*$"


def text_value(value: Column, to_type: PrimitiveType | DecimalType) -> Column:
    """Return the text `value` converted to the type `to_type`, or null if it does not convert without loss."""
    converted = value.try_cast(spark_type(to_type))
    match to_type:
        case DecimalType() | PrimitiveType("float" | "double"):
            return F.when(_has_same_digits(value, converted), converted)
        case PrimitiveType("date"):
            # A text with a time of day is a date only at midnight.
            is_midnight = converted.cast("timestamp_ntz") == value.try_cast("timestamp_ntz")
            return F.when(value.rlike(_DATE_TIME_PATTERN) & is_midnight, converted)
        case PrimitiveType("timestamp_ntz"):
            return F.when(value.rlike(_DATE_TIME_PATTERN), converted)
        case PrimitiveType("timestamp"):
            return F.when(value.rlike(_ZONED_DATE_TIME_PATTERN), converted)
        case _:
            return converted


def _has_same_digits(text: Column, number: Column) -> Column:
    """Whether the text has exactly the digits of the number in Spark's shortest spelling."""
    return _digits(text) == _digits(number.cast("string"))


def _digits(text: Column) -> Column:
    """Return the significant digits of a number, and the place of the last digit: `15e-1` for `1.50`, `e0` for zero.

    The sign is left out. A text without digits, such as `NaN`, is `e0` too.
    """
    whole, fraction, exponent = (F.regexp_extract(text, _NUMBER_PATTERN, group) for group in (1, 2, 3))
    without_leading_zeros = F.regexp_replace(F.concat(whole, fraction), "^0+", "")
    significant = F.regexp_replace(without_leading_zeros, "0+$", "")
    trailing_zeros = F.length(without_leading_zeros) - F.length(significant)
    place = F.coalesce(exponent.try_cast("int"), F.lit(0)) - F.length(fraction) + trailing_zeros
    return F.concat_ws("e", significant, F.when(significant == "", 0).otherwise(place).cast("string"))

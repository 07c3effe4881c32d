"""Partition values: strings in the log, typed values everywhere else.

Null and the empty string both mean null, for every type. Timestamps are read in both spellings of the protocol; the one
without a zone means UTC here, since the log does not say which zone its writer had. Writing them is Spark's work, see
`spark/staging.py`. Protocol: Partition Value Serialization.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, assert_never

from deltalite.errors import CorruptLogError, UnsupportedFeatureError
from deltalite.protocol.schema import ArrayType, DataType, DecimalType, MapType, PrimitiveType, StructType

# `-9999-12-31`, `0000-01-01`, `+10000-01-01`: years that Spark writes and Python's calendar does not have.
_YEAR_BEYOND_PYTHON = re.compile(r"(?:[-+]\d{4,}|0000|\d{5,})-\d\d-\d\d")
_MOMENTS = frozenset({"date", "timestamp", "timestamp_ntz"})


def parse_partition_value(text: str | None, data_type: DataType) -> Any:
    """The Python value: int, float, Decimal, str, bytes, bool, date, or datetime (aware for timestamp, naive for ntz).

    Raises:
        CorruptLogError: the text is no value of the type.
        UnsupportedFeatureError: it is a time outside the years 1 to 9999.
    """
    if text is None or text == "":
        return None
    try:
        return _parse(text, data_type)
    except (ValueError, InvalidOperation, KeyError, OverflowError) as error:
        is_moment = isinstance(data_type, PrimitiveType) and data_type.name in _MOMENTS
        if is_moment and (isinstance(error, OverflowError) or _YEAR_BEYOND_PYTHON.match(text)):
            raise UnsupportedFeatureError(
                f"The log has the partition value {text!r}; this release partitions by the years 1 to 9999 only.",
                remedy="Read the table with another engine, or leave that partition out.",
            ) from error
        raise CorruptLogError(
            f"The log has the partition value {text!r}, which is no {data_type}.",
            remedy="Repair the log with the engine that wrote it.",
        ) from error


def _parse(text: str, data_type: DataType) -> Any:  # noqa: C901  one arm a type
    match data_type:
        case DecimalType():
            return Decimal(text)
        case PrimitiveType("string"):
            return text
        case PrimitiveType("byte" | "short" | "integer" | "long"):
            return int(text)
        case PrimitiveType("float" | "double"):
            return float(text)
        case PrimitiveType("boolean"):
            return {"true": True, "false": False}[text.lower()]
        case PrimitiveType("date"):
            return date.fromisoformat(text)
        case PrimitiveType("timestamp"):
            moment = datetime.fromisoformat(text)
            return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
        case PrimitiveType("timestamp_ntz"):
            return datetime.fromisoformat(text).replace(tzinfo=None)
        case PrimitiveType("binary"):
            return text.encode("utf-8", "surrogateescape")
        case PrimitiveType() | ArrayType() | MapType() | StructType():
            raise ValueError(f"{data_type} cannot partition a table")
        case _:
            assert_never(data_type)

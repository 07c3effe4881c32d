"""Conversion of table values to JSON and to terminal text.

The JSON form is stable, and lossless where JSON allows it:

- times: ISO 8601, with `Z` if the type has a zone
- decimals: strings with all digits
- binaries: Base64
- floats that JSON cannot hold as numbers: the strings `NaN`, `Infinity` and `-Infinity`
- maps: an object if the keys are distinct strings, else a list of objects with `key` and `value`

Times are formatted by Arrow, because Python's calendar ends at the year 9999. A table may contain control sequences for
a terminal, so characters that are not printable are escaped.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyarrow import types


def json_text(value: Any, encoding: str = "utf-8") -> str:
    """Serialize a value to one line of JSON: a JSON value, a record of the library, or a nesting of both.

    If `encoding` cannot encode the text, for example because of a lone surrogate, all non-ASCII characters are escaped.
    """
    converted = _json_value_of_python(value)
    text = json.dumps(converted, ensure_ascii=False, allow_nan=False)
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return json.dumps(converted, ensure_ascii=True, allow_nan=False)
    return text


def json_value(scalar: pa.Scalar) -> Any:
    """Convert an Arrow scalar to a JSON value."""
    if not scalar.is_valid:
        return None
    data_type = scalar.type
    if isinstance(data_type, pa.BaseExtensionType):
        return json_value(scalar.value)
    if types.is_struct(data_type):
        return {field.name: json_value(scalar[index]) for index, field in enumerate(data_type)}
    if types.is_map(data_type):
        pairs = [(json_value(entry[0]), json_value(entry[1])) for entry in scalar.values]
        is_object = types.is_string(data_type.key_type) and len({key for key, _ in pairs}) == len(pairs)
        return dict(pairs) if is_object else [{"key": key, "value": value} for key, value in pairs]
    if types.is_nested(data_type):
        return [json_value(item) for item in scalar.values]
    if types.is_timestamp(data_type):
        return _format_timestamp(scalar)
    if types.is_temporal(data_type):
        return scalar.cast(pa.string()).as_py()
    return _json_value_of_python(scalar.as_py())


def cell(value: Any) -> str:
    """Format a JSON value for a cell of a table for people."""
    if value is None:
        return "null"
    return printable(value if isinstance(value, str) else json_text(value))


def printable(text: str) -> str:
    """Return the text with escapes in place of the characters that are not printable."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def time_cell(time: datetime | None) -> str:
    """Format a UTC time in whole seconds for a table for people; an empty text for None."""
    return "" if time is None else f"{time:%Y-%m-%d %H:%M:%S}Z"


def _format_timestamp(scalar: pa.Scalar) -> str:
    """Format a timestamp as `2026-01-01T10:20:30.5Z`, without trailing zeros."""
    text: str = scalar.cast(pa.string()).as_py().replace(" ", "T")
    whole, dot, fraction = text.removesuffix("Z").partition(".")
    fraction = fraction.rstrip("0")
    return f"{whole}{dot if fraction else ''}{fraction}{'Z' if scalar.type.tz is not None else ''}"


def _json_value_of_python(value: Any) -> Any:
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
        case Decimal():
            return format(value, "f")
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case date():
            return value.isoformat()
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case Mapping():
            return {str(key): _json_value_of_python(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_json_value_of_python(item) for item in value]
        case _:
            return str(value)

"""Values of tables as JSON and as text of a terminal.

JSON is lossless where it can be and stable: times are ISO 8601, with `Z` where the type has a zone; decimals are texts
with all their digits; binaries are Base64; a float that JSON cannot say is the text `NaN`, `Infinity` or `-Infinity`; a
map with texts for keys is an object, any other a list of objects with `key` and `value`. Values go from Arrow to text
without Python's calendar, so that every year a table may hold is shown. What a table holds may be hostile to a
terminal: characters that do not print are escaped.
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
    """One line of JSON of a plain value: of what `plain` gives, of records of the library, of both inside of one.

    What `encoding` cannot say is escaped, as halves of characters are in any.
    """
    given = _plain_python(value)
    text = json.dumps(given, ensure_ascii=False, allow_nan=False)
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return json.dumps(given, ensure_ascii=True, allow_nan=False)
    return text


def plain(scalar: pa.Scalar) -> Any:
    """The value as JSON has it."""
    if not scalar.is_valid:
        return None
    kind = scalar.type
    if isinstance(kind, pa.BaseExtensionType):
        return plain(scalar.value)
    if types.is_struct(kind):
        return {field.name: plain(scalar[index]) for index, field in enumerate(kind)}
    if types.is_map(kind):
        pairs = [(plain(entry[0]), plain(entry[1])) for entry in scalar.values]
        is_object = types.is_string(kind.key_type) and len({key for key, _ in pairs}) == len(pairs)
        return dict(pairs) if is_object else [{"key": key, "value": value} for key, value in pairs]
    if types.is_nested(kind):
        return [plain(item) for item in scalar.values]
    if types.is_timestamp(kind):
        return _moment(scalar)
    if types.is_temporal(kind):
        return scalar.cast(pa.string()).as_py()
    return _plain_python(scalar.as_py())


def cell(value: Any) -> str:
    """What of a plain value stands in a table for people."""
    if value is None:
        return "null"
    return printable(value if isinstance(value, str) else json_text(value))


def printable(text: str) -> str:
    """The text with an escape for each character that a terminal would act upon or not show."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def _moment(scalar: pa.Scalar) -> str:
    """`2026-01-01T10:20:30.5Z`: no more digits than it has."""
    text: str = scalar.cast(pa.string()).as_py().replace(" ", "T")
    whole, dot, fraction = text.removesuffix("Z").partition(".")
    fraction = fraction.rstrip("0")
    return f"{whole}{dot if fraction else ''}{fraction}{'Z' if scalar.type.tz is not None else ''}"


def _plain_python(value: Any) -> Any:
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
            return {str(key): _plain_python(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_plain_python(item) for item in value]
        case _:
            return str(value)

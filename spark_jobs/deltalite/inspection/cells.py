"""Values of rows as texts: bounded in length, items and depth, without secrets and control characters."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from pyarrow import types

from deltalite.inspection.shown_texts import MAX_LENGTH, shown_text

# A nested value may have millions of items, and a cell shows few.
_MAX_ITEMS, _MAX_DEPTH = 50, 10


def cell_text(scalar: pa.Scalar, *, max_length: int = MAX_LENGTH) -> str | None:
    """Return a value as a text; None for NULL. A binary becomes hexadecimal digits, and a nested value becomes JSON."""
    value = _json_value(scalar, 0)
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return shown_text(text, max_length=max_length)


def _json_value(scalar: pa.Scalar, depth: int) -> Any:
    """Return a value of JSON with a bounded number of items."""
    if not scalar.is_valid:
        return None
    data_type = scalar.type
    if isinstance(data_type, pa.BaseExtensionType):
        return _json_value(scalar.value, depth)
    if types.is_nested(data_type):
        if depth == _MAX_DEPTH:
            return "…"
        return _nested_json_value(scalar, depth + 1)
    if types.is_temporal(data_type):  # Python's calendar ends at the year 9999
        return scalar.cast(pa.string()).as_py()
    value = scalar.as_py()
    if isinstance(value, bytes):
        return value[: MAX_LENGTH // 2 + 1].hex()
    return value if isinstance(value, bool | int | float | str) else str(value)


def _nested_json_value(scalar: pa.Scalar, depth: int) -> Any:
    data_type = scalar.type
    if types.is_struct(data_type):
        return {field.name: _json_value(scalar[number], depth) for number, field in enumerate(data_type)}
    items = scalar.values[:_MAX_ITEMS]
    if types.is_map(data_type):
        return {str(_json_value(entry[0], depth)): _json_value(entry[1], depth) for entry in items}
    return [_json_value(item, depth) for item in items]

"""Converts a checkpoint's statistics struct (`stats_parsed`) to the JSON form that the rest of the library reads.

The struct is used only if the checkpoint lacks the JSON (`delta.checkpoint.writeStatsAsJson` is false). Times become
ISO 8601 texts with milliseconds, or with microseconds where a time has them. Decimals keep their digits. Values that
JSON or Python's calendar cannot express are left out, because a missing bound is always safe. Protocol: Checkpoints
(`stats_parsed`), Per-file Statistics.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_BOUNDS = ("minValues", "maxValues")
_FIELDS = ("numRecords", "tightBounds", *_BOUNDS, "nullCount")
# 0001-01-01 and 9999-12-31, in days and in microseconds since 1970.
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_DAY_MICROS = 86_400_000_000
_FIRST_MICROS, _LAST_MICROS = _FIRST_DAY * _DAY_MICROS, (_LAST_DAY + 1) * _DAY_MICROS - 1


def stats_texts(parsed: pa.ChunkedArray, utc_columns: Collection[str] = ()) -> pa.ChunkedArray:
    """Return the JSON of each struct, null for a null struct.

    `utc_columns` are the columns with times in UTC whose Arrow type has no time zone, such as INT96 columns. They are
    dotted paths below the struct.
    """
    texts = [_texts(chunk, frozenset(utc_columns)) for chunk in parsed.chunks]
    return pa.chunked_array(texts, pa.string())


def stats_of_json(parsed: Any) -> str | None:
    """Return the statistics text of a `stats_parsed` from a JSON checkpoint.

    Bounds with a fraction are left out, because parsing them as doubles may have rounded them.
    """
    if not isinstance(parsed, dict):
        return None
    fields = {
        key: _without_floats(value) if key in _BOUNDS else value for key, value in parsed.items() if key in _FIELDS
    }
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))


def _texts(chunk: pa.StructArray, utc_columns: frozenset[str]) -> pa.StringArray:
    names = [f.name for f in chunk.type if f.name in _FIELDS]
    columns = [_with_json_types(chunk.field(name), name, utc_columns).to_pylist() for name in names]
    rows = zip(*columns, strict=True) if columns else iter(() for _ in range(len(chunk)))
    validity = pc.is_valid(chunk).to_pylist()
    return pa.array(
        [
            _text(dict(zip(names, row, strict=True))) if is_valid else None
            for row, is_valid in zip(rows, validity, strict=True)
        ],
        pa.string(),
    )


def _with_json_types(values: pa.Array, path: str, utc_columns: frozenset[str]) -> pa.Array:
    """Convert values to types that JSON can express; other values become null."""
    data_type = values.type
    if pa.types.is_struct(data_type):
        children = [_with_json_types(values.field(f.name), f"{path}.{f.name}", utc_columns) for f in data_type]
        names = [f.name for f in data_type]
        return pa.StructArray.from_arrays(children, names=names, mask=pc.is_null(values)) if children else values
    if pa.types.is_timestamp(data_type):
        return _iso_times(values, "Z" if data_type.tz is not None or path in utc_columns else "")
    if pa.types.is_date(data_type):
        days = values.cast(pa.date32())
        return _null_outside(days, days.cast(pa.int32()), _FIRST_DAY, _LAST_DAY).cast(pa.string())
    if pa.types.is_floating(data_type):
        # A cast through text gives a 32-bit float the same few digits as in JSON statistics.
        doubles = (values if data_type == pa.float64() else values.cast(pa.string())).cast(pa.float64())
        return pc.if_else(pc.is_finite(doubles), doubles, pa.scalar(None, pa.float64()))
    kept_type_tests = (pa.types.is_integer, pa.types.is_decimal, pa.types.is_string, pa.types.is_large_string)
    if pa.types.is_boolean(data_type) or any(is_kept_type(data_type) for is_kept_type in kept_type_tests):
        return values
    return pa.nulls(len(values))


def _iso_times(values: pa.Array, zone: str) -> pa.Array:
    """Return times as ISO 8601 texts that end with `zone`; null for a year that Python's calendar does not have."""
    micros = values.cast(pa.timestamp("us"), safe=False)
    texts = _null_outside(micros, micros.cast(pa.int64()), _FIRST_MICROS, _LAST_MICROS).cast(pa.string())
    iso_texts = pc.replace_substring_regex(pc.replace_substring(texts, " ", "T"), r"(\.\d{3})000$", r"\1")
    return pc.binary_join_element_wise(iso_texts, zone, "")


def _null_outside(values: pa.Array, numbers: pa.Array, first: int, last: int) -> pa.Array:
    """Return the values, with a null where the number in `numbers` is not between `first` and `last`."""
    is_inside = pc.and_(pc.greater_equal(numbers, first), pc.less_equal(numbers, last))
    return pc.if_else(is_inside, values, pa.scalar(None, values.type))


def _text(value: Any) -> str:
    """Return compact JSON without nulls, with all digits of a decimal."""
    if isinstance(value, dict):
        members = (f"{json.dumps(k, ensure_ascii=False)}:{_text(v)}" for k, v in value.items() if v is not None)
        return "{" + ",".join(members) + "}"
    return format(value, "f") if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)


def _without_floats(value: Any) -> Any:
    if isinstance(value, dict):
        members = ((k, _without_floats(v)) for k, v in value.items())
        return {k: v for k, v in members if v is not None}
    return None if isinstance(value, float) else value

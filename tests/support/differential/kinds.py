"""The kinds of columns in random tables: the SQL type of each, its values, and the ways to use it.

A kind has few values, so that rows often match a condition. Among them are values that engines may treat differently:
NaN and -0.0, texts that the statistics truncate, years before 1970, and texts that a path must escape.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any

TIME_WITH_MICROSECONDS = datetime.fromisoformat("2026-01-02T03:04:05.123456")
LONG_TEXT = "long text " * 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A type, its values in Python, and the uses of a column of this kind.

    - `ordered`: Spark can compare its values.
    - `can_partition`: it can be a partition column.
    - `bounded`: data files have a minimum and a maximum of it, so it can be a clustering column.
    - `wider`: the name of the kind to which it can be widened, if there is one.
    """

    name: str
    sql: str
    values: Sequence[Any]
    ordered: bool = True
    can_partition: bool = False
    bounded: bool = True
    wider: str | None = None


_ALL = (
    Kind(name="long", sql="BIGINT", values=(1, 2, 3, 0, -1, 2**40), can_partition=True),
    Kind(name="int", sql="INT", values=(0, 1, 2, -7), can_partition=True, wider="long"),
    Kind(name="short", sql="SMALLINT", values=(0, 1, 300), wider="int"),
    Kind(name="byte", sql="TINYINT", values=(0, 1, -128), wider="short"),
    Kind(name="double", sql="DOUBLE", values=(0.0, -0.0, 1.5, math.nan, math.inf, -math.inf)),
    Kind(name="float", sql="FLOAT", values=(0.5, -0.0, math.nan, 2.25), wider="double"),
    Kind(name="wide_decimal", sql="DECIMAL(22, 4)", values=(Decimal("1.5000"), Decimal("123456789012345678.0001"))),
    Kind(name="decimal", sql="DECIMAL(6, 2)", values=(Decimal("1.50"), Decimal("-9999.99")), wider="wide_decimal"),
    Kind(name="string", sql="STRING", values=("", "a", "A b", "ż%/=\\", LONG_TEXT + "1", LONG_TEXT + "\U0001f600")),
    Kind(name="label", sql="STRING", values=("u", "U v", "50%/=k", "ż"), can_partition=True),
    Kind(name="varchar", sql="VARCHAR(5)", values=("", "ab", "abcde")),
    Kind(name="boolean", sql="BOOLEAN", values=(True, False), can_partition=True, bounded=False),
    Kind(name="binary", sql="BINARY", values=(b"", b"\x00\xff", b"ab"), bounded=False),
    Kind(
        name="date", sql="DATE", values=(date(2026, 1, 2), date(1969, 12, 31), date(1, 1, 1)), can_partition=True,
    ),
    Kind(
        name="timestamp",
        sql="TIMESTAMP",
        values=(TIME_WITH_MICROSECONDS.replace(tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)),
        can_partition=True,
    ),
    Kind(
        name="timestamp_ntz",
        sql="TIMESTAMP_NTZ",
        values=(TIME_WITH_MICROSECONDS, datetime.fromisoformat("0001-01-01")),
        can_partition=True,
    ),
    Kind(
        name="struct",
        sql="STRUCT<a: INT, b: STRING>",
        values=({"a": 1, "b": "x"}, {"a": None, "b": "y"}, {"a": 2, "b": None}),
        ordered=False,
        bounded=False,
    ),
    Kind(name="array", sql="ARRAY<INT>", values=([], [1, None, 3]), ordered=False, bounded=False),
    Kind(name="map", sql="MAP<STRING, INT>", values=({"a": 1}, {"b": None, "c": 2}), ordered=False, bounded=False),
    Kind(name="variant", sql="VARIANT", values=('{"n":1}', '[2,"x"]', "3"), ordered=False, bounded=False),
)  # fmt: skip
KINDS = {kind.name: kind for kind in _ALL}


def random_value_of(rnd: Random, kind: Kind) -> Any:
    """A random value of the kind. One in six is None."""
    return rnd.choice(kind.values) if rnd.randrange(6) else None


def literal(value: Any, kind: Kind) -> str:
    """The SQL of a value with exactly the type of its kind."""
    if kind.name == "variant":
        return "CAST(NULL AS VARIANT)" if value is None else f"parse_json('{value}')"
    return f"CAST({_text(value)} AS {kind.sql})"


def _text(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case float():
            return f"{value!r}D" if math.isfinite(value) else f"'{value}'"
        case bytes():
            return f"X'{value.hex()}'"
        case str():
            escaped = value.replace("\\", "\\\\")
            return f"'{escaped}'"
        case date():  # A datetime is a date too.
            return f"'{value}'"
        case dict() | list():
            return _nested_text(value)
        case _:
            return str(value)


def _nested_text(value: dict[str, Any] | list[Any]) -> str:
    """The SQL of a struct, a map or an array."""
    if isinstance(value, list):
        return f"array({', '.join(map(_text, value))})"
    function = "named_struct" if value.keys() == {"a", "b"} else "map"
    return f"{function}({', '.join(f'{_text(key)}, {_text(member)}' for key, member in value.items())})"

"""The parser of comparisons in a text, such as `day >= 2026-01-01`, for `deltalite head` and the page in Airflow.

The forms are:

- `COLUMN OP VALUE`, where OP is one of = == != <> < <= > >=
- `COLUMN in (A, B)` and `COLUMN not in (A, B)`
- `COLUMN is null` and `COLUMN is not null`

If there are several texts, all comparisons must hold. A value has the type of its column and the format of partition
values, and may be quoted. Backticks enclose a column name with blanks. The result is a filter for `DeltaTable`, not
SQL.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from deltalite.columnar.predicates.filters import resolve_column
from deltalite.errors import CorruptLogError, InvalidRequestError, UnsupportedFeatureError
from deltalite.protocol.partition_values import parse_partition_value
from deltalite.protocol.schema import DataType, PrimitiveType, StructType

_TERM_PATTERN = re.compile(
    r"""\s*(?:`(?P<quoted>[^`]+)`|(?P<plain>[^\s`=!<>]+))\s*
        (?P<operator>is\s+not\s+null|is\s+null|not\s+in\b|in\b|<=|>=|!=|<>|==|=|<|>)\s*(?P<value>.*?)\s*""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_ITEM_PATTERN = re.compile(r"""\s*('(?:[^']|'')*'|"[^"]*"|[^,'"]*)\s*(,|$)""")
_FORM_REMEDY = 'Write it as COLUMN OP VALUE, such as "day >= 2026-01-01", or COLUMN in (A, B), or COLUMN is null.'

# The parser of dates ignores a time of day, so this module rejects a date with a time.
_DATE_WITH_TIME_PATTERN = re.compile(r"\d[ T]+\S")

Term = tuple[str, str, Any]


def parse_where(texts: Sequence[str], schema: StructType) -> list[Term] | None:
    """Parse the texts to a filter for `DeltaTable.to_batches`; return None if there are no texts.

    Raises:
        InvalidRequestError: a text is not a comparison, names an unknown column, or contains a value of another type.
    """
    return [_term(text, schema) for text in texts] or None


def _term(text: str, schema: StructType) -> Term:
    match = _TERM_PATTERN.fullmatch(text)
    if match is None:
        raise InvalidRequestError(f"Invalid condition {text!r}.", remedy=_FORM_REMEDY)
    name = match["quoted"] or match["plain"]
    operator, value = " ".join(match["operator"].lower().split()), match["value"]
    _, data_type = resolve_column(name, schema)
    if operator.endswith("null"):
        if value:
            raise InvalidRequestError(
                f"The condition {text!r} contains text after '{operator}', which takes no value.", remedy=_FORM_REMEDY
            )
        return name, operator, None
    if operator.endswith("in"):
        if not (value.startswith("(") and value.endswith(")")):
            raise InvalidRequestError(f"The condition {text!r} contains no list in parentheses.", remedy=_FORM_REMEDY)
        return name, operator, [_value(item, name, data_type) for item in _list_items(value[1:-1], text)]
    return name, operator, _value(value, name, data_type)


def _list_items(text: str, condition: str) -> list[str]:
    items, position = [], 0
    while match := _ITEM_PATTERN.match(text, position):
        items.append(match[1].strip())
        if not match[2]:
            return items
        position = match.end()
    raise InvalidRequestError(f"Invalid list in the condition {condition!r}.", remedy=_FORM_REMEDY)


def _value(text: str, column: str, data_type: DataType) -> Any:
    quote = text[:1]
    if quote in ("'", '"') and len(text) > 1 and text.endswith(quote):
        text = text[1:-1].replace(quote * 2, quote)
        if not text and str(data_type) == "string":
            return ""
    try:
        value = parse_partition_value(text, data_type)
    except (CorruptLogError, UnsupportedFeatureError) as error:
        raise _unfit_value_error(text, column, data_type) from error
    if data_type == PrimitiveType("date") and _DATE_WITH_TIME_PATTERN.search(text):
        raise _unfit_value_error(text, column, data_type)
    if value is None:
        raise InvalidRequestError(f"The condition on column '{column}' contains no value.", remedy=_FORM_REMEDY)
    return value


def _unfit_value_error(text: str, column: str, data_type: DataType) -> InvalidRequestError:
    return InvalidRequestError(
        f"The value {text!r} does not fit the column '{column}' of type {data_type}.",
        remedy="Write it as the table shows it.",
    )

"""Non-deterministic parts of an expression that Spark calls deterministic, such as `current_date()`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from deltalite.spark.expressions.catalyst import Node, kind_of

# Catalyst's expressions that depend on the time or the user, with their names in SQL.
_NON_DETERMINISTIC = {
    "CurrentDate": "current_date()",
    "CurrentTime": "current_time()",
    "CurrentTimestamp": "current_timestamp()",
    "CurrentUser": "current_user()",
    "LocalTimestamp": "localtimestamp()",
    "Now": "now()",
}
# Texts that Spark converts to the current time. In a typed literal, such as DATE 'today', the parser converts the text,
# so the parsed expression does not contain it.
_TIME_TEXT_PATTERN = re.compile(r"\s*(now|today|tomorrow|yesterday)\b", re.IGNORECASE)
_TIME_LITERAL_PATTERN = re.compile(
    rf"\b(?:date|timestamp(?:_ntz|_ltz)?)\s*r?['\"]{_TIME_TEXT_PATTERN.pattern}", re.IGNORECASE
)
_TIME_CONVERSIONS = frozenset({"Cast", "ParseToDate", "ParseToTimestamp"})


def non_deterministic_part(nodes: Sequence[Node], text: str) -> str | None:
    """Return the SQL of the first part that depends on the time or the user, or None.

    `nodes` are the nodes of the analyzed expression, `text` is its SQL.
    """
    function_calls = (_NON_DETERMINISTIC[kind] for kind in map(kind_of, nodes) if kind in _NON_DETERMINISTIC)
    return next(function_calls, None) or _current_time_text(nodes, text)


def _current_time_text(nodes: Sequence[Node], text: str) -> str | None:
    """Return the first text, such as 'today', that Spark converts to the current time, or None."""
    # In pre-order the first child of an expression follows the expression.
    converted_literals = [
        child for node, child in pairwise(nodes) if kind_of(node) in _TIME_CONVERSIONS and kind_of(child) == "Literal"
    ]
    matches = [_TIME_TEXT_PATTERN.match(str(child.get("value"))) for child in converted_literals]
    first_match = next(filter(None, [*matches, _TIME_LITERAL_PATTERN.search(text)]), None)
    return None if first_match is None else f"'{first_match[1]}'"

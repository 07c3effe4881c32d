"""What of an expression is another value each time it is computed, though Spark calls it deterministic."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from deltalite.spark.catalyst import Node, kind_of

# What of Catalyst asks when, or by whom, it is computed, and how SQL calls it.
_MOVING = {
    "CurrentDate": "current_date()",
    "CurrentTime": "current_time()",
    "CurrentTimestamp": "current_timestamp()",
    "CurrentUser": "current_user()",
    "LocalTimestamp": "localtimestamp()",
    "Now": "now()",
}
# Texts that Spark takes for a time when it makes one of them. The parser itself does so after the name of a type, and
# leaves no trace of it.
_MOVING_TEXT = re.compile(r"\s*(now|today|tomorrow|yesterday)\b", re.IGNORECASE)
_MOVING_LITERAL = re.compile(rf"\b(?:date|timestamp(?:_ntz|_ltz)?)\s*r?['\"]{_MOVING_TEXT.pattern}", re.IGNORECASE)
_MAKES_TIMES = frozenset({"Cast", "ParseToDate", "ParseToTimestamp"})


def moving_part(nodes: Sequence[Node], text: str) -> str | None:
    """What asks when, or by whom, the expression is computed, as SQL calls it; None where nothing does.

    `nodes` are all of the analyzed expression, `text` is what was parsed.
    """
    found = next((_MOVING[kind] for kind in map(kind_of, nodes) if kind in _MOVING), None)
    return found or _moving_text(nodes, text)


def _moving_text(nodes: Sequence[Node], text: str) -> str | None:
    """The text, such as 'today', of which the predicate makes another time each day; None where there is none."""
    # In pre-order the first child of an expression follows it.
    made_of = [
        child for node, child in pairwise(nodes) if kind_of(node) in _MAKES_TIMES and kind_of(child) == "Literal"
    ]
    found = [_MOVING_TEXT.match(str(child.get("value"))) for child in made_of]
    said = next(filter(None, [*found, _MOVING_LITERAL.search(text)]), None)
    return None if said is None else f"'{said[1]}'"

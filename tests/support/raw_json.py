"""JSON with texts that Python's JSON writer cannot write, such as numbers with more digits than a float has."""

from __future__ import annotations

import json
from typing import Any


class Raw(str):
    """JSON text that `to_text` writes unchanged."""

    __slots__ = ()


def to_text(value: Any) -> str:
    """The JSON text of a value; `Raw` texts stay unchanged."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{to_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(to_text, value)) + "]"
    return json.dumps(value)

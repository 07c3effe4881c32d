"""The statistics of a file that gets a deletion vector: its bounds become wide.

Numbers keep all their digits, because a conversion to Python's floats would round decimals.
Protocol: Per-file Statistics (`tightBounds`); Deletion Vectors (a file with a vector must have `numRecords`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator

_DECODER = json.JSONDecoder()


def with_wide_bounds(stats: str | None, num_records: int) -> str:
    """Return the statistics (JSON) with `tightBounds` false and with `numRecords`.

    `num_records` is the number of records, including deleted records.
    """
    members = dict(_members(stats or "{}"))
    members |= {"numRecords": str(num_records), "tightBounds": "false"}
    return "{" + ",".join(f"{json.dumps(key)}:{text}" for key, text in members.items()) + "}"


def _members(text: str) -> Iterator[tuple[str, str]]:
    """Yield the members of a JSON object with the texts of their values; nothing if `text` is not a JSON object."""
    try:
        if not isinstance(json.loads(text), dict):
            return
    except (ValueError, RecursionError):
        return
    position = text.index("{") + 1
    while text[(position := _next_token_index(text, position, ","))] != "}":
        key, position = _DECODER.raw_decode(text, position)
        value_start = _next_token_index(text, position, ":")
        _, position = _DECODER.raw_decode(text, value_start)
        yield key, text[value_start:position]


def _next_token_index(text: str, start: int, separator: str) -> int:
    """Return the index of the first character from `start` on that is neither a blank nor the separator."""
    index = start
    while text[index].isspace() or text[index] == separator:
        index += 1
    return index

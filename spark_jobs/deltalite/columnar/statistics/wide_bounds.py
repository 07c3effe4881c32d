"""The statistics of a file that gets a deletion vector: its bounds become wide.

Numbers keep all their digits, because parsing them to Python's floats would round decimals.
Protocol: Per-file Statistics (`tightBounds`); Deletion Vectors (a file with a vector must have `numRecords`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator

_DECODER = json.JSONDecoder()


def with_wide_bounds(stats: str | None, num_records: int) -> str:
    """Return the statistics (JSON) with `tightBounds` false and the number of records, deleted ones included."""
    members = dict(_members(stats or "{}"))
    members |= {"numRecords": str(num_records), "tightBounds": "false"}
    return "{" + ",".join(f"{json.dumps(key)}:{text}" for key, text in members.items()) + "}"


def _members(text: str) -> Iterator[tuple[str, str]]:
    """Yield the members of a JSON object with the texts of their values; nothing if it is not an object."""
    try:
        if not isinstance(json.loads(text), dict):
            return
    except ValueError:
        return
    at = text.index("{") + 1
    while text[(at := _skip(text, at, ","))] != "}":
        key, at = _DECODER.raw_decode(text, at)
        begin = _skip(text, at, ":")
        _, at = _DECODER.raw_decode(text, begin)
        yield key, text[begin:at]


def _skip(text: str, at: int, separator: str) -> int:
    """Return the first index whose character is neither a blank nor the separator."""
    while text[at].isspace() or text[at] == separator:
        at += 1
    return at

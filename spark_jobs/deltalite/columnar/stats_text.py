"""The statistics of a file whose rows are marked as deleted: its bounds are wide from then on.

Numbers stay as they were written, digit by digit, since JSON's own way through Python would round those of decimals.
Protocol: Per-file Statistics (`tightBounds`); Deletion Vectors: a file that has one says how many rows it holds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

_DECODER = json.JSONDecoder()


def with_wide_bounds(stats: str | None, num_records: int) -> str:
    """Statistics (JSON) that say that bounds may be wider than the rows that are left, and how many rows there were."""
    members = dict(_members(stats or "{}"))
    members |= {"numRecords": str(num_records), "tightBounds": "false"}
    return "{" + ",".join(f"{json.dumps(key)}:{text}" for key, text in members.items()) + "}"


def _members(text: str) -> Iterator[tuple[str, str]]:
    """The members of an object with the text of their values; none where it is no JSON object."""
    try:
        if not isinstance(json.loads(text), dict):
            return
    except ValueError:
        return
    at = text.index("{") + 1
    while text[(at := _skipped(text, at, ","))] != "}":
        key, at = _DECODER.raw_decode(text, at)
        begin = _skipped(text, at, ":")
        _, at = _DECODER.raw_decode(text, begin)
        yield key, text[begin:at]


def _skipped(text: str, at: int, separator: str) -> int:
    """The first place that is neither white nor the separator."""
    while text[at].isspace() or text[at] == separator:
        at += 1
    return at

"""Checks JSON values in the optional files of the log: checksums and `_last_checkpoint`."""

from __future__ import annotations

from typing import Any


def parse_count(value: Any) -> int:
    """Return the value if it is a count.

    Raises:
        ValueError: the value is not an integer, or it is negative.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(value)
    return value


def parse_optional_count(value: Any) -> int | None:
    """Return the value if it is a count or None.

    Raises:
        ValueError: the value is neither None nor an integer, or it is negative.
    """
    return None if value is None else parse_count(value)


def parse_optional_text(value: Any) -> str | None:
    """Return the value if it is a text or None.

    Raises:
        TypeError: the value is neither None nor a text.
    """
    if value is not None and not isinstance(value, str):
        raise TypeError(value)
    return value

"""Checks of JSON values in the files of the log that no reader depends on: checksums and `_last_checkpoint`."""

from __future__ import annotations

from typing import Any


def count(value: Any) -> int:
    """Return a number of things.

    Raises:
        ValueError: it is not an integer, or it is negative.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(value)
    return value


def optional_count(value: Any) -> int | None:
    """Return a number of things, or None.

    Raises:
        ValueError: it is neither None nor an integer, or it is negative.
    """
    return None if value is None else count(value)


def optional_text(value: Any) -> str | None:
    """Return a text, or None.

    Raises:
        TypeError: it is neither None nor a text.
    """
    if value is not None and not isinstance(value, str):
        raise TypeError(value)
    return value

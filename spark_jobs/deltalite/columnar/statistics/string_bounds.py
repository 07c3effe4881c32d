"""Truncation of long strings to valid bounds for statistics.

Strings are ordered by code points, like UTF-8 bytes. A prefix is never above its string, so a truncated minimum is a
valid bound. A truncated maximum gets one more character, which is above the first removed character. Lengths count
UTF-16 units, as in Delta, and no character is cut in half. The result equals the result of delta-spark, so both engines
write the same statistics for the same file. Protocol: Per-file Statistics.
"""

from __future__ import annotations

_ASCII_MAX = "\x7f"
_UNICODE_MAX = "\U0010ffff"
_FIRST_OF_TWO_UNITS = 0x10000
# The bound of a maximum may have this many times the prefix length. If that is not enough, there is no bound.
_EXPANSION = 2


def cut_min(text: str, prefix_length: int) -> str:
    """Truncate `text` to `prefix_length` UTF-16 units, or to one unit more to keep its last character whole."""
    return text[: _cut_at(text, prefix_length)]


def cut_max(text: str, prefix_length: int) -> str | None:
    """Return an upper bound of `text` of about `prefix_length` UTF-16 units; None if twice as many do not suffice."""
    end = _cut_at(text, prefix_length)
    while utf16_units(text[:end]) <= _EXPANSION * prefix_length:
        if end >= len(text):
            return text
        if text[end] < _ASCII_MAX:
            return text[:end] + _ASCII_MAX
        if text[end] < _UNICODE_MAX:
            return text[:end] + _UNICODE_MAX
        end += 1
    return None


def utf16_units(text: str) -> int:
    """Return the length of `text` in UTF-16 units, as Java counts it."""
    return sum(1 if ord(character) < _FIRST_OF_TWO_UNITS else 2 for character in text)


def _cut_at(text: str, units: int) -> int:
    """Return the number of characters that reach `units` UTF-16 units; the text's length if it has fewer units."""
    units_before = 0
    for index, character in enumerate(text):
        if units_before >= units:
            return index
        units_before += 1 if ord(character) < _FIRST_OF_TWO_UNITS else 2
    return len(text)

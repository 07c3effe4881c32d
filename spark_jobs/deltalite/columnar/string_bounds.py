"""How long strings are cut for statistics, so that they stay bounds.

Strings order by code points, as UTF-8 bytes do. A prefix is never above the string it was cut from, so a minimum is
cut and nothing more; a maximum gets a character behind its prefix that is above the one that stood there. Lengths
count UTF-16 units, as Delta's do, and no character is cut in half. The same bytes as delta-spark's are the aim: two
engines then write the same statistics for the same file. Protocol: Per-file Statistics.
"""

from __future__ import annotations

_ASCII_MAX = "\x7f"
_UNICODE_MAX = "\U0010ffff"
_FIRST_OF_TWO_UNITS = 0x10000
# A maximum may grow to this many times the prefix before it is given up.
_EXPANSION = 2


def cut_min(text: str, prefix_length: int) -> str:
    """The lower bound of `text` that has `prefix_length` UTF-16 units, or one more to keep its last character whole."""
    return text[: _cut_at(text, prefix_length)]


def cut_max(text: str, prefix_length: int) -> str | None:
    """An upper bound of `text` of about `prefix_length` UTF-16 units; None where none of twice that length exists."""
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
    """The length of `text` as Java counts it."""
    return sum(1 if ord(character) < _FIRST_OF_TWO_UNITS else 2 for character in text)


def _cut_at(text: str, units: int) -> int:
    """How many characters reach `units` UTF-16 units; all of them where the text is shorter."""
    taken = 0
    for index, character in enumerate(text):
        if taken >= units:
            return index
        taken += 1 if ord(character) < _FIRST_OF_TWO_UNITS else 2
    return len(text)

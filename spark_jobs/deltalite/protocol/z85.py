"""Z85: bytes as text that may stand in JSON.

Five characters of an alphabet of 85 are four bytes, most significant first, so the length of a text is a multiple of
five. Delta writes the uuid of a deletion vector's file this way (20 characters), and small deletion vectors
themselves; these are padded to four bytes, and their true length stands beside them. Text that no encoder writes is
refused, a group above 32 bits too. Protocol: Deletion Vectors; RFC 32/Z85 of ZeroMQ.
"""

from __future__ import annotations

import struct
from typing import Final

_ALPHABET: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_DIGITS: Final = {character: digit for digit, character in enumerate(_ALPHABET)}
_BASE: Final = len(_ALPHABET)
_GROUP: Final = 5
_BYTES: Final = 4
_BEYOND_32_BITS: Final = 2**32


def decode(text: str) -> bytes:
    """The bytes that `text` spells, four for each five characters.

    Raises:
        ValueError: the length is no multiple of five, or a character or a group has no meaning.
    """
    if len(text) % _GROUP:
        raise ValueError(f"{len(text)} characters are not a multiple of {_GROUP}")
    return b"".join(_four_bytes(text[at : at + _GROUP]) for at in range(0, len(text), _GROUP))


def encode(data: bytes) -> str:
    """The text that spells `data`, five characters for each four bytes.

    Raises:
        ValueError: the length is no multiple of four.
    """
    if len(data) % _BYTES:
        raise ValueError(f"{len(data)} bytes are not a multiple of {_BYTES}")
    return "".join(_five_characters(number) for (number,) in struct.iter_unpack(">I", data))


def _five_characters(number: int) -> str:
    characters = []
    for _ in range(_GROUP):
        number, digit = divmod(number, _BASE)
        characters.append(_ALPHABET[digit])
    return "".join(reversed(characters))


def _four_bytes(group: str) -> bytes:
    number = 0
    for character in group:
        digit = _DIGITS.get(character)
        if digit is None:
            raise ValueError(f"the character {character!r} is not in the alphabet of Z85")
        number = number * _BASE + digit
    if number >= _BEYOND_32_BITS:
        raise ValueError(f"the group {group!r} is more than four bytes hold")
    return struct.pack(">I", number)

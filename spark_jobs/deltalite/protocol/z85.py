"""Z85: an encoding of bytes as text for JSON.

Five characters of an alphabet of 85 encode four bytes, most significant first, so the length of a text is a multiple of
five. Delta uses this encoding for the uuid of a deletion vector's file (20 characters), and for small inline deletion
vectors. Inline vectors are padded to a multiple of four bytes, and the descriptor holds their true length. `decode`
rejects invalid text, including a group above 32 bits. Protocol: Deletion Vectors; RFC 32/Z85 of ZeroMQ.
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
    """Decode text to bytes, four bytes for each five characters.

    Raises:
        ValueError: the length is not a multiple of five, or a character or a group is invalid.
    """
    if len(text) % _GROUP:
        raise ValueError(f"the length {len(text)} is not a multiple of {_GROUP}")
    return b"".join(_four_bytes(text[start : start + _GROUP]) for start in range(0, len(text), _GROUP))


def encode(data: bytes) -> str:
    """Encode bytes as text, five characters for each four bytes.

    Raises:
        ValueError: the length is not a multiple of four.
    """
    if len(data) % _BYTES:
        raise ValueError(f"the length {len(data)} is not a multiple of {_BYTES}")
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
        raise ValueError(f"the group {group!r} encodes a number of more than four bytes")
    return struct.pack(">I", number)

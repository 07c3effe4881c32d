"""The checksum inside `_last_checkpoint`: MD5 over a canonical form of its JSON.

The canonical form lists the leaves in the byte order of their paths, separated by commas. Each leaf is its path, `=`
and its value. The path consists of keys and array positions, joined by `+`. Keys and texts are in quotes and
percent-encoded; numbers keep their spelling. The top-level `checksum` is left out, and an object with a duplicate key
is invalid. Protocol: JSON checksum.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

_KEY = "checksum"


class _Number(str):
    """The original text of a number, because the canonical form must not change its spelling."""

    __slots__ = ()


def is_intact(data: bytes) -> bool:
    """Whether the JSON in `data` is intact: it has no `checksum`, or the `checksum` matches its content.

    False also if `data` is not a JSON object or has a duplicate key.
    """
    try:
        body = json.loads(
            data,
            parse_int=_Number,
            parse_float=_Number,
            parse_constant=_reject_constant,
            object_pairs_hook=_object_rejecting_duplicate_keys,
        )
        if not isinstance(body, dict):
            return False
        stored = body.pop(_KEY, None)
        return stored is None or (type(stored) is str and stored == canonical_md5(body))
    except (ValueError, RecursionError):
        return False


def canonical_md5(body: dict[str, Any]) -> str:
    """Return the digest of `body` as 32 hexadecimal digits. `body` must not contain the `checksum`."""
    leaves = sorted(_leaves((), body), key=lambda leaf: leaf[0].encode())
    text = ",".join(f"{path}={value}" for path, value in leaves)
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def _leaves(path: tuple[str, ...], value: Any) -> Iterator[tuple[str, str]]:
    """Yield the canonical (path, value) pairs below a value. Empty objects and arrays have no leaf."""
    if isinstance(value, dict):
        for key, member in value.items():
            yield from _leaves((*path, _quoted(key)), member)
    elif isinstance(value, list):
        for position, member in enumerate(value):
            yield from _leaves((*path, str(position)), member)
    elif isinstance(value, _Number):
        yield "+".join(path), str(value)
    elif isinstance(value, str):
        yield "+".join(path), _quoted(value)
    else:  # true, false and null; also integers if the object was not parsed from text
        yield "+".join(path), json.dumps(value)


def _quoted(text: str) -> str:
    return f'"{quote(text, safe="-._~")}"'


def _object_rejecting_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    body = dict(pairs)
    if len(body) != len(pairs):
        raise ValueError("an object has a key twice")
    return body


def _reject_constant(text: str) -> None:
    raise ValueError(f"{text} is not valid in JSON")

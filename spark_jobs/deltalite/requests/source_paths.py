"""Addresses with glob patterns: the folder and the pattern in an address, and the names that Spark ignores."""

from __future__ import annotations

import re

from deltalite.errors import InvalidRequestError

_GLOB_CHARACTERS = re.compile(r"[*?\[{\\]")


def split_address(address: str) -> tuple[str, str]:
    """Return the folder before the first part with a glob character, and the pattern below it ("" without one).

    Raises:
        InvalidRequestError: the scheme, the bucket or the host has a glob character.
    """
    match = _GLOB_CHARACTERS.search(address)
    if match is None:
        return address.rstrip("/") or address, ""
    scheme, separator, rest = address.partition("://")
    if separator and match.start() <= len(scheme + separator) + len(rest.partition("/")[0]):
        raise InvalidRequestError(
            f"The pattern {address!r} has a wildcard in its scheme, bucket or host.",
            remedy="Write one pattern for each bucket.",
        )
    folder, slash, _ = address[: match.start()].rpartition("/")
    if not slash:
        return ".", address
    return folder or "/", address[len(folder) + 1 :]


def has_pattern(address: str) -> bool:
    """Whether an address has a glob character."""
    return _GLOB_CHARACTERS.search(address) is not None


def is_hidden(name: str) -> bool:
    """Whether Spark ignores files or folders with this name. A folder such as `_day=1` holds a partition."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")

"""The paths of source files: the folder and the pattern in a path, and the names that Spark ignores."""

from __future__ import annotations

import re

_GLOB_CHARACTERS = re.compile(r"[*?\[{\\]")


def split_address(address: str) -> tuple[str, str]:
    """Return the folder before the first part with a glob character, and the pattern below it; empty without one."""
    match = _GLOB_CHARACTERS.search(address)
    if match is None:
        return address.rstrip("/") or address, ""
    folder, slash, _ = address[: match.start()].rpartition("/")
    if not slash:
        return ".", address
    return folder or "/", address[len(folder) + 1 :]


def is_hidden(base: str) -> bool:
    """Whether Spark ignores files or folders with this name. A folder such as `_day=1` holds a partition."""
    return base.startswith(".") or (base.startswith("_") and "=" not in base) or base.endswith("._COPYING_")

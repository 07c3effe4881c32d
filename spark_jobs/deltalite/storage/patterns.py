"""Addresses of folders that match a pattern, on any storage with a `ListedTree`.

A pattern is an address whose last parts may contain wildcards. They match one part of the address each:

- `*` any text, `?` one character, `[ab]` one of the characters
- `**` as a whole part: any number of folders. It finds only tables, and does not lead into them.

Folders whose names begin with `_` or `.` match only a part that begins with the same character. Links are not followed.
The listing begins at the last folder before the first wildcard. If a part after the wildcards has no wildcard, such as
`/lake/*/orders`, its folder is listed only to see whether it exists.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase

from deltalite.errors import InvalidTableAddressError
from deltalite.storage.trees import ListedTree

_WILDCARD = re.compile(r"[*?\[]")
_ANY_DEPTH = "**"
_LOG_FOLDER = "_delta_log"


def is_pattern(address: str) -> bool:
    """Whether an address contains a wildcard."""
    return _WILDCARD.search(address) is not None


def folder_before_wildcards(pattern: str) -> str:
    """Return the address of the folder at which the listing begins.

    Raises:
        InvalidTableAddressError: the scheme, the bucket or the host of the pattern contains a wildcard.
    """
    return _split(pattern)[0]


def matching_folders(pattern: str, open_tree: Callable[[str], ListedTree]) -> list[str]:
    """Return the addresses of the folders that match the pattern, sorted. Without a wildcard, return the address.

    Args:
        pattern: the pattern.
        open_tree: opens the tree of the folder at an address.

    Raises:
        InvalidTableAddressError: the scheme, the bucket or the host of the pattern contains a wildcard.
        StorageError: a folder cannot be listed.
    """
    if not is_pattern(pattern):
        return [pattern]
    root, parts = _split(pattern)
    tree = open_tree(root)
    return sorted({f"{root.rstrip('/')}/{folder}" for folder in _matches(tree, "", parts)})


def _split(pattern: str) -> tuple[str, Sequence[str]]:
    """Return the address before the first part with a wildcard, and the parts from there on."""
    if not is_pattern(pattern):
        return pattern, ()
    scheme, separator, rest = pattern.partition("://")
    head, path = (f"{scheme}{separator}", rest) if separator else ("", pattern)
    parts = path.rstrip("/").split("/")
    first = next((number for number, part in enumerate(parts) if is_pattern(part)), 0)
    if is_pattern(head) or (separator and first == 0):
        raise InvalidTableAddressError(
            f"The pattern {pattern!r} has a wildcard in its scheme, bucket or host.",
            remedy="Write one pattern for each bucket.",
        )
    root = head + "/".join(parts[:first])
    return root or ("/" if path.startswith("/") else "."), [part for part in parts[first:] if part]


def _matches(tree: ListedTree, folder: str, parts: Sequence[str]) -> Iterator[str]:
    """Yield the folders below `folder` that match the parts."""
    part, rest = parts[0], parts[1:]
    names = [name for name, _ in tree.list(folder).folders]
    bases = {name.rpartition("/")[2]: name for name in names}
    if part == _ANY_DEPTH:
        if rest:
            yield from _matches(tree, folder, rest)
        if _LOG_FOLDER in bases:
            if not rest and folder:
                yield folder
            return
        for base, name in bases.items():
            if not base.startswith(("_", ".")):
                yield from _matches(tree, name, parts)
        return
    for base, name in bases.items():
        if not fnmatchcase(base, part) or (base[0] in "_." and part[0] != base[0]):
            continue
        if rest:
            yield from _matches(tree, name, rest)
        else:
            yield name

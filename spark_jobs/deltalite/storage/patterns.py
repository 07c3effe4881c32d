r"""Addresses of folders that match a pattern, on any storage with a `ListedTree`.

A pattern has Hadoop's syntax (`requests/globs.py`). In addition, `**` as a whole part matches any number of folders. As
the last part, it matches only tables. It does not go below the folder of a table: `**/x` matches no folder `x` in the
folder of a table.

Folders whose names begin with `_` or `.` match only a part that begins with the same character. Links are not followed.
The listing begins at the last folder before the first wildcard. A part after the wildcards may have no wildcard, such
as `orders` in `/lake/*/orders`. The parent folder is then listed only to see whether the folder exists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from deltalite.requests.globs import expand_braces, part_pattern
from deltalite.requests.source_paths import has_pattern, split_address
from deltalite.storage.trees import ListedTree

_ANY_DEPTH = "**"
_LOG_FOLDER = "_delta_log"


def matching_folders(pattern: str, open_tree: Callable[[str], ListedTree]) -> list[str]:
    """Return the addresses of the folders that match the pattern, sorted. Without a wildcard, return the address.

    Args:
        pattern: the pattern.
        open_tree: opens the tree of the folder at an address.

    Raises:
        InvalidRequestError: the pattern is malformed, or has a wildcard in its scheme, bucket or host.
        StorageError: a folder cannot be listed.
    """
    if not has_pattern(pattern):
        return [pattern]
    folders: set[str] = set()
    for option in expand_braces(pattern):
        root, below = split_address(option)
        if not below:
            folders.add(root)
            continue
        parts = [part for part in below.split("/") if part]
        folders.update(f"{root.rstrip('/')}/{folder}" for folder in _folders_below(open_tree(root), "", parts))
    return sorted(folders)


def _folders_below(tree: ListedTree, folder: str, parts: Sequence[str]) -> Iterator[str]:
    """Yield the folders below `folder` that match the parts."""
    part, rest = parts[0], parts[1:]
    names = [name for name, _ in tree.list(folder).folders]
    bases = {name.rpartition("/")[2]: name for name in names}
    if part == _ANY_DEPTH:
        if _LOG_FOLDER in bases:
            if not rest and folder:
                yield folder
            return
        if rest:
            yield from _folders_below(tree, folder, rest)
        for base, name in bases.items():
            if not base.startswith(("_", ".")):
                yield from _folders_below(tree, name, parts)
        return
    expression = part_pattern(part, part)
    for base, name in bases.items():
        if not expression.fullmatch(base) or (base[0] in "_." and part[0] != base[0]):
            continue
        if rest:
            yield from _folders_below(tree, name, rest)
        else:
            yield name

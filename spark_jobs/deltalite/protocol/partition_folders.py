"""The partition columns in the folder names of source files, such as `day=2026-03-01`, with the rules of Spark.

Spark begins at the folder of a file and goes up. It takes the first folder with a `=`, and the unbroken series of
folders with a `=` above it. The folder above the series is the base. Spark reads files together only if they have the
same base and the same partition columns. If only some files have partition columns, Spark silently drops the other
files. So the reader reads each group of files separately. The functions here do no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_ESCAPE_PATTERN = re.compile(r"%([0-9A-Fa-f]{2})")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFolders:
    """The partition columns of a group of files.

    - `names`: the names of the columns, the outermost first; empty for files without partition columns.
    - `base`: the folder above the partition folders, relative to the folder of the source; empty if `names` is empty.
    """

    names: tuple[str, ...] = ()
    base: str = ""

    @property
    def lower_names(self) -> frozenset[str]:
        """The names in lower case."""
        return frozenset(name.lower() for name in self.names)


def partition_folders(folder: str) -> PartitionFolders:
    """Return the partition columns of the files in `folder`, which is relative to the folder of the source.

    A folder without a name or without a value, such as `day=`, is not a partition folder.
    """
    parts = folder.split("/")
    end = len(parts)
    while end and not _is_partition_folder(parts[end - 1]):
        end -= 1
    start = end
    while start and _is_partition_folder(parts[start - 1]):
        start -= 1
    names = tuple(_unescaped(part.partition("=")[0]) for part in parts[start:end])
    return PartitionFolders(names=names, base="/".join(parts[:start])) if names else PartitionFolders()


def group_by_partition_folders(root: str, addresses: Iterable[str]) -> Mapping[PartitionFolders, list[str]]:
    """Return the files by their partition columns. All addresses begin with `root`, the folder of the source."""
    prefix_length = len(root.rstrip("/")) + 1
    folders: dict[str, PartitionFolders] = {}
    groups: dict[PartitionFolders, list[str]] = {}
    for address in addresses:
        name = address[prefix_length:].rpartition("/")[0]
        if name not in folders:
            folders[name] = partition_folders(name)
        groups.setdefault(folders[name], []).append(address)
    return groups


def _is_partition_folder(name: str) -> bool:
    column, _, value = name.partition("=")
    return bool(column and value)


def _unescaped(name: str) -> str:
    """Return the name of a column as Spark reads it: each escape is one character."""
    return _ESCAPE_PATTERN.sub(lambda match: chr(int(match[1], 16)), name)

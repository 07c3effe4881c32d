"""The listing of source files: all files below a folder that match the patterns of a request.

The functions list through a `ListedTree`, so they work on every storage, with and without Spark. Hidden files and
folders are left out, as Spark does.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from deltalite.errors import SourceNotFoundError
from deltalite.loaded_files.keys import FILES
from deltalite.requests.globs import NamePattern
from deltalite.requests.source_paths import is_hidden
from deltalite.storage.trees import FolderContent, ListedTree, walk

_log = logging.getLogger(__name__)
_MAX_SHOWN_FILES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFolder:
    """A folder with source files: its tree, and the canonical address that all addresses of files begin with."""

    tree: ListedTree
    address: str

    def address_of(self, name: str) -> str:
        """Return the canonical address of a file by its name, which is relative to the folder."""
        return f"{self.address.rstrip('/')}/{name}"


def list_files(source: SourceFolder, path_pattern: str, pattern: str | None) -> pa.Table:
    """Return the files (`FILES`) below the folder, sorted by modification time and address.

    Args:
        source: the folder.
        path_pattern: the pattern in the path of the source, relative to the folder; empty without one.
        pattern: a pattern for the name of a file, or for its relative path if it contains `/`.

    Raises:
        StorageError, StoragePermissionError: a folder cannot be listed.
    """
    selection = NamePattern.parse(path_pattern)
    name_pattern = None if pattern is None else NamePattern.parse(pattern)
    matches_path = pattern is not None and "/" in pattern
    tables: list[pa.Table] = []

    def visit(content: FolderContent) -> Iterator[str]:
        _warn_of_other_entries(source, content)
        prefix = f"{content.name}/" if content.name else ""

        def is_wanted(base: str) -> bool:
            name = prefix + base
            matches_pattern = name_pattern is None or name_pattern.matches(name if matches_path else base)
            return not is_hidden(base) and matches_pattern and selection.selects(name)

        tables.append(_table(source, content, [n for n, base in enumerate(content.bases) if is_wanted(base)]))
        for folder, _ in content.folders:
            if not is_hidden(folder.rpartition("/")[2]) and selection.may_select_below(folder):
                yield folder

    walk(source.tree, visit)
    return _sorted(tables)


def find_files(source: SourceFolder, names: Sequence[str]) -> pa.Table:
    """Return the files (`FILES`) with these names, which are relative to the folder. Lists only their folders.

    Raises:
        SourceNotFoundError: a file does not exist.
        StorageError, StoragePermissionError: a folder cannot be listed.
    """
    tables: list[pa.Table] = []
    missing: list[str] = []
    bases_by_folder: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        folder, _, base = name.rpartition("/")
        bases_by_folder.setdefault(folder, []).append(base)
    for folder, bases in bases_by_folder.items():
        content = source.tree.list(folder)
        _warn_of_other_entries(source, content)
        positions = {base: position for position, base in enumerate(content.bases)}
        missing += [f"{folder}/{base}" if folder else base for base in bases if base not in positions]
        tables.append(_table(source, content, [positions[base] for base in bases if base in positions]))
    if missing:
        more = f" and {len(missing) - _MAX_SHOWN_FILES} more" if len(missing) > _MAX_SHOWN_FILES else ""
        raise SourceNotFoundError(
            f"{len(missing)} of the file_names did not exist in {source.address}: "
            f"{', '.join(missing[:_MAX_SHOWN_FILES])}{more}.",
            remedy="Correct the names, which are relative to the path of the source, or wait for the files.",
        )
    return _sorted(tables)


def changed_files(source: SourceFolder, files: pa.Table) -> list[str]:
    """Return the addresses of the files (`FILES`) that now have another size, modification time or ETag.

    Lists only the folders of the files. A file that no longer exists counts as unchanged, because no later run can load
    it.

    Raises:
        StorageError, StoragePermissionError: a folder cannot be listed.
    """
    prefix_length = len(source.address.rstrip("/")) + 1
    bases_by_folder: dict[str, set[str]] = {}
    for address in files["address"].to_pylist():
        folder, _, base = address[prefix_length:].rpartition("/")
        bases_by_folder.setdefault(folder, set()).add(base)
    identities: dict[str, tuple[int, int, str | None]] = {}
    with ThreadPoolExecutor(max_workers=source.tree.threads, thread_name_prefix="list") as pool:
        for content in pool.map(source.tree.list, bases_by_folder):
            positions = [n for n, base in enumerate(content.bases) if base in bases_by_folder[content.name]]
            identities |= {file["address"]: _identity(file) for file in _table(source, content, positions).to_pylist()}
    return [
        file["address"]
        for file in files.to_pylist()
        if _is_changed(_identity(file), identities.get(file["address"], _identity(file)))
    ]


def _identity(file: Mapping[str, Any]) -> tuple[int, int, str | None]:
    """Return the size, the modification time and the ETag of a file, which change if its content changes."""
    return file["size_bytes"], file["modified_ms"], file["etag"] or None


def _is_changed(before: tuple[int, int, str | None], now: tuple[int, int, str | None]) -> bool:
    has_both_etags = before[2] is not None and now[2] is not None
    return before[:2] != now[:2] or (has_both_etags and before[2] != now[2])


def _warn_of_other_entries(source: SourceFolder, content: FolderContent) -> None:
    if content.has_more:
        _log.warning(
            "Left out entries of %s: symbolic links, special files, or files with a name that is not UTF-8. "
            "Replace links by files, and give all files names in UTF-8.",
            source.address_of(content.name),
        )


def _table(source: SourceFolder, content: FolderContent, positions: Sequence[int]) -> pa.Table:
    prefix = f"{content.name}/" if content.name else ""
    etags = [content.etags[n] for n in positions] if content.etags else [None] * len(positions)
    columns = [
        [source.address_of(prefix + content.bases[n]) for n in positions],
        [content.sizes[n] for n in positions],
        [content.times_ms[n] for n in positions],
        etags,
    ]
    return pa.table([pa.array(values, field.type) for values, field in zip(columns, FILES, strict=True)], schema=FILES)


def _sorted(tables: Sequence[pa.Table]) -> pa.Table:
    files = pa.concat_tables([FILES.empty_table(), *tables])
    return files.sort_by([("modified_ms", "ascending"), ("address", "ascending")])

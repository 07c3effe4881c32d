"""Symlink manifests: for each partition a text file that lists its data files, for engines that read such lists.

1. A manifest is `_symlink_format_manifest/<partition directory>/manifest`. Each line is the full, unescaped address of
   a file.
2. After a commit, the manifests of the touched partitions are written. All manifests are written if there were none, or
   if the commit has metadata, because the partitioning may have changed. A partition without files loses its manifest.
3. Each manifest is replaced as a whole; two manifests may belong to different versions for a while.
4. Each writer then checks for newer commits, and writes the manifests of the partitions that they touched. Once all
   writers have finished, no manifest is older than the last commit of any of them.
5. Tables with deletion vectors or column mapping have no manifests, because readers of manifests would see wrong rows.

delta-spark: GenerateSymlinkManifest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltalite.columnar.skipping.files import group_by_partition
from deltalite.errors import ConcurrentWriteException, UnsupportedFeatureError, VersionGapError
from deltalite.log.action_files import read_actions
from deltalite.protocol.actions import AddFile, Metadata, RemoveFile
from deltalite.protocol.column_mapping import MappingMode
from deltalite.protocol.file_names import MANIFEST_DIR, commit_name
from deltalite.protocol.partition_values import partition_text
from deltalite.protocol.paths import decode_path, partition_dir
from deltalite.snapshot import Snapshot
from deltalite.storage.locations import resolve_path
from deltalite.storage.log_store import LogStore
from deltalite.storage.trees import Folder, TableTree, walk

_BASE = "manifest"
# Each later round writes only the partitions of new commits, so it is short.
_MAX_ROUNDS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifests:
    """The outcome: the numbers of manifests written, of files that they name, and of manifests deleted.

    `version` is the newest version that they represent.
    """

    version: int
    manifests: int = 0
    files: int = 0
    deleted: int = 0


def generate_manifests(store: LogStore, tree: TableTree) -> Manifests:
    """Write all manifests of the newest version, and delete all others.

    Raises:
        TableNotFoundError: there is no table.
        UnsupportedFeatureError: the table cannot have manifests; nothing was written.
        ConcurrentWriteException: other writers committed in every round; each manifest is of a recent version.
        DeltaLiteError: the log cannot be read, or a manifest cannot be written or deleted.
    """
    snapshot = Snapshot.load(store)
    snapshot.check_log()
    return _write_until_newest(snapshot, tree, None)


def update_manifests(store: LogStore, tree: TableTree, version: int) -> Manifests | None:
    """Write the manifests of the partitions that the commit of `version` touched; None if it touched none.

    Raises: as `generate_manifests`.
    """
    touched = _touched_since(Snapshot.load(store, version), version)
    if touched is not None and not touched:
        return None
    manifest_folder = tree.list(MANIFEST_DIR)
    has_any = manifest_folder.bases or manifest_folder.folders
    return _write_until_newest(Snapshot.load(store), tree, touched if has_any else None)


def touched_directories(
    actions: Iterable[tuple[str, Mapping[str, Any]]], columns: Collection[str]
) -> frozenset[str] | None:
    """Return the partition directories whose files a commit adds or removes.

    None if they are unknown, because the partitioning may have changed or a remove lacks its partition values.
    """
    directories = set()
    for kind, body in actions:
        if kind == Metadata.action:
            return None
        if kind in (AddFile.action, RemoveFile.action):
            values = body.get("partitionValues")
            if values is None and columns:
                return None
            directories.add(partition_dir({column: partition_text(values or {}, column) for column in columns}))
    return frozenset(directories)


def manifest_name(directory: str) -> str:
    """Return the name of the manifest of a partition directory; empty for a table without partitions."""
    return f"{MANIFEST_DIR}/{directory}/{_BASE}" if directory else f"{MANIFEST_DIR}/{_BASE}"


def addresses_by_directory(
    snapshot: Snapshot, directories: Collection[str] | None = None
) -> Iterator[tuple[str, list[str]]]:
    """Yield each partition directory that has files, with their sorted addresses; only those in `directories` if given.

    A table without partitions has one directory, the empty string, even if it has no files.

    Raises:
        UnsupportedFeatureError: a manifest would show other rows than the table has.
    """
    root, columns = snapshot.store.root, snapshot.partition_columns
    if snapshot.table_schema.mode is not MappingMode.NONE:
        raise _unsupported(snapshot, "column mapping", "Read it with an engine that reads Delta tables.")
    files = snapshot.files_with(["path", "partitionValues", "deletionVector"])
    if files["deletionVector"].null_count < files.num_rows:
        raise _unsupported(
            snapshot, "deletion vectors", "Rewrite the files that have one (optimize, or an overwrite), and try again."
        )
    if not columns:
        yield "", sorted(_addresses(root, files["path"]))
        return
    partitions = group_by_partition(files, columns)
    directory_names = pa.array(map(partition_dir, partitions.combinations), pa.string()).dictionary_encode()
    # Null and the empty string are two groups, but one directory.
    directory_of_row = directory_names.indices.take(partitions.group_of_row)
    order = pc.sort_indices(directory_of_row)
    paths, runs = files["path"].take(order), pc.run_end_encode(directory_of_row.take(order))
    first = 0
    for index, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        directory = directory_names.dictionary[index].as_py()
        if directories is None or directory in directories:
            yield directory, sorted(_addresses(root, paths.slice(first, end - first)))
        first = end


def _addresses(root: str, paths: pa.ChunkedArray) -> Iterator[str]:
    for path in paths.to_pylist():
        address = resolve_path(root, decode_path(path))
        if not {"\n", "\r"}.isdisjoint(address):
            raise UnsupportedFeatureError(
                f"The table at {root} cannot have manifests, because the name of its file {address!r} has a line break "
                "and a manifest has one file per line.",
                remedy="Rewrite the file under another name.",
            )
        yield f"file:{address}" if address.startswith("/") else address


def _unsupported(snapshot: Snapshot, feature: str, remedy: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"The table at {snapshot.store.root} cannot have manifests, because version {snapshot.version} uses {feature}: "
        "readers of manifests ignore this feature and would return wrong rows.",
        remedy=remedy,
    )


def _write_until_newest(snapshot: Snapshot, tree: TableTree, directories: frozenset[str] | None) -> Manifests:
    """Write the manifests of the given directories, or all for None, until they represent the newest version."""
    done = Manifests(version=snapshot.version)
    for _ in range(_MAX_ROUNDS):
        done = _write_manifests(snapshot, tree, directories, done)
        newest = Snapshot.load(snapshot.store)
        if newest.version == snapshot.version:
            return done
        directories, snapshot = _touched_since(newest, snapshot.version + 1), newest
    raise ConcurrentWriteException(
        f"Could not complete the manifests of {snapshot.store.root}: other writers committed in each of "
        f"{_MAX_ROUNDS} rounds.",
        remedy="Generate the manifests when fewer tasks write to the table.",
    )


def _touched_since(newest: Snapshot, since: int) -> frozenset[str] | None:
    """Return `touched_directories` of all commits from a version up to that of a snapshot."""
    touched: frozenset[str] = frozenset()
    for version in range(since, newest.version + 1):
        try:
            actions = read_actions(newest.store, commit_name(version))
            touched_by_commit = touched_directories(actions, newest.partition_columns)
        except VersionGapError:  # deleted by log cleanup meanwhile
            return None
        if touched_by_commit is None:
            return None
        touched |= touched_by_commit
    return touched


def _write_manifests(
    snapshot: Snapshot, tree: TableTree, directories: frozenset[str] | None, done: Manifests
) -> Manifests:
    contents: dict[str, bytes] = {}
    files = 0
    for directory, addresses in addresses_by_directory(snapshot, directories):
        contents[directory] = "".join(f"{address}\n" for address in addresses).encode()
        files += len(addresses)
    names = map(manifest_name, contents)
    with ThreadPoolExecutor(max_workers=tree.threads, thread_name_prefix="manifest") as pool:
        list(pool.map(snapshot.store.write, names, contents.values()))
    existing = _existing_directories(tree) if directories is None else directories
    return Manifests(
        version=snapshot.version,
        manifests=done.manifests + len(contents),
        files=done.files + files,
        deleted=done.deleted + _delete_manifests(tree, existing - contents.keys()),
    )


def _existing_directories(tree: TableTree) -> frozenset[str]:
    """Return the partition directories that have a manifest."""
    directories = set()

    def visit(folder: Folder) -> Iterable[str]:
        if not folder.name:
            return [MANIFEST_DIR]
        if _BASE in folder.bases:
            directories.add(folder.name.removeprefix(MANIFEST_DIR).lstrip("/"))
        return [name for name, _ in folder.folders]

    walk(tree, visit)
    return frozenset(directories)


def _delete_manifests(tree: TableTree, directories: Collection[str]) -> int:
    """Delete the manifests of partitions without files, and the folders that this leaves empty."""
    deletion = tree.delete_files(sorted(map(manifest_name, directories)))
    if deletion.error is not None:
        raise deletion.error
    for directory in sorted(directories, reverse=True):
        while directory and tree.remove_folder(f"{MANIFEST_DIR}/{directory}"):
            directory = directory.rpartition("/")[0]  # noqa: PLW2901  one level up
    return deletion.deleted

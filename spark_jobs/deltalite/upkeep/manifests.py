"""Symlink manifests: for each partition a text file that lists its data files, for engines that read such lists.

1. A manifest is `_symlink_format_manifest/<partition directory>/manifest`. Each line is the full, unescaped address of
   a file.
2. After a commit, the writer writes the manifests of the touched partitions. It writes all manifests if there were
   none, or if the touched partitions are unknown, for example because the commit changes the partitioning. It deletes
   the manifest of a partition without files.
3. Each manifest is replaced as a whole. Two manifests may belong to different versions for a short time.
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
from deltalite.storage.trees import FolderContent, TableTree, walk

_MANIFEST_BASE = "manifest"
# Each later round writes only the partitions of new commits, so it is short.
_MAX_ROUNDS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestsOutcome:
    """The outcome of writing manifests.

    - `version`: the newest version that the manifests represent.
    - `manifests`: the number of written manifests.
    - `files`: the number of files in the written manifests.
    - `deleted`: the number of deleted manifests.
    """

    version: int
    manifests: int = 0
    files: int = 0
    deleted: int = 0


def generate_manifests(store: LogStore, tree: TableTree) -> ManifestsOutcome:
    """Write all manifests of the newest version, and delete all others.

    Raises:
        TableNotFoundError: there is no table.
        UnsupportedFeatureError: the table cannot have manifests; nothing was written.
        ConcurrentWriteException: other writers committed in every round. Some manifests may be of older versions.
        DeltaLiteError: the log cannot be read, or a manifest cannot be written or deleted.
    """
    snapshot = Snapshot.load(store)
    snapshot.check_log()
    return _write_until_newest(snapshot, tree, None)


def update_manifests(store: LogStore, tree: TableTree, version: int) -> ManifestsOutcome | None:
    """Write the manifests of the partitions that the commit of `version` touched; return None if it touched none.

    Raises:
        DeltaLiteError: as `generate_manifests`.
    """
    directories = _touched_since(Snapshot.load(store, version), version)
    if directories is not None and not directories:
        return None
    manifest_folder = tree.list(MANIFEST_DIR)
    has_manifests = bool(manifest_folder.bases or manifest_folder.folders)
    return _write_until_newest(Snapshot.load(store), tree, directories if has_manifests else None)


def touched_directories(
    actions: Iterable[tuple[str, Mapping[str, Any]]], partition_columns: Collection[str]
) -> frozenset[str] | None:
    """Return the partition directories in which a commit adds or removes files.

    None if they are unknown: the partitioning may have changed, or a `remove` action lacks its partition values.
    """
    directories = set()
    for kind, body in actions:
        if kind == Metadata.action:
            return None
        if kind in (AddFile.action, RemoveFile.action):
            values = body.get("partitionValues")
            if values is None and partition_columns:
                return None
            texts = {column: partition_text(values or {}, column) for column in partition_columns}
            directories.add(partition_dir(texts))
    return frozenset(directories)


def manifest_name(directory: str) -> str:
    """Return the name of the manifest of a partition directory; empty for a table without partitions."""
    return f"{MANIFEST_DIR}/{directory}/{_MANIFEST_BASE}" if directory else f"{MANIFEST_DIR}/{_MANIFEST_BASE}"


def addresses_by_directory(
    snapshot: Snapshot, directories: Collection[str] | None = None
) -> Iterator[tuple[str, list[str]]]:
    """Yield each partition directory that has files, with the sorted addresses of its files.

    If `directories` is not None, the result contains only these directories. A table without partitions has one
    directory, the empty string, even if it has no files.

    Raises:
        UnsupportedFeatureError: a reader of the manifests would see other rows than the table contains, or the address
            of a file has a line break.
    """
    root, columns = snapshot.store.root, snapshot.partition_columns
    if snapshot.table_schema.mode is not MappingMode.NONE:
        raise _unsupported_error(snapshot, "column mapping", "Read it with an engine that reads Delta tables.")
    files = snapshot.files_with(["path", "partitionValues", "deletionVector"])
    if files["deletionVector"].null_count < files.num_rows:
        raise _unsupported_error(
            snapshot,
            "deletion vectors",
            "Rewrite the files with deletion vectors (optimize or overwrite the table), and try again.",
        )
    if not columns:
        yield "", sorted(_addresses(root, files["path"]))
        return
    partitions = group_by_partition(files, columns)
    directory_names = pa.array(map(partition_dir, partitions.combinations), pa.string()).dictionary_encode()
    # Null and the empty string are two groups, but one directory.
    directory_of_row = directory_names.indices.take(partitions.combination_of_file)
    row_order = pc.sort_indices(directory_of_row)
    paths, runs = files["path"].take(row_order), pc.run_end_encode(directory_of_row.take(row_order))
    start = 0
    for index, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        directory = directory_names.dictionary[index].as_py()
        if directories is None or directory in directories:
            yield directory, sorted(_addresses(root, paths.slice(start, end - start)))
        start = end


def _addresses(root: str, paths: pa.ChunkedArray) -> Iterator[str]:
    """Yield the addresses of files. Raises `UnsupportedFeatureError` for a line break in an address."""
    for path in paths.to_pylist():
        address = resolve_path(root, decode_path(path))
        if not {"\n", "\r"}.isdisjoint(address):
            raise UnsupportedFeatureError(
                f"The table at {root} cannot have manifests, because the name of its file {address!r} contains a "
                "line break and a manifest contains one file per line.",
                remedy="Rewrite the file under another name.",
            )
        yield f"file:{address}" if address.startswith("/") else address


def _unsupported_error(snapshot: Snapshot, feature: str, remedy: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"The table at {snapshot.store.root} cannot have manifests, because version {snapshot.version} uses {feature}: "
        "readers of manifests ignore this feature and would return wrong rows.",
        remedy=remedy,
    )


def _write_until_newest(snapshot: Snapshot, tree: TableTree, directories: frozenset[str] | None) -> ManifestsOutcome:
    """Write the manifests of `directories`, or all if None, until the manifests represent the newest version."""
    outcome = ManifestsOutcome(version=snapshot.version)
    for _ in range(_MAX_ROUNDS):
        outcome = _write_manifests(snapshot, tree, directories, outcome)
        newest = Snapshot.load(snapshot.store)
        if newest.version == snapshot.version:
            return outcome
        directories, snapshot = _touched_since(newest, snapshot.version + 1), newest
    raise ConcurrentWriteException(
        f"Could not complete the manifests of {snapshot.store.root}: other writers committed in each of "
        f"{_MAX_ROUNDS} rounds.",
        remedy="Generate the manifests when fewer tasks write to the table.",
    )


def _touched_since(newest: Snapshot, first_version: int) -> frozenset[str] | None:
    """Return the `touched_directories` of all commits from `first_version` up to the version of `newest`.

    None if they are unknown.
    """
    directories: frozenset[str] = frozenset()
    for version in range(first_version, newest.version + 1):
        try:
            actions = read_actions(newest.store, commit_name(version))
            commit_directories = touched_directories(actions, newest.partition_columns)
        except VersionGapError:  # Log cleanup has deleted the commit.
            return None
        if commit_directories is None:
            return None
        directories |= commit_directories
    return directories


def _write_manifests(
    snapshot: Snapshot, tree: TableTree, directories: frozenset[str] | None, earlier_rounds: ManifestsOutcome
) -> ManifestsOutcome:
    """Write the manifests of `directories`, or all if None; return the outcome of this round and of earlier rounds."""
    contents: dict[str, bytes] = {}
    file_count = 0
    for directory, addresses in addresses_by_directory(snapshot, directories):
        contents[directory] = "".join(f"{address}\n" for address in addresses).encode()
        file_count += len(addresses)
    names = map(manifest_name, contents)
    with ThreadPoolExecutor(max_workers=tree.threads, thread_name_prefix="manifest") as pool:
        list(pool.map(snapshot.store.write, names, contents.values()))
    possible_directories = _existing_directories(tree) if directories is None else directories
    return ManifestsOutcome(
        version=snapshot.version,
        manifests=earlier_rounds.manifests + len(contents),
        files=earlier_rounds.files + file_count,
        deleted=earlier_rounds.deleted + _delete_manifests(tree, possible_directories - contents.keys()),
    )


def _existing_directories(tree: TableTree) -> frozenset[str]:
    """Return the partition directories that contain a manifest."""
    directories = set()

    def visit(folder: FolderContent) -> Iterable[str]:
        if not folder.name:
            return [MANIFEST_DIR]
        if _MANIFEST_BASE in folder.bases:
            directories.add(folder.name.removeprefix(MANIFEST_DIR).lstrip("/"))
        return [name for name, _ in folder.folders]

    walk(tree, visit)
    return frozenset(directories)


def _delete_manifests(tree: TableTree, directories: Collection[str]) -> int:
    """Delete the manifests of `directories`, and the folders that are then empty; return the number of manifests."""
    deletion = tree.delete_files(sorted(map(manifest_name, directories)))
    if deletion.error is not None:
        raise deletion.error
    for directory in sorted(directories, reverse=True):
        while directory and tree.remove_folder(f"{MANIFEST_DIR}/{directory}"):
            directory = directory.rpartition("/")[0]  # noqa: PLW2901  one level up
    return deletion.deleted

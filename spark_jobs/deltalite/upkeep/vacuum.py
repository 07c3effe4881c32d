"""Plans a full or lite vacuum and deletes the planned files; it commits nothing.

A plan requires a log that is fully readable, a protocol that this library can write, and a complete listing. The order
of the steps protects the files of concurrent writers: read the snapshot, read the commits, list the folder. The
snapshot and the commits therefore name every committed file in the listing, except the files of later commits. The
caller removes these files from the plan with `exclude_later_commits`. Protocol: VACUUM Protocol Check.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa

from deltalite.errors import CorruptLogError, VersionNotFoundError
from deltalite.log.action_files import read_actions
from deltalite.log.listing import list_log
from deltalite.protocol.actions import AddCDCFile, RemoveFile
from deltalite.protocol.features import check_writable
from deltalite.protocol.paths import is_inside, name_in_table
from deltalite.snapshot import Snapshot
from deltalite.storage.log_store import LogStore
from deltalite.storage.trees import Deletion, ListedTree, TableTree, walk
from deltalite.upkeep.last_vacuum_info import read_last_vacuum
from deltalite.upkeep.vacuum_names import (
    REMOVED_SCHEMA,
    NamesToKeep,
    add_names_of_commits,
    commits_within_retention,
    names_in_log,
    newest_version_at,
    path_and_vector,
)
from deltalite.upkeep.vacuum_plan import PLANNED_SCHEMA, ListingBuilder, VacuumPlan, plan_full_vacuum
from deltalite.upkeep.vacuum_rules import HiddenNames, Retention


def full_plan(snapshot: Snapshot, tree: ListedTree, retention: Retention) -> VacuumPlan:
    """Plan a full vacuum from a listing of the whole folder.

    Raises:
        UnsupportedFeatureError: the table requires a writer feature that this release does not implement.
        CorruptLogError, CorruptDataFileError: the log cannot be read completely.
        StorageError, StoragePermissionError: a folder cannot be listed.
    """
    check_writable(snapshot.protocol, snapshot.metadata)
    names = names_in_log(snapshot, commits_within_retention(snapshot, retention.cutoff_ms), retention.cutoff_ms)
    swept_version = newest_version_at(snapshot, retention.unnamed_before_ms)
    builder = ListingBuilder(HiddenNames.of(snapshot))
    walk(tree, builder.add)
    return plan_full_vacuum(builder.listing(), names, retention, swept_version)


def lite_plan(snapshot: Snapshot, retention: Retention) -> VacuumPlan:
    """Plan a lite vacuum from the log alone: the removed files and change files of commits since the last vacuum.

    Raises:
        VersionNotFoundError: the log no longer holds all commits since the last vacuum. A full vacuum is necessary.
        UnsupportedFeatureError, CorruptLogError, CorruptDataFileError: as `full_plan`.
    """
    check_writable(snapshot.protocol, snapshot.metadata)
    commits = commits_within_retention(snapshot, retention.cutoff_ms)
    names = names_in_log(snapshot, commits, retention.cutoff_ms)
    last_version = newest_version_at(snapshot, retention.cutoff_ms)
    if last_version is None:
        return VacuumPlan(files=PLANNED_SCHEMA.empty_table())
    removed_sizes, swept_version = _removed_files(snapshot, last_version, retention.cutoff_ms)
    hidden_names = HiddenNames.of(snapshot)
    sizes = {name: size for name, size in removed_sizes.items() if not hidden_names.hides_any_part(name)}
    files = pa.table({"name": list(sizes), "size": list(sizes.values())}, schema=PLANNED_SCHEMA)
    return VacuumPlan(files=files, swept_version=swept_version).without_files_to_keep(names)


def exclude_later_commits(plan: VacuumPlan, store: LogStore, *, base: int, head: int) -> VacuumPlan:
    """Return the plan without the files in the commits after version `base`, up to version `head` (inclusive).

    Raises:
        CorruptLogError: a commit cannot be read.
        CorruptDataFileError: a deletion vector has an invalid file name.
    """
    if head <= base:
        return plan
    commits = list_log(store, base + 1).commits
    names_to_keep = NamesToKeep()
    add_names_of_commits(
        store, [commits[version] for version in sorted(commits) if base < version <= head], names_to_keep
    )
    return plan.without_files_to_keep(names_to_keep.with_removed_names(REMOVED_SCHEMA.empty_table()))


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """The outcome of a sweep: the deletion of files, and the number of removed folders."""

    files: Deletion
    folders: int


def sweep(tree: TableTree, plan: VacuumPlan) -> SweepResult:
    """Delete the files of a plan, several batches at a time, and then the folders of the plan that are empty.

    If a file cannot be deleted, the sweep continues with the other files. Only the names of a few batches are Python
    objects at a time.
    """
    threads = tree.threads
    total = Deletion()
    running: deque[Future[Deletion]] = deque()
    with ThreadPoolExecutor(max_workers=threads, thread_name_prefix="delete") as pool:
        for names in _batches(plan.files, tree.files_per_call):
            if len(running) >= 2 * threads:
                total += running.popleft().result()
            running.append(pool.submit(tree.delete_files, names))
        for future in running:
            total += future.result()
    return SweepResult(files=total, folders=sum(tree.remove_folder(name) for name in plan.folders))


def _batches(files: pa.Table, size: int) -> Iterator[list[str]]:
    for start in range(0, files.num_rows, size):
        yield files["name"].slice(start, size).to_pylist()


def _removed_files(snapshot: Snapshot, last_version: int, cutoff_ms: int) -> tuple[dict[str, int], int]:
    """Find the files that commits since the last vacuum, up to `last_version`, removed before the cutoff.

    The result also contains the change files of these commits, and the files of deletion vectors.

    Returns the sizes of the files by name, and the version up to which the result is complete. A later vacuum deletes
    the files that were removed after the cutoff.
    """
    store = snapshot.store
    commits = list_log(store, 0).commits
    last_vacuumed = read_last_vacuum(store)
    oldest_version = min(commits)
    first_version = oldest_version if last_vacuumed is None else min(last_vacuumed, snapshot.version) + 1
    if first_version < oldest_version or (last_vacuumed is None and oldest_version > 0):
        last_vacuum_text = "none is known" if last_vacuumed is None else f"it reached version {last_vacuumed}"
        raise VersionNotFoundError(
            f"A lite vacuum of {store.root} needs all commits since the last vacuum ({last_vacuum_text}), but the log "
            f"begins with version {oldest_version}.",
            remedy="Run a full vacuum once (mode='full'). Later vacuums can be lite.",
        )
    sizes: dict[str, int] = {}
    swept_version = last_version
    for version in range(first_version, last_version + 1):
        commit = commits.get(version)
        if commit is None:
            raise CorruptLogError(
                f"The log of {store.root} lacks commit {version}, but contains older and newer commits.",
                remedy="Restore the commit from a backup, or run a full vacuum.",
            )
        for kind, body in read_actions(store, commit.name, commit.size_bytes):
            if kind not in (RemoveFile.action, AddCDCFile.action):
                continue
            path, vector = path_and_vector(body, commit.name)
            if kind == RemoveFile.action and (body.get("deletionTimestamp") or 0) >= cutoff_ms:
                swept_version = min(swept_version, version - 1)
                continue
            name = name_in_table(path, store.root)
            if name is not None:
                sizes[name] = body.get("size") or 0
            if vector is not None and is_inside(vector):
                sizes.setdefault(vector, 0)
    return sizes, swept_version

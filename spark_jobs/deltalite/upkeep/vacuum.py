"""Plans a full or lite vacuum and deletes the planned files; it commits nothing.

A plan requires a log that is fully readable, a protocol that this library can write, and a complete listing. The order
protects files of concurrent writers: first the snapshot is read, then the commits, then the folder, so the log names
every listed file that was committed before. For later commits, the caller removes their files from the plan with
`protected_since`. Protocol: VACUUM Protocol Check.
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
from deltalite.snapshot import Snapshot
from deltalite.storage.log_store import LogStore
from deltalite.storage.trees import Deletion, ListedTree, TableTree, walk
from deltalite.upkeep.last_vacuum import read_last_vacuum
from deltalite.upkeep.vacuum_names import (
    REMOVED,
    KeptNames,
    commits_within_retention,
    names_in_log,
    newest_at,
    path_and_vector,
    protect_commits,
)
from deltalite.upkeep.vacuum_plan import PLANNED, ListingBuilder, VacuumPlan, plan_full_vacuum
from deltalite.upkeep.vacuum_rules import HiddenNames, Retention, deletable_name, is_inside


def full_plan(snapshot: Snapshot, tree: ListedTree, retention: Retention) -> VacuumPlan:
    """Plan a full vacuum from a listing of the whole folder.

    Raises:
        UnsupportedFeatureError: the table requires a writer feature that this release does not implement.
        CorruptLogError, CorruptDataFileError: the log cannot be read completely.
        StorageError, StoragePermissionError: a folder cannot be listed.
    """
    check_writable(snapshot.protocol, snapshot.metadata)
    names = names_in_log(snapshot, commits_within_retention(snapshot, retention.cutoff_ms), retention.cutoff_ms)
    swept = newest_at(snapshot, retention.unnamed_before_ms)
    builder = ListingBuilder(HiddenNames.of(snapshot))
    walk(tree, builder.add)
    return plan_full_vacuum(builder.listing(), names, retention, swept)


def lite_plan(snapshot: Snapshot, retention: Retention) -> VacuumPlan:
    """Plan a lite vacuum from the log alone: the removed files and change files of commits since the last vacuum.

    Raises:
        VersionNotFoundError: the log no longer holds all commits since then, so a full vacuum is necessary.
        UnsupportedFeatureError, CorruptLogError, CorruptDataFileError: as `full_plan`.
    """
    check_writable(snapshot.protocol, snapshot.metadata)
    commits = commits_within_retention(snapshot, retention.cutoff_ms)
    names = names_in_log(snapshot, commits, retention.cutoff_ms)
    last = newest_at(snapshot, retention.cutoff_ms)
    if last is None:
        return VacuumPlan(files=PLANNED.empty_table())
    removed_sizes, swept = _removed_files(snapshot, last, retention.cutoff_ms)
    hidden = HiddenNames.of(snapshot)
    sizes = {name: size for name, size in removed_sizes.items() if not hidden.hides_any_part(name)}
    files = pa.table({"name": list(sizes), "size": list(sizes.values())}, schema=PLANNED)
    return VacuumPlan(files=files, swept_version=swept).without(names)


def protected_since(plan: VacuumPlan, store: LogStore, *, base: int, head: int) -> VacuumPlan:
    """Return the plan without the files that the commits after version `base`, up to `head` (inclusive), name.

    Raises:
        CorruptLogError: a commit cannot be read.
    """
    if head <= base:
        return plan
    commits = list_log(store, base + 1).commits
    kept_names = KeptNames()
    protect_commits(store, [commits[version] for version in sorted(commits) if base < version <= head], kept_names)
    return plan.without(kept_names.with_removed(REMOVED.empty_table()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """The outcome of a sweep: the deletion of files, and the number of removed folders."""

    files: Deletion
    folders: int


def sweep(tree: TableTree, plan: VacuumPlan) -> Swept:
    """Delete the files of a plan, several batches at a time, then the folders that this leaves empty.

    A file that cannot be deleted does not stop the others. At most a few batches are held as Python objects.
    """
    threads = tree.threads
    total = Deletion()
    running: deque[Future[Deletion]] = deque()
    with ThreadPoolExecutor(max_workers=threads, thread_name_prefix="delete") as pool:
        for names in _batches(plan.files, tree.batch):
            if len(running) >= 2 * threads:
                total += running.popleft().result()
            running.append(pool.submit(tree.delete_files, names))
        for future in running:
            total += future.result()
    return Swept(files=total, folders=sum(tree.remove_folder(name) for name in plan.folders))


def _batches(files: pa.Table, size: int) -> Iterator[list[str]]:
    for at in range(0, files.num_rows, size):
        yield files["name"].slice(at, size).to_pylist()


def _removed_files(snapshot: Snapshot, last: int, cutoff_ms: int) -> tuple[dict[str, int], int]:
    """Find the files that commits since the last vacuum, up to `last`, removed before the cutoff.

    Returns their sizes by name, and the version up to which the result is complete. A remove whose time is after the
    cutoff is left to a later vacuum.
    """
    store = snapshot.store
    commits = list_log(store, 0).commits
    last_vacuumed = read_last_vacuum(store)
    oldest = min(commits)
    first = oldest if last_vacuumed is None else min(last_vacuumed, snapshot.version) + 1
    if first < oldest or (last_vacuumed is None and oldest > 0):
        since = "none is known" if last_vacuumed is None else f"the last one reached version {last_vacuumed}"
        raise VersionNotFoundError(
            f"A lite vacuum of {store.root} needs all commits since the last vacuum ({since}), and the log begins with "
            f"version {oldest}.",
            remedy="Run a full vacuum once (mode='full'). Later vacuums can be lite.",
        )
    sizes: dict[str, int] = {}
    swept = last
    for version in range(first, last + 1):
        commit = commits.get(version)
        if commit is None:
            raise CorruptLogError(
                f"The log of {store.root} lacks commit {version}, though it has older and newer ones.",
                remedy="Restore the commit from a backup, or run a full vacuum.",
            )
        for kind, body in read_actions(store, commit.name, commit.size_bytes):
            if kind not in (RemoveFile.action, AddCDCFile.action):
                continue
            path, vector = path_and_vector(body, commit.name)
            if kind == RemoveFile.action and (body.get("deletionTimestamp") or 0) >= cutoff_ms:
                swept = min(swept, version - 1)
                continue
            name = deletable_name(path, store.root)
            if name is not None:
                sizes[name] = body.get("size") or 0
            if vector is not None and is_inside(vector):
                sizes.setdefault(vector, 0)
    return sizes, swept

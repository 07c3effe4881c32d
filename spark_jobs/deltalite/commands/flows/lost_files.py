"""The lost files of incremental sources, which the attempts of one command share.

A vacuum of a source can delete removed files and change data files that a flow has not loaded yet. The log still has
the commits with these files, so a plan does not show the loss. If a read fails because a file is missing, the command
looks for the files of each source, and replans: the versions with the lost files are then a gap. A load without a loss
sends no additional request to the storage.

No vacuum deletes a file of the source's newest version. If such a file is missing, the source is damaged, and the
command fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from deltalite.change_feed import ChangePlan, plan_changes
from deltalite.change_feed.appends import plan_appends
from deltalite.columnar.deletion_vectors.descriptors import file_name
from deltalite.commands.common.replanning import NewPlanNeeded
from deltalite.commands.flows.ranges import Loss
from deltalite.errors import (
    ChangeFeedUnavailableError,
    CorruptDataFileError,
    SourceNotFoundError,
    VersionGapError,
    VersionNotFoundError,
)
from deltalite.inspection.presence import Absent, Presence
from deltalite.log.listing import list_log
from deltalite.protocol.paths import decode_path
from deltalite.sizes import counted
from deltalite.snapshot import Snapshot
from deltalite.spark.runtime.errors import SPARK_ERRORS, is_missing_path

if TYPE_CHECKING:
    from deltalite.spark.reader.incremental import SourceLoad


class LostFiles:
    """The lost files that one command knows, by the names of its incremental sources."""

    def __init__(self) -> None:
        self._losses: dict[str, Loss] = {}

    def loss_of(self, source_name: str) -> Loss | None:
        """Return the lost files of a source, or None if none is known."""
        return self._losses.get(source_name)

    @contextmanager
    def replan_after_loss(self, loads: Mapping[str, SourceLoad]) -> Iterator[None]:
        """Make the command replan if the `with` block fails because files of these loads are lost.

        Raises:
            NewPlanNeeded: files are lost.
            CorruptDataFileError: a file of a source's newest version does not exist.
            StorageError: storage does not answer.
        """
        try:
            yield
        except (SourceNotFoundError, CorruptDataFileError, *SPARK_ERRORS) as error:
            if isinstance(error, SPARK_ERRORS) and not is_missing_path(error):
                raise
            losses = ((name, find_loss(load)) for name, load in loads.items() if not load.is_empty)
            new_losses = {name: loss for name, loss in losses if loss is not None and loss != self.loss_of(name)}
            if not new_losses:
                raise
            self._losses.update(new_losses)
            reasons = "; ".join(f"{name}: {loss.reason}" for name, loss in new_losses.items())
            raise NewPlanNeeded(f"an incremental source has lost files: {reasons}") from error


def find_loss(load: SourceLoad) -> Loss | None:
    """Look for the files of a load and of the versions after it. Return the loss if some do not exist, else None.

    For the load of a whole snapshot, return None.

    Raises:
        CorruptDataFileError: a file of the source's newest version does not exist.
        StorageError: storage does not answer.
    """
    newest = Snapshot.load(load.snapshot.store)
    versions_by_name: dict[str, list[int]] = {}
    if load.plan is None:
        versions_by_name = {name: [load.snapshot.version] for name in _names_in(load.snapshot)}
    else:
        for file in _plan_to(newest.version, load.plan, reads_feed=load.has_change_columns).files:
            for name in _names(file.path, file.deletion_vector, file.only_rows_vector):
                versions_by_name.setdefault(name, []).append(file.version)
    names = list(versions_by_name)
    sizes = Presence(newest.store).sizes_by_cheaper_way(names, newest.files.num_rows)
    lost_names = [name for name, size in zip(names, sizes, strict=True) if size is Absent.MISSING]
    _check_not_live(lost_names, newest)
    lost_files = [(version, name) for name in lost_names for version in versions_by_name[name]]
    if not lost_files or load.plan is None:
        return None
    first_version, name = min(lost_files)
    return Loss(file_name=name, first_version=first_version, last_version=max(lost_files)[0])


def _plan_to(newest_version: int, plan: ChangePlan, *, reads_feed: bool) -> ChangePlan:
    """Return the plan extended to the newest version, or the same plan if these versions cannot be planned together."""
    if plan.snapshot.version == newest_version:
        return plan
    store = plan.snapshot.store
    try:
        if reads_feed:
            return plan_changes(store, plan.from_version, newest_version)
        commits = list_log(store, 0).commits
        return plan_appends(store, plan.from_version, newest_version, commits, skips_changes=True)
    except (ChangeFeedUnavailableError, VersionGapError, VersionNotFoundError):
        return plan


def _check_not_live(lost_names: Sequence[str], newest: Snapshot) -> None:
    if not lost_names:
        return
    live_names = sorted(set(lost_names).intersection(_names_in(newest)))
    if live_names:
        raise CorruptDataFileError(
            f"The incremental source {newest.store.root} is damaged: its newest version, {newest.version}, needs "
            f"{live_names[0]}, which does not exist ({counted(len(live_names), 'such file')}).",
            remedy="Copy the file back, or restore the source to a version that has all of its files "
            "(`deltalite verify` lists them).",
        )


def _names_in(snapshot: Snapshot) -> Iterator[str]:
    """Yield the names of the files of a version, and of the files of their vectors."""
    for batch in snapshot.files.select(["path", "deletionVector"]).to_batches():
        for row in batch.to_pylist():
            yield from _names(row["path"], row["deletionVector"])


def _names(path: str, *vectors: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield the names of a data file and of the files of its vectors."""
    yield decode_path(path)
    for descriptor in vectors:
        name = None if descriptor is None else file_name(descriptor)
        if name is not None:
            yield name

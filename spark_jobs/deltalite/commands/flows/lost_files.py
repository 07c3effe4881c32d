"""The files of incremental sources that no longer exist, for all attempts of one command.

A vacuum of a source deletes removed files and change data files that a flow has not loaded yet. The log still has their
commits, so a plan does not show the loss. After a read of a missing file, the command looks for the files of each
source, and replans: the versions with the lost files are then a gap. A load without a loss needs no request for this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from deltalite.columnar.deletion_vectors.reading import file_name
from deltalite.commands.common.replanning import NewPlanNeeded
from deltalite.commands.flows.ranges import Loss
from deltalite.errors import CorruptDataFileError, SourceNotFoundError
from deltalite.inspection.presence import Absent, Presence, requests_per_file_are_as_cheap
from deltalite.protocol.paths import decode_path
from deltalite.spark.runtime.errors import SPARK_ERRORS, is_missing_path

if TYPE_CHECKING:
    from deltalite.change_feed import ChangePlan
    from deltalite.log.changes import ChangedFile
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
        """Make the command replan if the read of these loads in the context fails because files are lost.

        Raises:
            NewPlanNeeded: files are lost.
            StorageError: storage does not answer.
        """
        try:
            yield
        except (SourceNotFoundError, CorruptDataFileError, *SPARK_ERRORS) as error:
            if isinstance(error, SPARK_ERRORS) and not is_missing_path(error):
                raise
            losses = {name: find_loss(load.plan) for name, load in loads.items() if load.plan is not None}
            news = {name: loss for name, loss in losses.items() if loss is not None and loss != self.loss_of(name)}
            if not news:
                raise
            self._losses.update(news)
            reasons = "; ".join(f"{name}: {loss.reason}" for name, loss in news.items())
            raise NewPlanNeeded(f"an incremental source has lost files: {reasons}") from error


def find_loss(plan: ChangePlan) -> Loss | None:
    """Look for the files of a plan, and return the loss if some do not exist.

    Raises:
        StorageError: storage does not answer.
    """
    versions_by_name: dict[str, list[int]] = {}
    for file in plan.files:
        for name in _names_of(file):
            versions_by_name.setdefault(name, []).append(file.version)
    names = list(versions_by_name)
    presence = Presence(plan.snapshot.store)
    few = requests_per_file_are_as_cheap(names, plan.snapshot.files.num_rows)
    sizes = presence.sizes_by_request(names) if few else presence.sizes(names)
    lost = [
        (version, name)
        for name, size in zip(names, sizes, strict=True)
        if size is Absent.MISSING
        for version in versions_by_name[name]
    ]
    if not lost:
        return None
    first_version, name = min(lost)
    return Loss(file_name=name, first_version=first_version, last_version=max(lost)[0])


def _names_of(file: ChangedFile) -> Iterator[str]:
    """Yield the names of the files that hold the rows of a change: the data file and the files of its vectors."""
    yield decode_path(file.path)
    for descriptor in (file.deletion_vector, file.only_rows_vector):
        name = None if descriptor is None else file_name(descriptor)
        if name is not None:
            yield name

"""The request of a vacuum task.

A retention shorter than the table's can break queries, streams and time travel of other users. The author therefore
confirms the short retention with the table's name. The name limits the confirmation to one table of a mapped task. The
command compares the retention with the table's property.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from deltalite.requests.base import CommitRequest, Fault, convert_to_enum, faults_of_rerun_replace


class VacuumMode(StrEnum):
    """The search for files to delete: `full` lists the table's folder, `lite` reads only its log."""

    FULL = "full"
    LITE = "lite"


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumRequest(CommitRequest):
    """A request to delete the files below `table` that no version inside the retention needs.

    `retention_hours` counts back from now; None means the table's `delta.deletedFileRetentionDuration`.
    See `DeltaVacuumOperator` for the meaning of each parameter.
    """

    kind: ClassVar[str] = "vacuum"

    retention_hours: int | None = None
    dry_run: bool = False
    mode: VacuumMode = VacuumMode.FULL
    confirm_short_retention: str | None = None

    def __post_init__(self) -> None:
        convert_to_enum(self, "mode", VacuumMode)
        CommitRequest.__post_init__(self)

    def faults(self) -> Iterator[Fault]:
        """Yield the faults of the request, each with its remedy, the most important first."""
        yield from CommitRequest.faults(self)
        if self.retention_hours is not None and self.retention_hours < 0:
            yield (
                f"retention_hours is {self.retention_hours}, which is negative.",
                "Give 0 or more, or leave it out to use the table's retention.",
            )
        if self.confirm_short_retention is not None and self.confirm_short_retention not in self._confirming_names:
            yield (
                f"confirm_short_retention names '{self.confirm_short_retention}', but the table is {self.table}.",
                f"Give '{self._confirming_names[-1]}' to confirm a short retention for this table, or leave it out.",
            )
        yield from faults_of_rerun_replace(
            self.identity,
            f"the operation is '{self.kind}'",
            "Use on_rerun='write' to run the vacuum again, or 'skip'.",
        )

    @property
    def confirms_short_retention(self) -> bool:
        """Whether the author confirmed a retention that is shorter than the table's."""
        return self.confirm_short_retention is not None

    @property
    def _confirming_names(self) -> tuple[str, str]:
        """The names that confirm a short retention: the table's address, and the last part of the address."""
        return self.table, self.table.rstrip("/").rpartition("/")[2]

"""What a delete, an update or a merge does to a table: values between planning, writing and committing it.

A command plans on one snapshot: which files are touched, what becomes of their rows, what was read to decide it. How a
table keeps deleted rows, and what its change feed needs, is no part of the plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from deltalite.commands.write_target import WriteTarget
from deltalite.protocol import properties as props
from deltalite.protocol.features import supported_features
from deltalite.snapshot import Snapshot
from deltalite.spark.changed_rows import ChangedRows, NewRows, RowColumns
from deltalite.spark.row_actions import RowAction
from deltalite.txn.proposal import ReadSet

if TYPE_CHECKING:
    from deltalite.commands.committing import Files
    from deltalite.commands.marked_files import MarkedFiles
    from deltalite.commands.written_files import WrittenFiles
    from deltalite.protocol.actions import AddCDCFile, AddFile, RemoveFile


@dataclass(frozen=True, slots=True, kw_only=True)
class TouchedRows:
    """Files with rows that change, and what becomes of their rows, of which `changed` change.

    `numbers` has for each file, as Spark spells it, its number in `files`.
    """

    files: pa.Table
    rows: ChangedRows
    numbers: Mapping[str, int]
    changed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChange:
    """What an operation does. `gone` are files that leave as a whole, whose rows nobody needs to look at.

    `gathers` says that rows for one partition come from many tasks and are to be brought together. `row_level` is that
    of `Proposal`. `counts` are metrics of what was found, with Spark's names.
    """

    target: WriteTarget
    reads: ReadSet
    actions: Mapping[int, RowAction]
    columns: RowColumns
    gone: pa.Table
    touched: TouchedRows | None = None
    inserts: NewRows | None = None
    gathers: bool = False
    row_level: bool = False
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def changes_rows(self) -> bool:
        """Whether there is anything to do."""
        return self.gone.num_rows > 0 or self.touched is not None or self.inserts is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedOut:
    """The actions of the commit and the files behind them. `target` is the table with its counters moved on.

    `rewritten_rows` are the rows that files held before they were rewritten, deleted ones not counted.
    """

    target: WriteTarget
    adds: tuple[AddFile, ...]
    removes: tuple[RemoveFile, ...]
    changes: tuple[AddCDCFile, ...]
    files: tuple[Files, ...]
    written: WrittenFiles
    marked: MarkedFiles
    rewritten_rows: int


def marks_rows(base: Snapshot) -> bool:
    """Whether the table keeps files and marks their rows as deleted."""
    wanted = props.ENABLE_DELETION_VECTORS.of(base.configuration)
    return wanted and "deletionVectors" in supported_features(base.protocol)

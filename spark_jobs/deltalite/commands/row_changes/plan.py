"""The plan and the outcome of a delete, an update or a merge, as values.

A command plans on one snapshot: the touched files, the change of each row, and the read set. Deletion vectors and a
change data feed do not alter the rows of a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from deltalite.commands.common.write_target import WriteTarget
from deltalite.protocol import properties as props
from deltalite.protocol.features import supported_features
from deltalite.snapshot import Snapshot
from deltalite.spark.row_changes.row_actions import RowAction
from deltalite.spark.row_changes.touched_rows import ChangedRows, NewRows, RowColumns
from deltalite.txn.proposal import ReadSet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from deltalite.commands.common.committing import PendingFiles
    from deltalite.commands.common.rejected_rows import RejectedRows
    from deltalite.commands.common.written_files import PublishedFiles
    from deltalite.commands.row_changes.deletion_vectors import NewVectors
    from deltalite.protocol.actions import AddCDCFile, AddFile, RemoveFile


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedRows:
    """The change of each row of some files.

    `numbers` maps the number of a file in `rows` to the position of the file in `TouchedRows.files`.
    """

    rows: ChangedRows
    numbers: Mapping[int, int]


@dataclass(frozen=True, kw_only=True)
class TouchedRows:
    """Files with rows that change.

    - `scan`: makes the frame of the rows, and reads the deletion vectors of the files. With deletion vectors, the next
      two fields may make it unnecessary.
    - `positions`: returns the positions of the changed rows of each file, strictly increasing, with the position of the
      file in `files`. None if only `scan` gives them.
    - `updated`: the new rows of updates, as `ChangedRows.updated` has them. None if only `scan` gives them.
    """

    files: pa.Table
    scan: Callable[[], ScannedRows]
    changed_row_count: int
    positions: Callable[[], Iterable[tuple[int, pa.Int64Array]]] | None = None
    updated: DataFrame | None = None

    @cached_property
    def scanned(self) -> ScannedRows:
        """The rows of `scan`."""
        return self.scan()

    @property
    def rows(self) -> ChangedRows:
        """The change of each row."""
        return self.scanned.rows

    def compute_once(self) -> TouchedRows:
        """Compute the changed rows once for all later uses, and return the same rows."""
        computed = replace(self.scanned, rows=self.rows.compute_once())
        return replace(self, scan=lambda: computed, updated=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChange:
    """The plan of an operation.

    - `actions`: the actions on rows, by number.
    - `whole_files`: the files that the operation removes whole, without a rewrite of any row.
    - `shuffles_partitions`: whether the rows of a partition come from many tasks, so that the write shuffles them
      together.
    - `row_level`: whether the operation decides on each row independently, as in `Proposal`.
    - `metrics`: the metrics that count source and target rows.
    - `source_versions`: the versions of the Delta tables that the source has read, by the names of the sources.
    - `parameters`: operation parameters that differ from those of the request.
    - `rejected`: the source rows that audits of level `quarantine` reject, None without such audits.
    """

    target: WriteTarget
    reads: ReadSet
    actions: Mapping[int, RowAction]
    columns: RowColumns
    whole_files: pa.Table
    touched: TouchedRows | None = None
    inserts: NewRows | None = None
    shuffles_partitions: bool = False
    row_level: bool = False
    metrics: Mapping[str, int] = field(default_factory=dict)
    source_versions: Mapping[str, int] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    rejected: RejectedRows | None = None

    @property
    def changes_rows(self) -> bool:
        """Whether the operation changes any row."""
        return self.whole_files.num_rows > 0 or self.touched is not None or self.inserts is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenChange:
    """The actions of the commit and their files. `target` is the table with new high water marks of IDENTITY columns.

    `rows_in_rewritten_files` is the number of live rows before the change. It is 0 with deletion vectors. `new_rows`
    has the updated and inserted rows, if the data files also hold copied rows and the caller needs the new rows.
    """

    target: WriteTarget
    adds: tuple[AddFile, ...]
    removes: tuple[RemoveFile, ...]
    changes: tuple[AddCDCFile, ...]
    pending_files: tuple[PendingFiles, ...]
    data_files: PublishedFiles
    vectors: NewVectors
    rows_in_rewritten_files: int
    new_rows: DataFrame | None = None


def uses_deletion_vectors(base: Snapshot) -> bool:
    """Whether the table uses deletion vectors instead of rewriting files."""
    is_enabled = props.ENABLE_DELETION_VECTORS.of(base.configuration)
    return is_enabled and "deletionVectors" in supported_features(base.protocol)

"""The uncommitted files of a query's rows, which the next attempt can reuse after a conflict.

The rows of most queries do not depend on the target table. So an operation that replans on a newer snapshot reuses the
files and their statistics, if the files still fit the table. Files that no attempt commits are removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Self

from deltalite.commands.common.rejected_rows import RejectedRows
from deltalite.commands.common.write_target import WriteTarget
from deltalite.commands.common.written_files import PublishedFiles
from deltalite.protocol.schema import StructType
from deltalite.spark.hadoop.folders import TableFolder
from deltalite.spark.write.staging import StagedWrite, WriteLayout
from deltalite.txn.compatible_changes import files_stay_valid


@dataclass(frozen=True, slots=True, kw_only=True)
class UncommittedRows:
    """The uncommitted files of a query's rows.

    - `staging`: the owner of the files.
    - `row_schema`: the columns of the query.
    - `target`: the table for which the files were written.
    - `source_versions`: the versions of the Delta tables that the query has read.
    - `loaded`: the `LoadPlan.loaded` of the attempt that wrote the files.
    - `rejected`: the rows that audits of level `quarantine` reject, None without such audits. `files` does not contain
      these rows.
    """

    staging: StagedWrite
    files: PublishedFiles
    row_schema: StructType
    target: WriteTarget
    source_versions: Mapping[str, int]
    loaded: object
    rejected: RejectedRows | None = None

    def fit(self, target: WriteTarget) -> bool:
        """Whether the files can be committed to `target` too."""
        return self.target.clustering == target.clustering and files_stay_valid(
            self.target.protocol, target.protocol, self.target.metadata, target.metadata
        )


class KeptRows:
    """Keeps the uncommitted `rows` of an attempt for the next attempt, as a context manager.

    On exit, the context manager removes the files that are not committed.
    """

    def __init__(self) -> None:
        self._stagings = ExitStack()
        self.rows: UncommittedRows | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._stagings.close()

    def start_staging(self, folder: TableFolder, layout: WriteLayout, *, is_first_write: bool) -> StagedWrite:
        """Remove the uncommitted files of the earlier attempt, and return a `StagedWrite` for new files."""
        self.rows = None
        self._stagings.close()
        return self._stagings.enter_context(StagedWrite(folder, layout, is_first_write=is_first_write))

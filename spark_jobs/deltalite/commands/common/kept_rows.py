"""The staged files of a query's rows, kept from one attempt to the next after a conflict.

The rows of most queries do not depend on the target table. So an operation that replans on a newer snapshot reuses the
files and their statistics, if the files still fit the table. Files that are not committed in the end are removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Self

from deltalite.commands.common.write_target import WriteTarget
from deltalite.commands.common.written_files import WrittenFiles
from deltalite.protocol.schema import StructType
from deltalite.spark.hadoop.folders import TableFolder
from deltalite.spark.write.staging import StagedWrite, WriteLayout
from deltalite.txn.compatible_changes import files_stay_valid


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedRows:
    """The files of a query's rows, the query's columns, the target they were written for, and the source versions."""

    staging: StagedWrite
    files: WrittenFiles
    data: StructType
    target: WriteTarget
    source_versions: Mapping[str, int]

    def are_right_for(self, target: WriteTarget) -> bool:
        """Whether the files fit `target` too."""
        written_for = self.target
        return written_for.clustering == target.clustering and files_stay_valid(
            written_for.protocol, target.protocol, written_for.metadata, target.metadata
        )


class KeptRows:
    """The `rows` that an attempt leaves for the next one. The end of the block removes uncommitted files."""

    def __init__(self) -> None:
        self._stagings = ExitStack()
        self.rows: StagedRows | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._stagings.close()

    def staging(self, folder: TableFolder, layout: WriteLayout) -> StagedWrite:
        """Open a staging folder for new files, and remove the files that were kept before."""
        self.rows = None
        self._stagings.close()
        return self._stagings.enter_context(StagedWrite(folder, layout))

"""The rows of a query as files, which outlive an attempt that a winner contradicted.

The rows of most queries do not depend on the table that they are written to, so an operation that is planned again on a
newer snapshot finds them written, with their statistics, as long as the table still asks for files like these. Whatever
is not committed in the end is removed, also what was made for a table that has changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Self

from deltalite.commands.write_target import WriteTarget
from deltalite.commands.written_files import WrittenFiles
from deltalite.protocol.schema import StructType
from deltalite.spark.folders import TableFolder
from deltalite.spark.staging import StagedWrite, WriteLayout
from deltalite.txn.compatible_changes import files_stay_right


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedRows:
    """The files of all rows of a query, its columns, the table that they were made for, and the versions it read."""

    staging: StagedWrite
    files: WrittenFiles
    data: StructType
    target: WriteTarget
    source_versions: Mapping[str, int]

    def are_right_for(self, target: WriteTarget) -> bool:
        """Whether files of the same rows would be no different for `target`."""
        made_for = self.target
        return made_for.clustering == target.clustering and files_stay_right(
            made_for.protocol, target.protocol, made_for.metadata, target.metadata
        )


class KeptRows:
    """`rows` is what an attempt leaves to those after it. Leaving the block removes what was not committed."""

    def __init__(self) -> None:
        self._stagings = ExitStack()
        self.rows: StagedRows | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._stagings.close()

    def staging(self, folder: TableFolder, layout: WriteLayout) -> StagedWrite:
        """A place for new files. What was kept before is removed."""
        self.rows = None
        self._stagings.close()
        return self._stagings.enter_context(StagedWrite(folder, layout))

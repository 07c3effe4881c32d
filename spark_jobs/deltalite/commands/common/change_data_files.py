"""The change data files of a write that replaces only some rows of some files.

Readers of the change data feed ignore the data files of a commit that has change data files. So the change data files
hold every inserted and every deleted row. A commit that adds and removes only whole files needs no change data files.
The inserted rows are read from the new data files, because the query may return other rows when it runs again.
Protocol: Change Data Files, Writer Requirements for AddCDCFile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltalite.change_feed import change_file_schema
from deltalite.commands.common.write_target import WriteTarget
from deltalite.commands.common.written_files import PublishedFiles, publish_change_files
from deltalite.log.file_table import ADD_TYPES, table_of
from deltalite.protocol.actions import AddCDCFile, AddFile, to_json
from deltalite.protocol.features import is_in_force
from deltalite.snapshot import Snapshot
from deltalite.spark.columns.conforming import conform_rows
from deltalite.spark.reader.changes import change_data_rows
from deltalite.spark.row_changes.replacing import Replacement
from deltalite.spark.scan.frame import scan_rows

if TYPE_CHECKING:
    from deltalite.spark.write.staging import StagedWrite

CHANGE_DATA_FOLDER = "_change_data/"


def write_change_files(
    base: Snapshot,
    target: WriteTarget,
    staging: StagedWrite,
    *,
    new_files: PublishedFiles,
    replaced: Replacement,
) -> tuple[AddCDCFile, ...]:
    """Write, publish and return the change data files of a commit.

    `new_files` has the inserted rows, and `replaced` the deleted rows. Write no file if the table has no change data
    feed, or if the write replaces only whole files.
    """
    if replaced.deleted is None or replaced.rewritten_files.num_rows == 0:
        return ()
    if not is_in_force("changeDataFeed", target.protocol, target.metadata):
        return ()
    added_files = table_of([to_json(add) for add in new_files.adds], ADD_TYPES, AddFile)
    inserted = scan_rows(replaced.deleted.sparkSession, base.store.root, target.table, added_files, rows={})
    deleted = conform_rows(replaced.deleted, base.schema, target.schema)
    staged_files = staging.write(
        change_data_rows(inserted, deleted), change_file_schema(target.table), [], folder=CHANGE_DATA_FOLDER
    )
    return publish_change_files(base.store, staging, staged_files, target)

"""The existing table at an address, if there is one."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from deltalite.errors import InvalidRequestError, TableNotFoundError
from deltalite.snapshot import Snapshot
from deltalite.spark.hadoop.folders import folder_of
from deltalite.spark.write.staging import foreign_entry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltalite.storage.log_store import LogStore


def existing_table(spark: SparkSession, store: LogStore) -> Snapshot | None:
    """Return the newest snapshot, or None if an operation can create a table in the folder.

    An operation can create a table in an empty folder. Hidden files do not count. The files of a write that was killed
    before the first commit do not count either.

    Raises:
        InvalidRequestError: there is no table, and the folder holds other files.
    """
    try:
        return Snapshot.load(store)
    except TableNotFoundError:
        foreign_name = foreign_entry(folder_of(spark, store.root))
        if foreign_name is None:
            return None
        with suppress(TableNotFoundError):  # another writer may have created the table after the first load
            return Snapshot.load(store)
        raise InvalidRequestError(
            f"{store.root} is not a Delta table, and holds other files, such as {foreign_name}.",
            remedy="Choose an empty folder, or move the files away.",
        ) from None

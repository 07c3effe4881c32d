"""From an Airflow connection to the log of a table, for reading on a worker or in a triggerer.

The operator asks here whether a run has committed, the sensor and its trigger ask for new versions. Tables on local and
mounted file systems need no connection; a table elsewhere is refused by name, and never looked for in the wrong place.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import BaseHook

from deltalite.errors import UnsupportedStorageError

if TYPE_CHECKING:
    from deltalite.storage.log_store import LogStore


class DeltaHook(BaseHook):
    """Access to the files of one Delta table.

    :param table: The table's address: a local path, or a URI with a scheme.
    :param storage_conn_id: The Airflow connection that opens the table's storage. Local tables take none, and in this
        release no other storage is read from a worker.
    """

    def __init__(self, table: str, storage_conn_id: str | None = None) -> None:
        super().__init__()
        self.table = table
        self.storage_conn_id = storage_conn_id

    def get_conn(self) -> LogStore:
        """The table's log store; nothing is read yet.

        Raises ``InvalidTableAddressError`` and ``UnsupportedStorageError``.
        """
        return self.store

    @cached_property
    def store(self) -> LogStore:
        """The table's log store, opened once."""
        from deltalite.storage.opening import open_store  # loads pyarrow, which parsing a DAG must not

        if self.storage_conn_id is not None:
            raise UnsupportedStorageError(
                f"storage_conn_id is '{self.storage_conn_id}' for the table '{self.table}', and this release opens "
                "local tables only, which need no connection; remote stores come with a later release.",
                remedy="Leave storage_conn_id out, and use a path that this worker and Spark mount.",
            )
        return open_store(self.table)

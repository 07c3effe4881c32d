"""From an Airflow connection to the log of a table, for reading on a worker or in a triggerer.

The operator asks here whether a run has committed, the sensor and its trigger ask for new versions. Tables on local and
mounted file systems need no connection. Tables elsewhere are read through fsspec: with the file system that Airflow
makes of the connection, or with what the worker's own environment gives it where none is named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowNotFoundException, BaseHook

from deltalite.errors import InvalidRequestError, UnsupportedStorageError
from deltalite.storage.locations import parse_location

if TYPE_CHECKING:
    from deltalite.storage.locations import TableLocation
    from deltalite.storage.log_store import LogStore


class DeltaHook(BaseHook):
    """Access to the files of one Delta table.

    :param table: The table's address: a local path, or a URI with a scheme.
    :param storage_conn_id: The Airflow connection that opens the table's storage: of type ``aws`` for S3, and so on, as
        ``ObjectStoragePath`` takes it. Local tables take none.
    """

    def __init__(self, table: str, storage_conn_id: str | None = None) -> None:
        super().__init__()
        self.table = table
        self.storage_conn_id = storage_conn_id
        self._store: LogStore | None = None

    def get_conn(self) -> LogStore:
        """The table's log store; nothing is read yet.

        Raises ``InvalidTableAddressError`` and ``UnsupportedStorageError``.
        """
        return self.store

    @property
    def store(self) -> LogStore:
        """The table's log store, opened once.

        Not a ``cached_property``: in Python 3.11 that has one lock for all hooks, and a connection may be slow to open.
        """
        if self._store is None:
            self._store = self._open()
        return self._store

    def _open(self) -> LogStore:
        from deltalite.storage.opening import open_store  # loads pyarrow, which parsing a DAG must not

        location = parse_location(self.table)
        if self.storage_conn_id is None:
            return open_store(self.table)
        if location.is_local:
            raise UnsupportedStorageError(
                f"storage_conn_id is '{self.storage_conn_id}', and the table '{self.table}' is local, which needs no "
                "connection.",
                remedy="Leave storage_conn_id out.",
            )
        return open_store(self.table, filesystem=self._filesystem(location, self.storage_conn_id))

    def _filesystem(self, location: TableLocation, conn_id: str) -> Any:
        """The fsspec file system that Airflow makes of the connection.

        Providers take a connection that does not exist for none, and go on without credentials.
        """
        from airflow.sdk import ObjectStoragePath

        from deltalite.storage.opening import fsspec_uri, unreadable

        try:
            self.get_connection(conn_id)
            return ObjectStoragePath(fsspec_uri(location), conn_id=conn_id).fs
        except AirflowNotFoundException as error:
            raise InvalidRequestError(
                f"There is no Airflow connection '{conn_id}', which storage_conn_id names.", remedy="Create it."
            ) from error
        except (ImportError, ValueError) as error:
            raise unreadable(location, str(error)) from error

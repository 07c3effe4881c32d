"""From an Airflow connection to the log of a table, for reading on a worker or in a triggerer.

The operator asks here whether a run has committed, the sensor and its trigger ask for new versions, and a task of the
author's own gets the table to read its rows. Tables on local and mounted file systems need no connection. Tables
elsewhere are read through fsspec: with the file system that Airflow makes of the connection, or with what the worker's
own environment gives it where none is named. What a task has read goes to Airflow's collector of lineage.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from airflow.providers.common.compat.sdk import AirflowNotFoundException, BaseHook

from airflow_provider_deltalite.assets._uri import asset_uri
from airflow_provider_deltalite.hooks._filesystem import filesystem_of
from deltalite.errors import StorageError, StoragePermissionError, UnsupportedStorageError
from deltalite.storage.locations import parse_location

if TYPE_CHECKING:
    from datetime import datetime

    from deltalite.storage.locations import TableLocation
    from deltalite.storage.log_store import LogStore
    from deltalite.table import DeltaTable

T = TypeVar("T")


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
        self._filesystem: Any = None
        self._failed: Any = None

    def get_conn(self) -> LogStore:
        """The table's log store; nothing is read yet.

        Raises ``InvalidTableAddressError`` and ``UnsupportedStorageError``.
        """
        if self._store is None:
            self._store = self._open()
        return self._store

    def ask(self, question: Callable[[LogStore], T]) -> T:
        """What `question` makes of the log store, which stays open for the next one: a triggerer asks for weeks.

        After an error of the storage the next question opens it anew, by the connection as it is then. One that is
        refused access is put again at once if the connection has changed.
        """
        try:
            return question(self.get_conn())
        except StorageError as error:
            self._failed, self._store = self._filesystem, None
            if isinstance(error, StoragePermissionError) and self._failed is not None:
                store = self.get_conn()
                if self._filesystem is not self._failed:
                    return question(store)
            raise

    def get_table(self, version: int | None = None, timestamp: str | datetime | None = None) -> DeltaTable:
        """The table at a version, at a time, or as it is now, to be read in this process, without Spark.

        That it was read, and at which version, is reported to Airflow's collector of lineage. Raises the errors of
        ``DeltaTable``.
        """
        from deltalite.table import DeltaTable  # loads pyarrow, which parsing a DAG must not

        table = DeltaTable.of(self.get_conn(), version=version, timestamp=timestamp)
        self.report_read(table.version)
        return table

    def report_read(self, version: int) -> None:
        """Say to Airflow's collector of lineage that this task has read a version of the table.

        An asset whose URI the provider of its scheme refuses is left out: lineage fails no task.
        """
        from airflow.providers.common.compat.lineage.hook import get_hook_lineage_collector

        try:
            get_hook_lineage_collector().add_input_asset(
                context=self, uri=asset_uri(self.table), asset_extra={"version": version}
            )
        except ValueError as error:
            self.log.info("%s is left out of the lineage that hooks collect: %s", self.table, error)

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
        self._filesystem = self._filesystem_at(location, self.storage_conn_id)
        return open_store(self.table, filesystem=self._filesystem)

    def _filesystem_at(self, location: TableLocation, conn_id: str) -> Any:
        """The fsspec file system that Airflow makes of the connection.

        Providers take a connection that does not exist for none, and go on without credentials. Airflow says of one
        that it could not ask for that it is not there, so that error is one that is retried.
        """
        from deltalite.storage.opening import fsspec_scheme, unreadable

        try:
            return filesystem_of(fsspec_scheme(location), self.get_connection(conn_id), failed=self._failed)
        except AirflowNotFoundException as error:
            raise AirflowNotFoundException(
                f"There is no Airflow connection '{conn_id}', which storage_conn_id names, or what keeps it did not "
                "answer. If there is none, create it."
            ) from error
        except (ImportError, ValueError) as error:
            raise unreadable(location, str(error)) from error
        except Exception as error:  # clients log in here, and raise what they like
            raise StorageError(
                f"The storage of {location.path} was not opened by '{conn_id}': {type(error).__name__}: {error}.",
                remedy="Check the connection and the network; the task may be retried.",
            ) from error

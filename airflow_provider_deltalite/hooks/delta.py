"""Opens a table's log with an Airflow connection, to read it on a worker or in a triggerer.

Operators read here whether a DAG run has committed. The sensor and the triggers poll for new versions. Tasks of DAG
authors get the table to read its rows.

Tables on local and mounted file systems need no connection. All other tables are read through fsspec. The file system
comes from the Airflow connection, or from the environment of the process if no connection is named.
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
    :param storage_conn_id: The Airflow connection that opens the table's storage, as ``ObjectStoragePath`` takes it:
        type ``aws`` for S3, for example. Leave it out for local tables.
    """

    def __init__(self, table: str, storage_conn_id: str | None = None) -> None:
        super().__init__()
        self.table = table
        self.storage_conn_id = storage_conn_id
        self._store: LogStore | None = None
        self._filesystem: Any = None
        self._failed_filesystem: Any = None

    def get_conn(self) -> LogStore:
        """Return the table's log store. The first call gets the connection from Airflow. No call reads the table.

        Raises:
            InvalidTableAddressError: The address is invalid.
            UnsupportedStorageError: No installed client reads the storage, or a local table has a connection.
            AirflowNotFoundException: Airflow has no such connection, or its secrets backend did not answer.
            StorageError: The connection did not open the storage.
        """
        if self._store is None:
            self._store = self._open()
        return self._store

    def ask(self, question: Callable[[LogStore], T]) -> T:
        """Call `question` with the log store, and return its answer.

        The store stays open between calls, because a triggerer polls for weeks. After a storage error, the next call
        opens the store again, with the connection as it is then. If the storage denied access and the connection has
        changed, the question is repeated at once.
        """
        try:
            return question(self.get_conn())
        except StorageError as error:
            self._failed_filesystem, self._store = self._filesystem, None
            if isinstance(error, StoragePermissionError) and self._failed_filesystem is not None:
                store = self.get_conn()
                if self._filesystem is not self._failed_filesystem:
                    return question(store)
            raise

    def get_table(self, version: int | None = None, timestamp: str | datetime | None = None) -> DeltaTable:
        """Return the table at a version, at a time, or at its newest version, to read it in this process without Spark.

        The hook reports the read and its version to Airflow's lineage collector.

        Raises:
            Exception: The errors of ``get_conn`` and of ``DeltaTable.of``.
        """
        from deltalite.table import DeltaTable  # loads pyarrow, which DAG parsing must not load

        table = DeltaTable.of(self.get_conn(), version=version, timestamp=timestamp)
        self.report_read(table.version)
        return table

    def report_read(self, version: int) -> None:
        """Report to Airflow's lineage collector that this task has read a version of the table.

        The read is not reported if the provider of the URI's scheme rejects the URI. Lineage never fails a task.
        """
        from airflow.providers.common.compat.lineage.hook import get_hook_lineage_collector

        try:
            get_hook_lineage_collector().add_input_asset(
                context=self, uri=asset_uri(self.table), asset_extra={"version": version}
            )
        except ValueError as error:
            self.log.info("Could not report the read of %s to the lineage collector: %s", self.table, error)

    def _open(self) -> LogStore:
        from deltalite.storage.opening import open_store  # loads pyarrow, which DAG parsing must not load

        location = parse_location(self.table)
        if self.storage_conn_id is None:
            return open_store(self.table)
        if location.is_local:
            raise UnsupportedStorageError(
                f"storage_conn_id is '{self.storage_conn_id}', but the table '{self.table}' is local and needs no "
                "connection.",
                remedy="Leave storage_conn_id out.",
            )
        self._filesystem = self._filesystem_at(location, self.storage_conn_id)
        return open_store(self.table, filesystem=self._filesystem)

    def _filesystem_at(self, location: TableLocation, conn_id: str) -> Any:
        """Return the fsspec file system that Airflow makes from the connection.

        The connection is looked up first, because providers ignore a missing connection and go on without credentials.
        Airflow raises the same error for a missing connection and for a secrets backend that did not answer, so the
        task may be retried.
        """
        from deltalite.redaction import redacted
        from deltalite.storage.opening import fsspec_scheme, no_client_error

        try:
            scheme = fsspec_scheme(location)
            return filesystem_of(scheme, self.get_connection(conn_id), failed_filesystem=self._failed_filesystem)
        except AirflowNotFoundException as error:
            raise AirflowNotFoundException(
                f"There is no Airflow connection '{conn_id}', which storage_conn_id names, or the secrets backend did "
                "not answer. Create the connection if it is missing."
            ) from error
        except (ImportError, ValueError) as error:
            raise no_client_error(location, redacted(str(error))) from error
        except Exception as error:  # clients log in here, and their errors have no common class
            raise StorageError(
                f"The connection '{conn_id}' did not open the storage of {location.path}: "
                f"{type(error).__name__}: {redacted(str(error))}.",
                remedy="Check the connection and the network, then retry the task.",
            ) from error

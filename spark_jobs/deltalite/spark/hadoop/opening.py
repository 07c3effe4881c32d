"""The log store of a table in a Spark job: local tables directly, all other tables through Hadoop."""

from __future__ import annotations

from pyspark.sql import SparkSession

from deltalite.errors import InvalidTableAddressError
from deltalite.spark.hadoop.files import default_file_system
from deltalite.spark.hadoop.store import HadoopLogStore
from deltalite.storage.local import LocalLogStore
from deltalite.storage.locations import parse_location
from deltalite.storage.log_store import LogStore


def readable_store(spark: SparkSession, address: str) -> LogStore:
    """Return the store of the table at `address`, without reading the table.

    Raises:
        InvalidTableAddressError: the address cannot be parsed.
        UnsupportedStorageError: this Spark has no file system for its scheme.
        StorageError: the file system cannot be opened.
    """
    return _open_store(spark, address, single_writer=False)


def source_store(spark: SparkSession, address: str) -> LogStore:
    """Return the store of a source table or a source folder, without reading its content.

    Raises:
        InvalidTableAddressError: the address cannot be parsed, or is ambiguous.
        UnsupportedStorageError: this Spark has no file system for its scheme.
        StorageError: the file system cannot be opened.
    """
    check_address_is_unambiguous(spark, address)
    return readable_store(spark, address)


def writable_store(spark: SparkSession, address: str, *, single_writer: bool) -> LogStore:
    """Return the store of a table to write to.

    `single_writer` accepts a storage on which two concurrent writers can lose commits.

    Raises:
        InvalidTableAddressError: the address cannot be parsed.
        UnsupportedStorageError: Spark does not reach the storage, or the storage has no put-if-absent.
        StorageError: the file system cannot be opened, or does not answer.
    """
    store = _open_store(spark, address, single_writer=single_writer)
    if isinstance(store, HadoopLogStore):
        store.check_writable()
    return store


def _open_store(spark: SparkSession, address: str, *, single_writer: bool) -> LogStore:
    location = parse_location(address)
    if location.is_local:
        return LocalLogStore(location.path, single_writer=single_writer)
    return HadoopLogStore(spark, location.path, single_writer=single_writer)


def check_address_is_unambiguous(spark: SparkSession, address: str) -> None:
    """Reject a local address without a scheme if Spark looks for such paths in another file system.

    Raises:
        InvalidTableAddressError: the address is ambiguous, or cannot be parsed.
    """
    location = parse_location(address)
    if not location.is_local or address.startswith("file:"):
        return
    default_address = default_file_system(spark).rstrip("/")
    if not default_address.startswith("file:"):
        raise InvalidTableAddressError(
            f"The table's address {address!r} is ambiguous: it has no scheme, and Spark looks for such paths in "
            f"{default_address} (fs.defaultFS).",
            remedy=f"Write {default_address}{location.path}, or file://{location.path} for a local folder.",
        )

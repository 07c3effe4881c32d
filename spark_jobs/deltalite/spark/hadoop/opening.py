"""The log store of a table in a Spark job: local tables directly, all others through Hadoop."""

from __future__ import annotations

from pyspark.sql import SparkSession

from deltalite.spark.hadoop.store import HadoopLogStore
from deltalite.storage.local import LocalLogStore
from deltalite.storage.locations import parse_location
from deltalite.storage.log_store import LogStore


def readable_store(spark: SparkSession, address: str) -> LogStore:
    """Return the store of the table at `address`, without reading the table.

    Raises:
        InvalidTableAddressError: the address cannot be parsed.
        UnsupportedStorageError: this Spark has no file system for its scheme.
    """
    return _open_store(spark, address, single_writer=False)


def writable_store(spark: SparkSession, address: str, *, single_writer: bool) -> LogStore:
    """Return the store of a table to write to.

    `single_writer` accepts a storage on which two concurrent writers can lose commits.

    Raises:
        InvalidTableAddressError: the address cannot be parsed.
        UnsupportedStorageError: Spark does not reach the storage, or the storage has no put-if-absent.
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

"""From an address to a store, without Spark: the one place that knows which storage this release reads, and how.

Local tables have a store of their own, which writes too. All others are read through fsspec, which finds the client of
each scheme; it and the clients are optional packages, brought by the extras that are named here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deltalite.errors import UnsupportedStorageError
from deltalite.storage.local import LocalLogStore
from deltalite.storage.local_tree import LocalTree
from deltalite.storage.locations import TableLocation, parse_location
from deltalite.storage.log_store import LogStore
from deltalite.storage.trees import ListedTree

# As fsspec spells schemes for which engines have several names.
_FSSPEC_SCHEMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
_EXTRAS = {"s3": "s3", "gs": "gcs", "abfs": "azure", "abfss": "azure"}


def open_store(address: str, *, storage_options: Mapping[str, Any] | None = None, filesystem: Any = None) -> LogStore:
    """The store of the table at `address`; nothing is read yet.

    Args:
        address: a local path, or a URI.
        storage_options: for the client of fsspec, such as `key` and `secret` of s3fs; it finds what its own
            environment has where None.
        filesystem: an fsspec file system to use as it is.

    Raises:
        InvalidTableAddressError: the address cannot be understood.
        UnsupportedStorageError: nothing that is installed here reads its scheme.
    """
    location = parse_location(address)
    if location.is_local:
        return LocalLogStore(location.path)
    # The store loads fsspec's file systems, and what they need: only where there is such a table.
    from deltalite.storage.fsspec_store import FsspecLogStore  # noqa: PLC0415

    if filesystem is None:
        filesystem = _client(location, storage_options or {})
    return FsspecLogStore(location.path, filesystem)


def listed_tree(store: LogStore) -> ListedTree:
    """The folder of a table that `open_store` has opened, to be listed."""
    if isinstance(store, LocalLogStore):
        return LocalTree(store.root)
    # As in `open_store`.
    from deltalite.storage.fsspec_store import FsspecLogStore  # noqa: PLC0415
    from deltalite.storage.fsspec_tree import FsspecTree  # noqa: PLC0415

    if isinstance(store, FsspecLogStore):
        return FsspecTree(store)
    raise UnsupportedStorageError(
        f"Could not list {store.root}: this kind of store is not listed without Spark.",
        remedy="Open the table by its address.",
    )


def fsspec_scheme(location: TableLocation) -> str:
    """The scheme by which fsspec knows the storage."""
    return _FSSPEC_SCHEMES.get(location.scheme, location.scheme)


def fsspec_uri(location: TableLocation) -> str:
    """The address with that scheme."""
    return fsspec_scheme(location) + location.path[len(location.scheme) :]


def _client(location: TableLocation, options: Mapping[str, Any]) -> Any:
    uri = fsspec_uri(location)
    try:
        from fsspec.core import url_to_fs  # noqa: PLC0415  optional

        return url_to_fs(uri, **options)[0]
    except (ImportError, ValueError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise unreadable(location, reason) from error


def unreadable(location: TableLocation, reason: str) -> UnsupportedStorageError:
    """What is raised where nothing that is installed here reads a storage, and what would."""
    extra = _EXTRAS.get(fsspec_scheme(location))
    return UnsupportedStorageError(
        f"Could not open {location.path} without Spark: no client for '{location.scheme}' works here: {reason}.",
        remedy=f"Install airflow-provider-deltalite[{extra}]."
        if extra
        else "Install and configure an fsspec client for this scheme.",
    )

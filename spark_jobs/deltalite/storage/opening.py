"""Opens the store of an address without Spark. Only this module knows which storage this release reads, and how.

Local tables have their own store, which can also write. All other tables are read through fsspec, which finds the
client of each scheme. fsspec and the clients are optional packages. The extras in `_EXTRAS` install them.
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

# fsspec's spelling of schemes that have several names.
_FSSPEC_SCHEMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
# fsspec's scheme -> the extra of airflow-provider-deltalite that installs its client.
_EXTRAS = {"s3": "s3", "gs": "gcs", "abfs": "azure", "abfss": "azure"}


def open_store(address: str, *, storage_options: Mapping[str, Any] | None = None, filesystem: Any = None) -> LogStore:
    """Open the store of the table at `address`. The function reads no file.

    Args:
        address: a local path, or a URI.
        storage_options: options for the fsspec client, such as `key` and `secret` for s3fs. None lets the client use
            its environment.
        filesystem: an fsspec file system to use instead of a new client.

    Raises:
        InvalidTableAddressError: the address is invalid.
        UnsupportedStorageError: no installed client reads the scheme of the address.
    """
    location = parse_location(address)
    if location.is_local:
        return LocalLogStore(location.path)
    # The import loads fsspec and its dependencies, which local tables do not need.
    from deltalite.storage.fsspec_store import FsspecLogStore  # noqa: PLC0415

    if filesystem is None:
        filesystem = _make_file_system(location, storage_options or {})
    return FsspecLogStore(location.path, filesystem)


def listed_tree(store: LogStore) -> ListedTree:
    """Return the folder tree of a table that `open_store` opened.

    Raises:
        UnsupportedStorageError: another function made the store.
    """
    if isinstance(store, LocalLogStore):
        return LocalTree(store.root)
    # These imports load fsspec too.
    from deltalite.storage.fsspec_store import FsspecLogStore  # noqa: PLC0415
    from deltalite.storage.fsspec_tree import FsspecTree  # noqa: PLC0415

    if isinstance(store, FsspecLogStore):
        return FsspecTree(store)
    raise UnsupportedStorageError(
        f"Could not list {store.root} without Spark: a {type(store).__name__} has no folder tree.",
        remedy="Open the table by its address with `open_store`.",
    )


def fsspec_scheme(location: TableLocation) -> str:
    """Return fsspec's scheme for the storage."""
    return _FSSPEC_SCHEMES.get(location.scheme, location.scheme)


def fsspec_uri(location: TableLocation) -> str:
    """Return the address with fsspec's scheme."""
    return fsspec_scheme(location) + location.path[len(location.scheme) :]


def _make_file_system(location: TableLocation, options: Mapping[str, Any]) -> Any:
    uri = fsspec_uri(location)
    try:
        from fsspec.core import url_to_fs  # noqa: PLC0415  optional

        return url_to_fs(uri, **options)[0]
    except (ImportError, ValueError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise no_client_error(location, reason) from error


def no_client_error(location: TableLocation, reason: str) -> UnsupportedStorageError:
    """Return the error for a storage that no installed client reads. The remedy names the package to install."""
    extra = _EXTRAS.get(fsspec_scheme(location))
    return UnsupportedStorageError(
        f"Could not open {location.path} without Spark: no client for '{location.scheme}' works here: {reason}.",
        remedy=f"Install airflow-provider-deltalite[{extra}]."
        if extra
        else "Install and configure an fsspec client for this scheme.",
    )

"""From an address to a store: the one place that knows which storage this release supports."""

from __future__ import annotations

from deltalite.errors import UnsupportedStorageError
from deltalite.storage.local import LocalLogStore
from deltalite.storage.locations import parse_location
from deltalite.storage.log_store import LogStore


def open_store(address: str) -> LogStore:
    """The store of the table at `address`; nothing is read yet.

    Raises:
        InvalidTableAddressError: the address cannot be understood.
        UnsupportedStorageError: its scheme is not supported.
    """
    location = parse_location(address)
    if location.is_local:
        return LocalLogStore(location.path)
    raise UnsupportedStorageError(
        f"{address!r} is on '{location.scheme}'; this release reads and writes local and mounted file systems only.",
        remedy="Use a path that the driver and all executors mount.",
    )

"""Keeps one file system for each connection in a process, and makes a new one if the connection has changed.

Airflow itself keeps the first file system of a connection until the process ends. A triggerer runs for weeks, and
credentials change in that time.
"""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.sdk import Connection

# A younger file system stays in use even if the connection has changed, because some secrets backends return new
# credentials for every look-up.
_MIN_AGE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class _CachedFilesystem:
    filesystem: Any
    connection_digest: bytes
    created_at: float


# The keys are process, scheme and connection. A forked child lacks the event loop of its parent's file system, and
# another thread of the parent may have held a lock at the fork. So the child uses neither the parent's file systems nor
# its locks.
_CACHE: dict[tuple[int, str, str], _CachedFilesystem] = {}
_LOCKS: dict[tuple[int, str, str], Lock] = {}


def filesystem_of(scheme: str, connection: Connection, *, failed_filesystem: object = None) -> Any:
    """Return the fsspec file system for a scheme and a connection.

    Args:
        scheme: The scheme as fsspec spells it.
        connection: The connection as it is now.
        failed_filesystem: The file system of the last failed request. If the connection has changed, the function
            replaces this file system at once.
    """
    from airflow.sdk.io import get_fs  # loads fsspec, which DAG parsing must not load

    key = (os.getpid(), scheme, connection.conn_id)
    digest = hashlib.sha256(connection.get_uri().encode()).digest()
    with _LOCKS.setdefault(key, Lock()):
        cached = _CACHE.get(key)
        if cached is None or (cached.connection_digest != digest and _may_replace(cached, failed_filesystem)):
            if cached is not None:
                type(cached.filesystem).clear_instance_cache()  # fsspec would keep it until the process ends
            filesystem = get_fs(scheme, connection.conn_id)
            cached = _CACHE[key] = _CachedFilesystem(filesystem, digest, time.monotonic())
        return cached.filesystem


def _may_replace(cached: _CachedFilesystem, failed_filesystem: object) -> bool:
    return cached.filesystem is failed_filesystem or time.monotonic() - cached.created_at > _MIN_AGE_SECONDS

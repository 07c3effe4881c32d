"""The file system that Airflow makes of a connection: one in a process, and another one when that has changed.

Airflow itself keeps the first one of a connection for as long as the process lives. A triggerer lives for weeks, and
keys are replaced.
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

# A backend that gives every look-up other keys makes no other file system for each: those made a moment ago are good.
_SETTLED_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class _Made:
    filesystem: Any
    digest: bytes
    at: float


# By process, scheme and connection: a child that was forked has neither the file system of its parent, whose loop is
# not in it, nor a lock that another thread of its parent held.
_MADE: dict[tuple[int, str, str], _Made] = {}
_LOCKS: dict[tuple[int, str, str], Lock] = {}


def filesystem_of(scheme: str, connection: Connection, *, failed: object = None) -> Any:
    """The fsspec file system for addresses of a scheme, as fsspec spells it.

    Another one than `failed`, which storage has refused or not answered, if the connection has changed since.
    """
    from airflow.sdk.io import get_fs  # loads fsspec, which parsing a DAG must not

    key = (os.getpid(), scheme, connection.conn_id)
    digest = hashlib.sha256(connection.get_uri().encode()).digest()
    with _LOCKS.setdefault(key, Lock()):
        made = _MADE.get(key)
        if made is None or (made.digest != digest and _is_over(made, failed)):
            if made is not None:
                type(made.filesystem).clear_instance_cache()  # fsspec would keep it for ever
            made = _MADE[key] = _Made(get_fs(scheme, connection.conn_id), digest, time.monotonic())
        return made.filesystem


def _is_over(made: _Made, failed: object) -> bool:
    return made.filesystem is failed or time.monotonic() - made.at > _SETTLED_SECONDS

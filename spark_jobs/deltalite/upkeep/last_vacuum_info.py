"""The `_last_vacuum_info` file: the version up to which a vacuum has deleted the removed files.

A lite vacuum, which reads only the log, begins after that version. delta-spark also writes the file, but leaves it
empty after a full vacuum. Here a full vacuum records its version too, so the next vacuum can be lite. If the file is
missing or invalid, a lite vacuum needs all commits from version 0 on. delta-spark: LastVacuumInfo.
"""

from __future__ import annotations

import json
import logging

from deltalite.errors import DeltaLiteError
from deltalite.protocol.file_names import LAST_VACUUM
from deltalite.storage.log_store import LogStore

_KEY = "latestCommitVersionOutsideOfRetentionWindow"
_log = logging.getLogger(__name__)


def read_last_vacuum(store: LogStore) -> int | None:
    """Return the recorded version; None if the file is missing or invalid."""
    data = store.read(LAST_VACUUM)
    if data is None:
        return None
    try:
        version = json.loads(data).get(_KEY)
    except (ValueError, AttributeError, RecursionError):
        return None
    return version if type(version) is int and version >= 0 else None


def advance_last_vacuum(store: LogStore, version: int | None) -> None:
    """Record a version as vacuumed, unless it or a newer version is recorded. None records nothing.

    If the storage fails, only log a warning, because the file is only a hint.
    """
    try:
        recorded_version = read_last_vacuum(store)
        is_newer = version is not None and version > (-1 if recorded_version is None else recorded_version)
        if is_newer:
            store.write(LAST_VACUUM, json.dumps({_KEY: version}, separators=(",", ":")).encode())
    except DeltaLiteError as error:
        _log.warning("Could not record the start version of the next lite vacuum of %s: %s", store.root, error)

"""The `_last_vacuum_info` file: up to which version the files that commits removed are gone.

A vacuum that looks into the log alone begins after that version. delta-spark writes the file too, empty after a full
vacuum; here a full vacuum says how far it has come as well, so that the next one may be lite. Whatever is wrong with
the file, the answer is None and the vacuum begins with the oldest commit. delta-spark: LastVacuumInfo.
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
    """The version, or None where no vacuum has left one."""
    data = store.read(LAST_VACUUM)
    if data is None:
        return None
    try:
        version = json.loads(data).get(_KEY)
    except (ValueError, AttributeError, RecursionError):
        return None
    return version if type(version) is int and version >= 0 else None


def advance_last_vacuum(store: LogStore, version: int | None) -> None:
    """Say that everything up to a version is swept, unless more is said already. Never raises: it is only a hint."""
    try:
        known = read_last_vacuum(store)
        if version is not None and version >= 0 and (known is None or known < version):
            store.write(LAST_VACUUM, json.dumps({_KEY: version}, separators=(",", ":")).encode())
    except DeltaLiteError as error:
        _log.warning("Could not record the start version of the next lite vacuum: %s Table: %s.", error, store.root)

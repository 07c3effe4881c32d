"""The last vacuum of a table, as its log shows it.

A vacuum commits VACUUM END. The search reads the newest commits only. If none of them is the end of a vacuum, the
modification time of the file `_last_vacuum_info` counts. Writers change this file when a vacuum deletes the files of
newer versions. delta-spark: VacuumCommand, LastVacuumInfo.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deltalite.log.commit_infos import newest_commit_infos
from deltalite.log.commit_times import in_commit_settings
from deltalite.protocol.file_names import LAST_VACUUM
from deltalite.snapshot import Snapshot
from deltalite.txn.winners import VACUUM_END

MAX_COMMITS = 256
"""The number of the newest commits in which the search looks for a vacuum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastVacuum:
    """A completed vacuum: its time in milliseconds UTC, and the version of its VACUUM END, None if unknown."""

    time_ms: int
    version: int | None = None


def find_last_vacuum(
    snapshot: Snapshot, *, after_version: int = -1, earlier: LastVacuum | None = None
) -> LastVacuum | None:
    """Return the last completed vacuum, or None if the log shows none.

    Args:
        snapshot: the snapshot whose log is searched.
        after_version: the search reads only the commits after this version.
        earlier: the last vacuum of `after_version`, from an earlier search.

    Raises:
        CorruptLogError: a commit is malformed before its provenance, or the vacuum lacks its in-commit timestamp.
        InvalidRequestError: a property of in-commit timestamps is invalid.
        StorageError: the log cannot be read.
    """
    store, in_commit = snapshot.store, in_commit_settings(snapshot.protocol, snapshot.metadata)
    max_commits = max(0, min(snapshot.version - after_version, MAX_COMMITS))
    commits = newest_commit_infos(store, up_to_version=snapshot.version, in_commit=in_commit, max_commits=max_commits)
    for commit in commits:
        if commit.info.get("operation") == VACUUM_END and _status(commit.info) == "COMPLETED":
            return LastVacuum(time_ms=commit.timestamp_ms, version=commit.version)
    if earlier is not None and earlier.version is not None:
        return earlier
    info_file = next((file for file in store.list_from(LAST_VACUUM) if file.name == LAST_VACUUM), None)
    return None if info_file is None else LastVacuum(time_ms=info_file.modified_ms)


def _status(info: Mapping[str, Any]) -> str:
    """Return the status of a VACUUM END. delta-spark writes the parameters as JSON texts."""
    parameters = info.get("operationParameters")
    status = parameters.get("status") if isinstance(parameters, Mapping) else None
    try:
        return str(json.loads(status)) if isinstance(status, str) and status.startswith('"') else str(status)
    except ValueError:
        return str(status)

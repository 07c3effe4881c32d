"""The last vacuum of a table, as its log shows it.

A vacuum commits VACUUM END. The search reads the newest commits only. If none of them is the end of a vacuum, the
modification time of `_last_vacuum_info` counts, which writers change when a vacuum deletes the files of newer versions.
delta-spark: VacuumCommand, LastVacuumInfo.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from deltalite.errors import VersionGapError
from deltalite.log.commit_times import commit_times
from deltalite.log.replay import read_commit_info
from deltalite.protocol.file_names import LAST_VACUUM
from deltalite.snapshot import Snapshot
from deltalite.storage.log_store import LogStore, StoredFile
from deltalite.txn.winners import VACUUM_END

MAX_COMMITS = 256
"""The number of the newest commits in which the search looks for a vacuum."""
_THREADS, _COMMITS_PER_BATCH = 8, 16


@dataclass(frozen=True, slots=True, kw_only=True)
class LastVacuum:
    """A completed vacuum: its time in milliseconds UTC, and the version of its VACUUM END, None if unknown."""

    time_ms: int
    version: int | None = None


def find_last_vacuum(snapshot: Snapshot) -> LastVacuum | None:
    """Return the last completed vacuum, or None if the log shows none.

    Raises:
        CorruptLogError: a commit is malformed before its provenance.
        StorageError: the log cannot be read.
    """
    store = snapshot.store
    timed_commits = [(time, file) for time, file in commit_times(store) if time.version <= snapshot.version]
    newest_first = timed_commits[: -MAX_COMMITS - 1 : -1]
    files = [file for _, file in newest_first]
    for (time, _), info in zip(newest_first, _commit_infos(store, files), strict=False):
        if info.get("operation") == VACUUM_END and _status(info) == "COMPLETED":
            return LastVacuum(time_ms=time.timestamp_ms, version=time.version)
    info_file = next((file for file in store.list_from(LAST_VACUUM) if file.name == LAST_VACUUM), None)
    return None if info_file is None else LastVacuum(time_ms=info_file.modified_ms)


def _commit_infos(store: LogStore, files: Sequence[StoredFile]) -> Iterator[Mapping[str, Any]]:
    """Yield the provenance of each commit, read in batches; stop at a commit that log cleanup has deleted."""
    with ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix="commits") as pool:
        for start in range(0, len(files), _COMMITS_PER_BATCH):
            batch = files[start : start + _COMMITS_PER_BATCH]
            for info in pool.map(lambda file: _commit_info(store, file), batch):
                if info is None:
                    return
                yield info


def _commit_info(store: LogStore, file: StoredFile) -> Mapping[str, Any] | None:
    try:
        return read_commit_info(store, file) or {}
    except VersionGapError:
        return None


def _status(info: Mapping[str, Any]) -> str:
    """Return the status of a VACUUM END. delta-spark writes the parameters as JSON texts."""
    parameters = info.get("operationParameters")
    status = parameters.get("status") if isinstance(parameters, Mapping) else None
    try:
        return str(json.loads(status)) if isinstance(status, str) and status.startswith('"') else str(status)
    except ValueError:
        return str(status)

"""Writes log compactions: one file that replaces several commits for readers between two checkpoints.

If checkpoints are far apart, a reader opens one file instead of ten. The file holds the reconciled actions of the
commits: the newest protocol, the newest metadata, and the newest action of each app id, domain and data file. Removes
stay, because an earlier commit may have added their files. Actions are copied with their unknown fields. A compaction
is optional, so a large or incomplete range gets no compaction. Protocol: Log Compaction Files, Action Reconciliation.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from deltalite.log.action_files import read_actions
from deltalite.log.listing import list_log
from deltalite.log.subjects import RECONCILED_KINDS, subject_of
from deltalite.protocol.actions import AddFile
from deltalite.protocol.file_names import compaction_name
from deltalite.storage.log_store import LogStore, StoredFile

_MAX_BYTES = 16 * 1024 * 1024


def write_compaction(store: LogStore, first_version: int, last_version: int) -> bool:
    """Compact the commits of a range, both ends inclusive. Returns whether a compaction was written.

    Raises:
        CorruptLogError: a commit is malformed.
    """
    listing = list_log(store, first_version)
    commits = [listing.commits[v] for v in range(first_version, last_version + 1) if v in listing.commits]
    is_complete = len(commits) == last_version + 1 - first_version
    if not is_complete or sum(commit.size_bytes for commit in commits) > _MAX_BYTES:
        return False
    lines = [
        json.dumps(action, ensure_ascii=False, separators=(",", ":")) for action in reconciled_actions(store, commits)
    ]
    return store.write_if_absent(compaction_name(first_version, last_version), ("\n".join(lines) + "\n").encode())


def reconciled_actions(store: LogStore, commits: Sequence[StoredFile]) -> list[dict[str, Any]]:
    """Return the reconciled actions of `commits`, which are in ascending order of versions."""
    newest_actions: dict[tuple[str, str], dict[str, Any]] = {}
    for commit in reversed(commits):
        actions = read_actions(store, commit.name, commit.size_bytes)
        reconciled = [(kind, body) for kind, body in actions if kind in RECONCILED_KINDS]
        # Within a commit, the add of a file takes precedence over a remove of the same file.
        reconciled.sort(key=lambda action: action[0] != AddFile.action)
        for kind, body in reconciled:
            newest_actions.setdefault(subject_of(kind, body), {kind: body})
    return sorted(newest_actions.values(), key=lambda action: RECONCILED_KINDS.index(next(iter(action))))

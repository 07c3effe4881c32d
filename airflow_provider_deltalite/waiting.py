"""Waiting for a version of a table: the one decision that the sensor and its trigger share.

A look asks the log for the commit after a cursor and reads on while there are commits; the first one that satisfies the
condition is what was waited for, and its dictionary is the sensor's XCom, whoever looked. Storage that does not answer
is no answer: the cursor stays, and the next look asks again, until the sensor's timeout. Every other error is raised.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_deltalite.hooks.delta import DeltaHook
from deltalite.conditions import CommitCondition
from deltalite.errors import StorageError

if TYPE_CHECKING:
    from deltalite.conditions import CommitSummary

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionWait:
    """What is waited for: a commit after version `after_version` (-1: any) that satisfies `condition`."""

    table: str
    after_version: int
    condition: CommitCondition
    storage_conn_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What one look saw. `cursor` is the last version examined; `answered` is False where storage was silent."""

    cursor: int
    found: dict[str, Any] | None = None
    answered: bool = True


def look(wait: VersionWait, cursor: int) -> Look:
    """Examine the commits after version `cursor`. Blocks for as long as storage does.

    Raises:
        DeltaLiteError: the log or the address is such that looking again would not help.
    """
    from deltalite import watch  # loads pyarrow, which parsing a DAG must not

    store = DeltaHook(wait.table, wait.storage_conn_id).get_conn()
    try:
        seen = watch.poll(store, cursor, wait.condition)
    except StorageError as error:
        if not error.retryable:
            raise
        _log.warning("%s did not answer, and is asked again later: %s", store.root, error)
        return Look(cursor=cursor, answered=False)
    if seen.match is None:
        return Look(cursor=seen.cursor)
    _log.info("%s has version %s, made by %s.", store.root, seen.match.version, seen.match.operation)
    return Look(cursor=seen.cursor, found=_as_xcom(wait, store.root, seen.match))


def _as_xcom(wait: VersionWait, root: str, commit: CommitSummary) -> dict[str, Any]:
    return {
        "table": root,
        "version": commit.version,
        "after_version": wait.after_version,
        "operation": commit.operation,
        "timestamp": commit.timestamp_ms,
    }

"""Putting one commit where storage may not answer, or not truthfully.

A commit carries its own `txnId`, so the same bytes may be put again and again: one put lands, or another writer's has.
A put that failed, or was not answered, is therefore followed by a look at the name and by the same put again, since of
all requests the put is the one that every storage answers by what is there. Only where the last of them leaves it
open is the state unknown: the name is taken and cannot be read, or a put was not answered and may still land.
"""

from __future__ import annotations

from collections.abc import Callable

from deltalite.errors import CommitStateUnknownError, StorageError, UnsupportedStorageError
from deltalite.protocol.file_names import commit_name
from deltalite.storage.log_store import LogStore

# Seconds after each look: a storage that shows a file late has two in all, and one after the last put.
_PAUSES = (0.1, 0.3, 0.6, 1.0)


def put_commit(store: LogStore, version: int, data: bytes, *, pause: Callable[[float], None]) -> bytes | None:
    """Make `data` the commit of `version`: None where it is, else the content that has the name, which may be `data`.

    Raises:
        CommitStateUnknownError: the commit may be there, or come to be there, and nothing tells.
        StorageError: it could not be put, and is not there.
    """
    name = commit_name(version)
    is_taken, failed = False, list[StorageError | CommitStateUnknownError]()
    for seconds in _PAUSES:
        if not is_taken:
            try:
                if store.write_if_absent(name, data):
                    return None
                is_taken = True
            except (StorageError, CommitStateUnknownError) as error:
                if isinstance(error, UnsupportedStorageError) and not failed:
                    raise
                failed.append(error)
        found = _looked(store, name)
        if isinstance(found, bytes):
            return found
        pause(seconds)
    found = _looked(store, name)
    if isinstance(found, bytes):
        return found
    unseen = "storage does not show it" if found is None else f"it could not be read ({found.problem})"
    if is_taken:  # perhaps by ourselves: a client below us may have put twice, and been refused by its own first try
        raise _unknown(
            f"Could not find out whether this run committed version {version} of {store.root}: the version exists, and "
            f"{unseen}."
        )
    unanswered = next((error for error in failed if isinstance(error, CommitStateUnknownError)), None)
    if found is None and unanswered is None:
        raise failed[0]
    why = unanswered or failed[0]
    raise _unknown(
        f"Could not find out whether this run committed version {version} of {store.root}: storage did not answer the "
        f"write ({why.problem}), and {unseen}."
    ) from why


def _looked(store: LogStore, name: str) -> bytes | StorageError | None:
    try:
        return store.read(name)
    except StorageError as error:
        return error


def _unknown(problem: str) -> CommitStateUnknownError:
    return CommitStateUnknownError(
        problem, remedy="Check whether the table's history shows this run before you run the task again."
    )

"""The put of one commit to storage that may not answer, or may answer incorrectly.

Every commit has a different `txnId`, and at most one put of a name succeeds, so the same bytes can be put several
times. If a put fails or is not answered, `put_commit` reads the name and repeats the put. This is safe, because storage
rejects a put if the file exists. The state of the commit is unknown in three cases after the last put:

- The name is taken, and storage does not show the content.
- A put failed, and the name cannot be read.
- A put was not answered, and may still succeed.
"""

from __future__ import annotations

from collections.abc import Callable

from deltalite.errors import CommitStateUnknownError, StorageError, UnsupportedStorageError
from deltalite.protocol.file_names import commit_name
from deltalite.storage.log_store import LogStore

# Seconds after each read. Storage that shows a file late has two seconds in total, one of them after the last put.
_PAUSES = (0.1, 0.3, 0.6, 1.0)


def put_commit(store: LogStore, version: int, data: bytes, *, pause: Callable[[float], None]) -> bytes | None:
    """Put `data` as the commit of `version`.

    Returns None on success, else the content of the existing commit. This content may be `data` itself, if an
    unanswered put succeeded.

    Raises:
        CommitStateUnknownError: it is unknown whether the commit exists or may still appear.
        StorageError: the put failed, and the commit does not exist.
    """
    name = commit_name(version)
    is_taken, errors = False, list[StorageError | CommitStateUnknownError]()
    for seconds in _PAUSES:
        if not is_taken:
            try:
                if store.write_if_absent(name, data):
                    return None
                is_taken = True
            except (StorageError, CommitStateUnknownError) as error:
                if isinstance(error, UnsupportedStorageError) and not errors:
                    raise
                errors.append(error)
        content = _read_or_error(store, name)
        if isinstance(content, bytes):
            return content
        pause(seconds)
    content = _read_or_error(store, name)
    if isinstance(content, bytes):
        return content
    observation = "storage does not show it" if content is None else f"it could not be read ({content.problem})"
    if is_taken:  # perhaps by this run: if a storage client sends a put twice, storage rejects the second one
        raise _unknown_state_error(
            f"Could not find out whether this run committed version {version} of {store.root}: the version exists, and "
            f"{observation}."
        )
    unanswered_error = next((error for error in errors if isinstance(error, CommitStateUnknownError)), None)
    if content is None and unanswered_error is None:
        raise errors[0]
    cause = unanswered_error or errors[0]
    raise _unknown_state_error(
        f"Could not find out whether this run committed version {version} of {store.root}: storage did not confirm the "
        f"write ({cause.problem}), and {observation}."
    ) from cause


def _read_or_error(store: LogStore, name: str) -> bytes | StorageError | None:
    """Return the content of the commit, None if it does not exist or is empty, or the error of the read.

    Some storages show the name of a file before its content. A commit has at least one action, so it is not empty.
    """
    try:
        return store.read(name) or None
    except StorageError as error:
        return error


def _unknown_state_error(problem: str) -> CommitStateUnknownError:
    return CommitStateUnknownError(
        problem, remedy="Check whether the table's history shows this run before you run the task again."
    )

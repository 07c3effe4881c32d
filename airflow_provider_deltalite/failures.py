"""From an error of `deltalite` to the exception that tells Airflow what to do next: the only place that does it.

    AirflowException
    ├── DeltaConflictError     another writer's commit stood in the way; the same task can succeed a moment later
    ├── DeltaStorageError      storage did not answer
    └── DeltaJobError          the job ended without an error of its own: it was killed, or ran out of memory
    AirflowFailException       everything that no other try can cure, and commits of which nobody knows

Airflow retries the first three as the task says, and fails the task at once with the last. The message begins with the
class of the library's error, which is the exception's cause where it was raised in this process. A retry policy goes by
these classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

from deltalite import errors
from deltalite.errors import ConcurrentModificationException, DeltaLiteError, StorageError


class DeltaConflictError(AirflowException):
    """Another writer's commit stood in the way, also of the attempts that the job made by itself."""


class DeltaStorageError(AirflowException):
    """Storage did not answer."""


class DeltaJobError(AirflowException):
    """The job ended, said no error of the library's, and has not committed."""


@contextmanager
def airflow_failures() -> Iterator[None]:
    """Raise what the block raises of `DeltaLiteError` as Airflow understands it."""
    try:
        yield
    except DeltaLiteError as error:
        raise failure(type(error), str(error)) from error


def failure(cls: type[DeltaLiteError], message: str) -> AirflowException:
    """The exception for an error of class `cls` that was raised here or in another process."""
    said = f"{cls.__name__}: {message}"
    if not cls.retryable:
        return AirflowFailException(said)
    if issubclass(cls, ConcurrentModificationException):
        return DeltaConflictError(said)
    return DeltaStorageError(said) if issubclass(cls, StorageError) else AirflowException(said)


def error_class_named(name: str) -> type[DeltaLiteError] | None:
    """The error class of this name, or None where there is none: the other process may be of another release."""
    found = getattr(errors, name, None)
    return found if isinstance(found, type) and issubclass(found, DeltaLiteError) else None

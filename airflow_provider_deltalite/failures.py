"""From an error of `deltalite` to the exception that tells Airflow what to do next: the only place that does it.

An error that another try can cure becomes a plain `AirflowException`, and Airflow retries as the task says; any other
becomes an `AirflowFailException`, which fails the task at once. The message begins with the class of the error, and the
error itself, where there is one in this process, is the exception's cause, so that a retry policy can ask for its type.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

from deltalite import errors
from deltalite.errors import DeltaLiteError


@contextmanager
def airflow_failures() -> Iterator[None]:
    """Raise what the block raises of `DeltaLiteError` as Airflow understands it."""
    try:
        yield
    except DeltaLiteError as error:
        raise failure(type(error), str(error)) from error


def failure(cls: type[DeltaLiteError], message: str) -> AirflowException:
    """The exception for an error of class `cls` that was raised here or in another process."""
    kind = AirflowException if cls.retryable else AirflowFailException
    return kind(f"{cls.__name__}: {message}")


def error_class_named(name: str) -> type[DeltaLiteError] | None:
    """The error class of this name, or None where there is none: the other process may be of another release."""
    found = getattr(errors, name, None)
    return found if isinstance(found, type) and issubclass(found, DeltaLiteError) else None

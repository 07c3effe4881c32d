"""From an error of `deltalite` to the exception that tells Airflow what to do next: the only place that does it.

    AirflowException
    ├── DeltaConflictError     another writer's commit stood in the way; the same task can succeed a moment later
    ├── DeltaStorageError      storage did not answer
    └── DeltaJobError          the job ended without an error of its own: it was killed, or ran out of memory
    AirflowFailException       everything that no other try can cure, and commits of which nobody knows

Airflow retries the first three as the task says, and fails the task at once with the last. The message begins with the
class of the library's error, which is the exception's cause where it was raised in this process. The other lines of the
message name the table, its version, what to do, and the section of the documentation; as Airflow logs the exception
last, a task's log ends with them. A retry policy goes by these classes.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

from airflow_provider_deltalite.output import harmless
from deltalite import errors
from deltalite.errors import ConcurrentModificationException, DeltaLiteError, StorageError
from deltalite.redaction import redacted
from deltalite.version import documentation_url

_OTHER_FAILURES = "The task failed without one of these"


class DeltaConflictError(AirflowException):
    """Another writer's commit stood in the way, also of the attempts that the job made by itself."""


class DeltaStorageError(AirflowException):
    """Storage did not answer."""


class DeltaJobError(AirflowException):
    """The job ended, said no error of the library's, and has not committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """The table that a task failed on, and its newest version then; None where that was not read."""

    table: str
    version: int | None = None


@contextmanager
def airflow_failures(log: Any, where: Callable[[DeltaLiteError], Where | None] = lambda _: None) -> Iterator[None]:
    """Raise what the block raises of `DeltaLiteError` as Airflow understands it.

    The frames of the error go to the log as a folded group, so that the log ends with what the error says.
    """
    try:
        yield
    except DeltaLiteError as error:
        log_folded(log, "Traceback", "".join(traceback.format_exception(error)))
        raised = failure(type(error), error.problem, error.remedy, where=where(error))
        raise raised from error.with_traceback(None)


def failure(
    cls: type[DeltaLiteError], problem: str, remedy: str = "", *, where: Where | None = None
) -> AirflowException:
    """The exception for an error of class `cls` that was raised here or in another process."""
    text = report(cls.__name__, problem, remedy, where=where, section=cls.__name__)
    if not cls.retryable:
        return AirflowFailException(text)
    if issubclass(cls, ConcurrentModificationException):
        return DeltaConflictError(text)
    return DeltaStorageError(text) if issubclass(cls, StorageError) else AirflowException(text)


def job_failure(text: str, *, where: Where | None = None) -> DeltaJobError:
    """The exception for a job that ended without an error of the library's."""
    return DeltaJobError(report("", text, "", where=where, section=_OTHER_FAILURES))


def report(kind: str, problem: str, remedy: str, *, where: Where | None, section: str) -> str:
    """The block with which the log of a failed task ends: class, cause, table, version, remedy, documentation.

    It shows no secret, since Airflow also gives the message to callbacks, which its masker does not see.
    """
    lines = [redacted(f"{kind}: {problem}" if kind else problem)]
    if where is not None:
        lines.append(f"Table: {redacted(where.table)}")
        lines.append(f"Version: {'not read' if where.version is None else f'{where.version}, the newest'}")
    if remedy:
        lines.append(f"What to do: {redacted(remedy)}")
    lines.append(f"Documentation: {documentation_url('troubleshooting', section)}")
    return "\n".join("\n    ".join(map(harmless, line.splitlines())) for line in lines)


def log_folded(log: Any, title: str, text: str, *, level: int = logging.ERROR) -> None:
    """Log a text of several lines as a group, which Airflow shows folded."""
    log.log(level, "::group::%s", title)
    for line in text.splitlines():
        log.log(level, "%s", harmless(line))
    log.log(level, "::endgroup::")


def error_class_named(name: str) -> type[DeltaLiteError] | None:
    """The error class of this name, or None where there is none: the other process may be of another release."""
    found = getattr(errors, name, None)
    return found if isinstance(found, type) and issubclass(found, DeltaLiteError) else None

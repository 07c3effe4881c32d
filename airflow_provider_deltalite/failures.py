"""Translates errors of `deltalite` into exceptions of Airflow. No other module does this.

    AirflowException           errors that a retry can fix, such as a source that does not exist yet
    ├── DeltaConflictError     another writer's commit conflicted with the task; a retry can succeed soon
    ├── DeltaStorageError      storage did not answer
    └── DeltaJobError          the job ended without a `deltalite` error, for example because it was killed
    AirflowFailException       errors that a retry cannot fix, and commits whose outcome is unknown
    └── DeltaApprovalNeeded    a person must decide, but the question did not reach the worker

After an `AirflowException`, Airflow retries the task as its settings say. After an `AirflowFailException`, the task
fails at once.

The first line of a message has the `deltalite` error class, if there is one, and the cause. The next lines name the
table, its version, the remedy and the section of the documentation, as far as they are known. Airflow logs the
exception last, so a task's log ends with this message. An error that was raised in this process is the `__cause__` of
the exception. Retry policies match on the classes above.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

from deltalite import errors
from deltalite.errors import ConcurrentModificationException, DeltaLiteError, StorageError
from deltalite.version import documentation_url

# The section of docs/troubleshooting.md for failures without an error class.
_OTHER_FAILURES = "The task failed without a listed error"
_NO_VERSION = {None: "not read", -1: "none, because the table does not exist"}


class DeltaConflictError(AirflowException):
    """Another writer's commit conflicted with the task, in each attempt that the job made."""


class DeltaStorageError(AirflowException):
    """Storage did not answer."""


class DeltaJobError(AirflowException):
    """The job ended without a `deltalite` error, and the worker knows of no commit."""


class DeltaApprovalNeeded(AirflowFailException):
    """A person must decide on audits of level `ask`, but the question did not reach the worker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedTable:
    """The table that a task failed on. `version`: the newest, -1 if there is no table, None if it was not read."""

    table: str
    version: int | None = None


@contextmanager
def raise_for_airflow(
    log: Any, find_table: Callable[[DeltaLiteError], FailedTable | None] = lambda _: None
) -> Iterator[None]:
    """Raise each `DeltaLiteError` of the block as the exception that Airflow acts on.

    The traceback goes to the log first, as a folded group without secrets.

    Args:
        log: The logger of the task.
        find_table: Returns the table that the message names.
    """
    try:
        yield
    except DeltaLiteError as error:
        from airflow_provider_deltalite.secrets import hide
        from deltalite.redaction import redacted

        text = "".join(traceback.format_exception(error))
        hide(text)  # Airflow logs the exception with its causes, and a storage client's message may contain a secret
        log_as_group(log, "Traceback", redacted(text))
        exception = failure(type(error), error.problem, error.remedy, table=find_table(error))
        raise exception from error.with_traceback(None)


def failure(
    cls: type[DeltaLiteError], problem: str, remedy: str = "", *, table: FailedTable | None = None
) -> AirflowException:
    """Return the exception for an error of class `cls`, raised in this process or in the job."""
    text = failure_text(cls.__name__, problem, remedy, table=table, section=cls.__name__)
    if cls is errors.ApprovalNeededError:
        return DeltaApprovalNeeded(text)
    if not cls.retryable:
        return AirflowFailException(text)
    if issubclass(cls, ConcurrentModificationException):
        return DeltaConflictError(text)
    return DeltaStorageError(text) if issubclass(cls, StorageError) else AirflowException(text)


def job_failure(text: str, *, table: FailedTable | None = None) -> DeltaJobError:
    """Return the exception for a job that ended without a `deltalite` error."""
    return DeltaJobError(failure_text("", text, "", table=table, section=_OTHER_FAILURES))


def failure_text(class_name: str, problem: str, remedy: str, *, table: FailedTable | None, section: str) -> str:
    """Return the last lines of a failed task's log: error class, cause, table, version, remedy, documentation.

    The text is redacted here, because Airflow passes it to callbacks without masking it.
    """
    from airflow_provider_deltalite.output import escape_line
    from deltalite.redaction import redacted

    lines = [redacted(f"{class_name}: {problem}" if class_name else problem)]
    if table is not None:
        lines.append(f"Table: {redacted(table.table)}")
        lines.append(f"Version: {_NO_VERSION.get(table.version, f'{table.version}, the newest')}")
    if remedy:
        lines.append(f"What to do: {redacted(remedy)}")
    lines.append(f"Documentation: {documentation_url('troubleshooting', section)}")
    return "\n".join("\n    ".join(map(escape_line, line.splitlines())) for line in lines)


def log_as_group(log: Any, title: str, text: str, *, level: int = logging.ERROR) -> None:
    """Log a text of several lines as one group, which Airflow shows folded."""
    from airflow_provider_deltalite.output import escape_line

    log.log(level, "::group::%s", title)
    for line in text.splitlines():
        log.log(level, "%s", escape_line(line))
    log.log(level, "::endgroup::")


def error_class_named(name: str) -> type[DeltaLiteError] | None:
    """Return the error class with this name; None if only the release of the job has it."""
    member = getattr(errors, name, None)
    return member if isinstance(member, type) and issubclass(member, DeltaLiteError) else None

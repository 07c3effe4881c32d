"""Every error of this library, in one tree.

    DeltaLiteError
    ├── InvalidRequestError                  what was asked contradicts itself or names nothing that exists
    │   └── InvalidTableAddressError
    ├── TableError                           the table, or the version asked for, cannot be read
    │   ├── TableNotFoundError
    │   ├── TableExistsError
    │   ├── VersionNotFoundError
    │   ├── TimestampOutOfRangeError
    │   ├── UnsupportedFeatureError
    │   ├── ChangeFeedUnavailableError
    │   ├── CorruptDataFileError
    │   └── CorruptLogError
    │       ├── VersionGapError
    │       └── CorruptCheckpointError
    ├── RefusedWriteError                    the rows or the schema may not enter this table
    │   ├── SchemaMismatchError
    │   ├── ConstraintViolationError
    │   ├── AppendOnlyError
    │   ├── RerunRefusedError
    │   ├── RerunDiffersError
    │   ├── OutOfOrderError
    │   └── MultipleMatchesError
    ├── SourceError                          the input of a task cannot be read
    │   └── SourceNotFoundError              the input is missing; it may come, so this is worth another try
    ├── StorageError                         storage did not answer; worth another try
    │   ├── StoragePermissionError
    │   └── UnsupportedStorageError
    ├── ConcurrentModificationException      another writer won; Delta's own names below
    │   ├── ConcurrentWriteException
    │   ├── MetadataChangedException
    │   ├── ProtocolChangedException
    │   ├── ConcurrentAppendException
    │   ├── ConcurrentDeleteReadException
    │   ├── ConcurrentDeleteDeleteException
    │   └── ConcurrentTransactionException
    └── CommitStateUnknownError              nobody can say whether the commit is there

An error says what is wrong and why (`problem`), and what to do (`remedy`). `retryable` says whether the same task, run
again, can succeed; `exit_code` is how a job process tells the operator which class ended it, so that nobody parses
text. Codes are unique, and outside the ranges of shells (126 and up) and of Python and the JVM (1, 2).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar


class DeltaLiteError(Exception):
    """Base of all errors that this library raises on purpose."""

    retryable: ClassVar[bool] = False
    exit_code: ClassVar[int] = 10

    def __init__(self, problem: str, *, remedy: str) -> None:
        super().__init__(f"{problem} {remedy}")
        self.problem = problem
        self.remedy = remedy

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.problem, self.remedy)


def _rebuild(cls: type[DeltaLiteError], problem: str, remedy: str) -> DeltaLiteError:
    return cls(problem, remedy=remedy)


class InvalidRequestError(DeltaLiteError):
    """The request contradicts itself, or names a column, mode or property that does not exist."""

    exit_code = 20


class InvalidTableAddressError(InvalidRequestError):
    """The address of a table cannot be understood."""

    exit_code = 21


class TableError(DeltaLiteError):
    """The table, or the version that was asked for, cannot be read."""

    exit_code = 30


class TableNotFoundError(TableError):
    """There is no Delta table at this address."""

    exit_code = 31


class TableExistsError(TableError):
    """There is a table already, and the mode forbids to touch it."""

    exit_code = 32


class VersionNotFoundError(TableError):
    """The table has no such version, or its log no longer reaches back to it."""

    exit_code = 33


class TimestampOutOfRangeError(TableError):
    """The table had no version at that time."""

    exit_code = 34


class UnsupportedFeatureError(TableError):
    """The table uses a protocol version or table feature that this library does not implement."""

    exit_code = 35


class CorruptLogError(TableError):
    """The transaction log breaks the protocol."""

    exit_code = 36


class VersionGapError(CorruptLogError):
    """A commit is missing between the checkpoint (or version 0) and the version asked for."""

    exit_code = 37


class CorruptCheckpointError(CorruptLogError):
    """A checkpoint cannot be read and the commits before it are gone."""

    exit_code = 38


class CorruptDataFileError(TableError):
    """A data file that the log names is missing or is not what the log says."""

    exit_code = 39


class ChangeFeedUnavailableError(TableError):
    """Versions did not record their changes, or their changes cannot be read with one schema."""

    exit_code = 40


class RefusedWriteError(DeltaLiteError):
    """The rows, or their schema, may not enter this table."""

    exit_code = 50


class SchemaMismatchError(RefusedWriteError):
    """The columns of the data do not fit the table."""

    exit_code = 51


class ConstraintViolationError(RefusedWriteError):
    """A row breaks NOT NULL, an invariant or the replaced range."""

    exit_code = 52


class AppendOnlyError(RefusedWriteError):
    """The table is append-only and the operation removes rows."""

    exit_code = 53


class RerunRefusedError(RefusedWriteError):
    """The files of the earlier run cannot be replaced, because a later operation has rewritten them."""

    exit_code = 54


class RerunDiffersError(RefusedWriteError):
    """An earlier commit of the task, or of its idempotency key, was made of another request."""

    exit_code = 56


class OutOfOrderError(RefusedWriteError):
    """Runs of later data intervals have committed, and this run could undo what they did."""

    exit_code = 57


class MultipleMatchesError(RefusedWriteError):
    """Several rows of a merge's source match one row of the table, and which of them should change it is not said."""

    exit_code = 55


class SourceError(DeltaLiteError):
    """The input of the task cannot be read or computed."""

    exit_code = 60


class SourceNotFoundError(SourceError):
    """The input of the task does not exist. It may come later, so the task is retried."""

    retryable = True
    exit_code = 61


class StorageError(DeltaLiteError):
    """Storage failed to answer; nothing is known to be wrong with the table."""

    retryable = True
    exit_code = 70


class StoragePermissionError(StorageError):
    """Storage refused access."""

    retryable = False
    exit_code = 71


class UnsupportedStorageError(StorageError):
    """The storage cannot give put-if-absent, or its scheme is not supported."""

    retryable = False
    exit_code = 72


class ConcurrentModificationException(DeltaLiteError):
    """Another writer committed first, and what it did contradicts what we read."""

    retryable = True
    exit_code = 80


class ConcurrentWriteException(ConcurrentModificationException):
    """Another writer committed first, and this operation cannot tell whether the commit matters."""

    exit_code = 81


class MetadataChangedException(ConcurrentModificationException):
    """The winner changed the table's metadata."""

    exit_code = 82


class ProtocolChangedException(ConcurrentModificationException):
    """The winner changed the table's protocol."""

    exit_code = 83


class ConcurrentAppendException(ConcurrentModificationException):
    """The winner added files that this operation should have read."""

    exit_code = 84


class ConcurrentDeleteReadException(ConcurrentModificationException):
    """The winner removed files that this operation had read."""

    exit_code = 85


class ConcurrentDeleteDeleteException(ConcurrentModificationException):
    """The winner removed files that this operation removes too."""

    exit_code = 86


class ConcurrentTransactionException(ConcurrentModificationException):
    """The winner wrote under an app id that this operation depends on."""

    exit_code = 87


class CommitStateUnknownError(DeltaLiteError):
    """The put was not answered and the log cannot be read: the commit may or may not be there."""

    exit_code = 90


def error_class_for(exit_code: int) -> type[DeltaLiteError] | None:
    """The error class that ends a job with `exit_code`, or None where the code is not one of ours."""
    return next((cls for cls in _tree(DeltaLiteError) if cls.exit_code == exit_code), None)


def _tree(root: type[DeltaLiteError]) -> Iterator[type[DeltaLiteError]]:
    yield root
    for child in root.__subclasses__():
        yield from _tree(child)

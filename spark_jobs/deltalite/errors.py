"""The errors of this library, in one tree.

    DeltaLiteError
    ├── InvalidRequestError                  the request contradicts itself, or names something that does not exist
    │   └── InvalidTableAddressError
    ├── InstallationError                    the software or the folders of this machine do not allow the operation
    ├── TableError                           the table, or the requested version, cannot be read
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
    ├── RefusedWriteError                    the table does not accept the operation, its rows or their schema
    │   ├── SchemaMismatchError
    │   ├── ConstraintViolationError
    │   ├── AppendOnlyError
    │   ├── RerunRefusedError
    │   ├── RerunDiffersError
    │   ├── OutOfOrderError
    │   ├── MultipleMatchesError
    │   ├── AmbiguousRowsError
    │   └── AuditFailedError
    │       └── ApprovalNeededError          only audits of level 'ask' refuse the rows; a person decides
    ├── SourceError                          the input of a task cannot be read
    │   ├── SourceNotFoundError              the input is missing; it may arrive later, so the task is retried
    │   ├── SourceChangedError               a source file changed during the read; the task is retried
    │   ├── SourceGapError                   an incremental source lost versions that the flow has not loaded
    │   └── SourceRowsChangedError           a commit of an incremental source changed rows, not only added some
    ├── StorageError                         storage did not answer; the task is retried
    │   ├── StoragePermissionError
    │   └── UnsupportedStorageError
    ├── ConcurrentModificationException      another writer committed a conflicting change (Delta's class names)
    │   ├── ConcurrentWriteException
    │   ├── MetadataChangedException
    │   ├── ProtocolChangedException
    │   ├── ConcurrentAppendException
    │   ├── ConcurrentDeleteReadException
    │   ├── ConcurrentDeleteDeleteException
    │   └── ConcurrentTransactionException
    │       └── ConcurrentFlowException
    ├── MaintenanceError                     the maintenance of some tables of a lake failed
    │   └── MaintenanceIncompleteError       a retry can maintain at least one of them
    └── CommitStateUnknownError              it is unknown whether the commit is in the log

An error states what failed and why (`problem`), and what to do (`remedy`). `retryable` is True if a retry of the same
task can succeed. A job process exits with `exit_code`, so the operator knows the class without parsing text. Exit codes
are unique. They avoid the codes of shells (126 and up), and of Python and the JVM (1, 2).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar


class DeltaLiteError(Exception):
    """Base class of all errors that this library raises on purpose."""

    retryable: ClassVar[bool] = False
    exit_code: ClassVar[int] = 10

    def __init__(self, problem: str, *, remedy: str) -> None:
        problem, remedy = encodable_text(problem), encodable_text(remedy)
        super().__init__(f"{problem} {remedy}")
        self.problem = problem
        self.remedy = remedy

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.problem, self.remedy)


def encodable_text(text: str) -> str:
    """Return the text with escapes in place of the characters that UTF-8 or a database cannot store.

    These are unpaired surrogates, which JSON may hold, and NUL.
    """
    return text.encode(errors="backslashreplace").decode().replace("\0", "\\x00")


def _rebuild(cls: type[DeltaLiteError], problem: str, remedy: str) -> DeltaLiteError:
    return cls(problem, remedy=remedy)


class InvalidRequestError(DeltaLiteError):
    """The request contradicts itself, or names a column, mode or property that does not exist."""

    exit_code = 20


class InvalidTableAddressError(InvalidRequestError):
    """The address of a table is invalid."""

    exit_code = 21


class InstallationError(DeltaLiteError):
    """The software or the folders of this machine do not allow the operation."""

    exit_code = 25


class TableError(DeltaLiteError):
    """The table, or the requested version, cannot be read."""

    exit_code = 30


class TableNotFoundError(TableError):
    """There is no Delta table at this address."""

    exit_code = 31


class TableExistsError(TableError):
    """A table exists at this address, and the mode does not allow a change to it."""

    exit_code = 32


class VersionNotFoundError(TableError):
    """The table never had this version, or its log no longer holds it."""

    exit_code = 33


class TimestampOutOfRangeError(TableError):
    """The time selects no version: it is before the oldest readable version, or too late."""

    exit_code = 34


class UnsupportedFeatureError(TableError):
    """The table uses a protocol version or table feature that this library does not implement."""

    exit_code = 35


class CorruptLogError(TableError):
    """The transaction log breaks the protocol."""

    exit_code = 36


class VersionGapError(CorruptLogError):
    """A commit is missing between the checkpoint (or version 0) and the requested version."""

    exit_code = 37


class CorruptCheckpointError(CorruptLogError):
    """A checkpoint cannot be read, and the log no longer holds the commits before it."""

    exit_code = 38


class CorruptDataFileError(TableError):
    """A data file or a deletion vector is missing or unreadable, or does not match its entry in the log."""

    exit_code = 39


class ChangeFeedUnavailableError(TableError):
    """Versions have no recorded changes, or one schema cannot read all of their changes."""

    exit_code = 40

    def __init__(
        self, problem: str, *, remedy: str, are_recorded: bool = True, last_readable_version: int | None = None
    ) -> None:
        """Create the error. A caller that can read a part of the versions uses the last two arguments.

        Args:
            problem: what failed, and why.
            remedy: what to do.
            are_recorded: False if a version has not recorded its changes, so nobody can read them.
            last_readable_version: the version before the change of the schema. None for another problem.
        """
        super().__init__(problem, remedy=remedy)
        self.are_recorded = are_recorded
        self.last_readable_version = last_readable_version


class RefusedWriteError(DeltaLiteError):
    """The table does not accept the operation, its rows or their schema."""

    exit_code = 50


class SchemaMismatchError(RefusedWriteError):
    """The columns of the data do not fit the table."""

    exit_code = 51


class ConstraintViolationError(RefusedWriteError):
    """The rows break a rule of the table or of the request, such as NOT NULL, a constraint or the replaced range."""

    exit_code = 52


class AppendOnlyError(RefusedWriteError):
    """The table is append-only, and the operation would change or remove rows."""

    exit_code = 53


class RerunRefusedError(RefusedWriteError):
    """The files of the earlier run cannot be replaced: they were rewritten or removed, or their commit is gone."""

    exit_code = 54


class RerunDiffersError(RefusedWriteError):
    """An earlier commit of the task, or of its idempotency key, was made for a different request."""

    exit_code = 56


class OutOfOrderError(RefusedWriteError):
    """Runs of later data intervals have committed, and this run could undo their changes."""

    exit_code = 57


class AuditFailedError(RefusedWriteError):
    """An audit of level 'fail' or 'quarantine' did not pass, or nobody accepted the rows of an audit of level 'ask'."""

    exit_code = 59


class ApprovalNeededError(AuditFailedError):
    """Only audits of level 'ask' refuse the rows, so a person decides. Nothing is committed."""

    exit_code = 110

    question: object = None
    """The `AuditQuestion` of the job."""


class MultipleMatchesError(RefusedWriteError):
    """Several source rows of a merge match one target row, and the clauses do not say which one applies."""

    exit_code = 55


class AmbiguousRowsError(RefusedWriteError):
    """Source rows of one key differ, and their order does not say which one applies."""

    exit_code = 58


class SourceError(DeltaLiteError):
    """The input of the task cannot be read or computed."""

    exit_code = 60


class SourceNotFoundError(SourceError):
    """The input of the task does not exist. It may arrive later, so the task is retried."""

    retryable = True
    exit_code = 61


class SourceChangedError(SourceError):
    """A source file changed while the job read it."""

    retryable = True
    exit_code = 64


class SourceGapError(SourceError):
    """An incremental source no longer has the versions or changes to load, or the source was recreated."""

    exit_code = 62


class SourceRowsChangedError(SourceError):
    """A commit of an incremental source changed or removed rows, and the flow loads appended rows only."""

    exit_code = 63


class StorageError(DeltaLiteError):
    """Storage failed to answer. The table itself may be intact."""

    retryable = True
    exit_code = 70


class StoragePermissionError(StorageError):
    """Storage denied access."""

    retryable = False
    exit_code = 71


class UnsupportedStorageError(StorageError):
    """The storage has no put-if-absent, or the scheme of the address is not supported."""

    retryable = False
    exit_code = 72


class ConcurrentModificationException(DeltaLiteError):
    """Another writer committed first, and its changes conflict with this operation."""

    retryable = True
    exit_code = 80


class ConcurrentWriteException(ConcurrentModificationException):
    """The commit lost every race for a version, the log lost the read version, or a vacuum may delete needed files."""

    exit_code = 81


class MetadataChangedException(ConcurrentModificationException):
    """The winning commit changed the table's metadata, or domain metadata such as the clustering columns."""

    exit_code = 82


class ProtocolChangedException(ConcurrentModificationException):
    """The winning commit changed the table's protocol."""

    exit_code = 83


class ConcurrentAppendException(ConcurrentModificationException):
    """The winning commit added files that this operation should have read."""

    exit_code = 84


class ConcurrentDeleteReadException(ConcurrentModificationException):
    """The winning commit removed files that this operation read, or changed the entries of such files in the log."""

    exit_code = 85


class ConcurrentDeleteDeleteException(ConcurrentModificationException):
    """The winning commit removed files that this operation removes too."""

    exit_code = 86


class ConcurrentTransactionException(ConcurrentModificationException):
    """An earlier attempt of this run, or another run with the same app id, committed first."""

    exit_code = 87


class ConcurrentFlowException(ConcurrentTransactionException):
    """The winning commit moved a source offset or recorded loaded files, and this operation depends on them."""

    exit_code = 88


class CommitStateUnknownError(DeltaLiteError):
    """Storage did not answer the put, or does not show the commit. The commit may or may not be in the log."""

    exit_code = 90


class MaintenanceError(DeltaLiteError):
    """The maintenance of some tables of a lake failed. The job tried all other tables, as far as the budget allowed."""

    exit_code = 100

    result: object = None
    """The `OperationResult` of the job, with a row for each table."""


class MaintenanceIncompleteError(MaintenanceError):
    """The maintenance of some tables of a lake failed, and a retry can succeed for at least one of them."""

    retryable = True
    exit_code = 101


def error_class_for(exit_code: int) -> type[DeltaLiteError] | None:
    """Return the error class with this exit code, or None if no class has it."""
    return next((cls for cls in _with_subclasses(DeltaLiteError) if cls.exit_code == exit_code), None)


def _with_subclasses(cls: type[DeltaLiteError]) -> Iterator[type[DeltaLiteError]]:
    yield cls
    for subclass in cls.__subclasses__():
        yield from _with_subclasses(subclass)

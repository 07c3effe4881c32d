"""What a Spark error says, in one line, and which of them the data itself is to blame for.

Spark reaches us in two ways: as a `PySparkException`, or, for classes that PySpark does not know (`SparkException`,
which most failed tasks end with, is one), as a `Py4JJavaError` whose own first line says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import (
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    NumberFormatException,
    PySparkException,
)

from deltalite.errors import CorruptDataFileError, SourceError

SPARK_ERRORS = (PySparkException, Py4JJavaError)
"""Everything that a call into Spark raises for a failed query."""

# Under ANSI rules a value that cannot be converted fails the query; it will fail the same way in every retry.
_DATA_ERRORS = (ArithmeticException, ArrayIndexOutOfBoundsException, DateTimeException, NumberFormatException)
_UNREAD_FILE = re.compile(r"\[FAILED_READ_FILE\.[A-Z_]+\] [^\n]*")
_NO_SUCH_FILE = re.compile(r"\[(FAILED_READ_FILE\.FILE_NOT_EXIST|PATH_NOT_FOUND)\] [^\n]*")
# Why a file stays unreadable however often it is tried; a storage that does not answer is another matter.
_FOR_GOOD = ("FILE_NOT_EXIST", "DATA_TYPE_MISMATCH", "is not a Parquet file", "MALFORMED_RECORD_IN_PARSING")


def first_line(error: Exception) -> str:
    """The first line of a Spark error, which says what is wrong; the rest is the plan."""
    text = str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error)
    return (text.strip() or type(error).__name__).splitlines()[0]


def data_error(error: Exception) -> SourceError | None:
    """The typed error for input that cannot be computed or read, or None where another try may succeed."""
    if isinstance(error, _DATA_ERRORS):
        return SourceError(
            f"Nothing was written: a row cannot be computed. {first_line(error)}",
            remedy="Correct the input, or use try_cast, try_divide and the like in `query`.",
        )
    unread = _unread_for_good(error)
    if unread is None:
        return None
    return SourceError(
        f"Nothing was written: a file of the input cannot be read. {unread}",
        remedy="Correct or replace the file; a file of a Delta table that VACUUM took is only missing in old versions.",
    )


@contextmanager
def reading_table(root: str) -> Iterator[None]:
    """What a query over the files of the table at `root` runs in: a file that is not as the log says is typed."""
    try:
        yield
    except SPARK_ERRORS as error:
        unread = _unread_for_good(error)
        if unread is None:
            raise
        raise CorruptDataFileError(
            f"The log of {root} names a file that cannot be read. {unread}",
            remedy="If VACUUM or somebody removed it, bring it back, or restore the table to an older version.",
        ) from error


def _unread_for_good(error: Exception) -> str | None:
    text = str(error)
    if not any(reason in text for reason in _FOR_GOOD) and _NO_SUCH_FILE.search(text) is None:
        return None
    found = _UNREAD_FILE.search(text) or _NO_SUCH_FILE.search(text)
    return None if found is None else found[0]

"""The message of a Spark error in one line, and typed errors for wrong data, wrong queries and full storage.

Spark raises errors in two forms: as a `PySparkException`, or as a `Py4JJavaError` for Java classes that PySpark does
not know. Most failed queries raise a `Py4JJavaError` with a `SparkException`. The first line of its text does not have
the reason, so this module reads the Java exception.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.errors import (
    AmbiguousRowsError,
    CorruptDataFileError,
    DeltaLiteError,
    InvalidRequestError,
    SourceError,
    SourceNotFoundError,
    StorageError,
    UnsupportedFeatureError,
)
from deltalite.spark.runtime.read_failures import (
    damage_reason,
    has_bad_record,
    has_too_long_line,
    has_wrong_checksum,
    missing_file,
    permanent_read_failure,
    read_failure,
    type_mismatch_problem,
    unread_path,
)

SPARK_ERRORS = (PySparkException, Py4JJavaError)
"""The errors that a call into Spark raises for a failed query."""
REMEDY_FOR_BAD_RECORD = (
    "Correct the record, or set the parameter `quarantine` of DeltaCopyOperator, which loads the good records and "
    "keeps the bad ones apart."
)

# Errors that every retry meets again, by the class of Spark's SQLSTATE. Errors of rows: 21 cardinality, 22 data,
# 23 constraints, P0001 raise_error. Errors in the text of the query: 42 and 0A.
_CONDITION_PATTERN = r"\[[A-Z][A-Z0-9_.]+\] (?:(?!SQLSTATE: ).)*SQLSTATE: "
_DATA_CONDITION_PATTERN = re.compile(rf"{_CONDITION_PATTERN}(?:2[123][0-9A-Z]{{3}}|P0001)", re.DOTALL)
_QUERY_CONDITION_PATTERN = re.compile(rf"{_CONDITION_PATTERN}(?:42|0A)[0-9A-Z]{{3}}", re.DOTALL)
_SCHEMA_CONFLICT = "[CANNOT_MERGE_SCHEMAS]"
_REPEATED_COLUMN = "[COLUMN_ALREADY_EXISTS]"
_LOST_ROWS_CONDITION = "[CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND]"
_NO_FOLDER_PATTERN = re.compile(r"Mkdirs failed to create ([^\n]+) \(exists=")
_MAX_NAME_BYTES = 255
# The attribute in which an error of Spark keeps its text.
_TEXT = "_deltalite_text"
# The words of Linux, and of a quota in HDFS for bytes or for files.
_FULL_STORAGE_PATTERN = re.compile(
    r"No space left on device|Disk quota exceeded|The (?:DiskSpace|NameSpace) quota [^\n]* is exceeded[^\n]*"
)
# The message has the value and the type, even for an overflow. `"INT"` is the type in SQL.
_BAD_CAST_PATTERN = re.compile(r'\[CAST_(?:INVALID_INPUT|OVERFLOW)\].*?cannot be cast to "([^"]+)"', re.DOTALL)

LOST_VALUE = "does not convert to it without loss"
"""The end of the message of a failed row whose value does not fit the type of a column."""

_AMBIGUOUS_ROWS_TAG = "DELTALITE_AMBIGUOUS_ROWS"
_AMBIGUOUS_ROWS_PATTERN = re.compile(f"<{_AMBIGUOUS_ROWS_TAG}>(.*?)</{_AMBIGUOUS_ROWS_TAG}>", re.DOTALL)

# The Parquet library of Spark 4.0 fails in this way for a file with a type that it does not know.
_UNKNOWN_PARQUET_TYPE_PATTERN = re.compile(
    r"NullPointerException[^\n]*\s+at \S+\.ParquetMetadataConverter\.getLogicalTypeAnnotation"
)


def first_line(error: Exception) -> str:
    """Return the first line of a Spark error, which has the reason. The other lines are the query plan."""
    text = str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error)
    return (text.strip() or type(error).__name__).splitlines()[0]


def data_error(error: Exception) -> DeltaLiteError | None:
    """Return the typed error of a query that fails because of its text, its input or full storage.

    Returns None for any other error.
    """
    text = _with_causes(error)
    if message := missing_file(text):
        return SourceNotFoundError(
            f"Nothing was written: a file of the input is missing. {message}",
            remedy="Run the task again if the file was replaced during the read. If a vacuum deleted it, read a newer "
            "version of the source.",
        )
    if problem := permanent_read_failure(text):
        return SourceError(
            f"Nothing was written: a file of the input cannot be read. {problem}",
            remedy=_remedy_for_file(text),
        )
    if match := _AMBIGUOUS_ROWS_PATTERN.search(text):
        return AmbiguousRowsError(
            f"Nothing was written: {match[1]}.",
            remedy="Add a column to order_by that decides between them, or correct the rows in `query`.",
        )
    if match := _DATA_CONDITION_PATTERN.search(text):
        return SourceError(
            f"Nothing was written: a row cannot be computed. {_one_line(match[0])}", remedy=_remedy_for_row(match[0])
        )
    if (folder := _NO_FOLDER_PATTERN.search(text)) and _has_long_name(folder[1]):
        return SourceError(
            "Nothing was written: a partition value is too long for the name of a folder.",
            remedy="Partition by another column, or shorten the value in `query`.",
        )
    if match := _FULL_STORAGE_PATTERN.search(text):
        return StorageError(
            f"Nothing was written: the storage of the table, or a disk of an executor, is full. {match[0]}",
            remedy="Free space, or raise the quota.",
        )
    if match := _QUERY_CONDITION_PATTERN.search(text):
        return InvalidRequestError(f"The rows cannot be written: {_one_line(match[0])}", remedy="Correct the SQL.")
    return None


def raise_ambiguous_rows(problem: Column) -> Column:
    """Return a boolean column that makes the query fail. `data_error` converts the failure to a typed error."""
    tag = _AMBIGUOUS_ROWS_TAG
    return F.raise_error(F.concat(F.lit(f"<{tag}>"), problem, F.lit(f"</{tag}>"))).cast("boolean")


def row_problem(error: Exception) -> str | None:
    """Return Spark's message in one line if an expression fails for a row, or None for any other error."""
    match = _DATA_CONDITION_PATTERN.search(_with_causes(error))
    return None if match is None else _one_line(match[0])


def query_problem(error: Exception) -> str | None:
    """Return Spark's message in one line if the text of a query is wrong, or None for any other error."""
    match = _QUERY_CONDITION_PATTERN.search(_with_causes(error))
    return None if match is None else _one_line(match[0])


@contextmanager
def computing(parameter: str, text: str) -> Iterator[None]:
    """Convert the error of a query if the user's expression `text` in `parameter` fails for a row.

    Raises:
        InvalidRequestError: the expression fails for a row.
    """
    try:
        yield
    except SPARK_ERRORS as error:
        problem = row_problem(error)
        if problem is None:
            raise
        raise InvalidRequestError(
            f"{parameter} cannot be computed for every row of the table: {problem}",
            remedy=f"Correct {parameter}: {text!r}. Functions such as try_cast give NULL instead of an error.",
        ) from error


@contextmanager
def computing_rows() -> Iterator[None]:
    """Convert the error of a query that computes rows, if `data_error` knows its cause.

    Raises:
        SourceError: a row cannot be computed, a file of the input cannot be read, or a partition value is too long.
        AmbiguousRowsError: the query met a row of `raise_ambiguous_rows`.
        StorageError: the storage of the table, or a disk of an executor, is full.
        InvalidRequestError: the query is wrong.
    """
    try:
        yield
    except SPARK_ERRORS as error:
        if (typed_error := data_error(error)) is None:
            raise
        raise typed_error from error


@contextmanager
def reading_table(root: str) -> Iterator[None]:
    """Raise a typed error if a query fails because a file of the table at `root` is missing or unreadable.

    Raises:
        CorruptDataFileError: a file is missing or unreadable.
        UnsupportedFeatureError: this version of Spark cannot open a file with Parquet's variant type.
    """
    try:
        yield
    except SPARK_ERRORS as error:
        if _UNKNOWN_PARQUET_TYPE_PATTERN.search(_with_causes(error)):
            raise UnsupportedFeatureError(
                f"{root} has data files with Parquet's variant type (table feature variantType), which this version of "
                "Spark cannot open.",
                remedy="Use PySpark 4.3, which reads such files.",
            ) from error
        problem = permanent_read_failure(_with_causes(error))
        if problem is None:
            raise
        raise CorruptDataFileError(
            f"The log of {root} names a file that cannot be read. {problem}",
            remedy="If the file was removed, as by VACUUM, copy it back, or restore the table to an older version.",
        ) from error


def _remedy_for_file(text: str) -> str:
    """Return the remedy for a file that cannot be read."""
    if has_bad_record(text):
        return REMEDY_FOR_BAD_RECORD
    if has_too_long_line(text):
        return "Check the separator, or raise the options `maxColumns` and `maxCharsPerColumn` of the source."
    return "Correct, rename or replace the file. DeltaCopyOperator can leave it out with `pattern` or `file_names`."


def _remedy_for_row(message: str) -> str:
    """Return the remedy for a row that cannot be computed."""
    if cast := _BAD_CAST_PATTERN.search(message):
        return f"Use try_cast(... AS {cast[1]}), which gives NULL for such a value, or correct the input."
    if LOST_VALUE in message:
        return "Correct the value in the source, or convert it in `query`."
    return "Correct the input, or use a function such as try_cast or try_divide."


def is_loss_of_rows(error: Exception) -> bool:
    """Whether a query failed because an executor with rows of `compute_once` was lost."""
    return _LOST_ROWS_CONDITION in _with_causes(error)


def is_missing_path(error: Exception) -> bool:
    """Whether the error means that a path does not exist."""
    return missing_file(_with_causes(error)) is not None


def is_schema_conflict(error: Exception) -> bool:
    """Whether Spark cannot merge the schemas of several files, because a column has different types."""
    return _SCHEMA_CONFLICT in _with_causes(error)


def is_bad_record(error: Exception) -> bool:
    """Whether a read failed because a record does not fit the schema, or has another format."""
    return isinstance(error, SPARK_ERRORS) and has_bad_record(_with_causes(error))


def repeated_column(error: Exception) -> str | None:
    """Return Spark's message if a column occurs twice in a schema, or None for any other error."""
    message = first_line(error)
    return message if _REPEATED_COLUMN in message else None


def type_mismatch(error: Exception) -> str | None:
    """Return the problem if files have other types than the schema or than one another, or None for any other error."""
    spark_error = _spark_error(error)
    if spark_error is None:
        return None
    text = _with_causes(spark_error)
    return type_mismatch_problem(text) or (first_line(spark_error) if _SCHEMA_CONFLICT in text else None)


def damage_of_file(error: Exception) -> str | None:
    """Return why a perhaps damaged file could not be read, or None for any other error."""
    spark_error = _spark_error(error)
    return None if spark_error is None else damage_reason(_with_causes(spark_error))


def is_permanent_damage(error: Exception) -> bool:
    """Whether the error shows that no retry can read the file. A wrong checksum is no proof."""
    spark_error = _spark_error(error)
    text = "" if spark_error is None else _with_causes(spark_error)
    return permanent_read_failure(text) is not None and not has_wrong_checksum(text)


def path_of_unread_file(error: Exception) -> str | None:
    """Return the path of the file that could not be read, in Spark's spelling, or None if the error names none."""
    spark_error = _spark_error(error)
    return None if spark_error is None else unread_path(_with_causes(spark_error))


def _spark_error(error: Exception) -> Exception | None:
    """Return the error of Spark that is this error or its cause, or None."""
    if isinstance(error, SPARK_ERRORS):
        return error
    return error.__cause__ if isinstance(error.__cause__, SPARK_ERRORS) else None


def file_problem(error: Exception) -> str:
    """Return the file that cannot be read, with the reason; the first line of any other error."""
    return read_failure(_with_causes(error)) or first_line(error)


def _has_long_name(path: str) -> bool:
    return any(len(name.encode()) > _MAX_NAME_BYTES for name in path.split("/"))


def _one_line(message: str) -> str:
    return " ".join(message.split())


def _with_causes(error: Exception) -> str:
    """Return the text of the error and of its causes, as far as the JVM sent them.

    The error keeps the text, because each `str(error)` asks the JVM, and several functions here read the text of one
    error.
    """
    text: str | None = getattr(error, _TEXT, None)
    if text is None:
        text = f"{error}\n{getattr(error, '_stackTrace', None) or ''}"
        setattr(error, _TEXT, text)
    return text

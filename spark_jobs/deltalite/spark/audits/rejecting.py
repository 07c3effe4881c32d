"""The conditions of audits of level `quarantine`, which an operation evaluates before it writes a row.

A write evaluates them on the rows as they would be stored. A merge evaluates them on the rows of its source, and
computes these rows once: the good rows and the rejected rows are two parts of the result.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame

from deltalite.errors import InvalidRequestError, SourceError
from deltalite.protocol.schema import PrimitiveType, StructType
from deltalite.requests import Audit
from deltalite.spark.audits.resolving import error_builder
from deltalite.spark.columns.names import SOURCE, column_named
from deltalite.spark.columns.types import from_spark
from deltalite.spark.expressions.sql import Expressions, delete_condition, no_rows_of_source
from deltalite.spark.runtime.computed_once import compute_once
from deltalite.spark.runtime.errors import SPARK_ERRORS, row_problem
from deltalite.spark.write.row_marks import GOOD, with_marks


@dataclass(frozen=True, slots=True, kw_only=True)
class SeparatedRows:
    """The rows of a source, computed once.

    - `good`: the rows that no audit rejects.
    - `rejected`: the other rows, with their marks in the column `mark_column` (`row_marks`). Their alias is `source`.
    - `schema`: the columns of the source.
    - `row_counts`: the number of rows of each mark, including the good rows.
    """

    good: DataFrame
    rejected: DataFrame
    schema: StructType
    mark_column: str
    row_counts: Mapping[str, int]


def separate_rows(rows: DataFrame, audits: Sequence[Audit], delete_when: str | None = None) -> SeparatedRows:
    """Compute the rows of a source once, and separate those that audits reject.

    The conditions may qualify the columns with `source`. A row for which the SQL `delete_when` is true deletes its key.
    No audit rejects this row, because its other columns are often null and a rejected row deletes nothing.

    Raises:
        InvalidRequestError: a condition is wrong, or fails for a row.
        SourceError, AmbiguousRowsError, StorageError: see `computing_rows`.
    """
    schema = from_spark(rows.schema)
    no_rows = no_rows_of_source(rows)
    conditions = rejecting_conditions(no_rows, audits, ())
    if delete_when is not None:
        deletes = delete_condition(Expressions.of_request(no_rows), delete_when)
        conditions = [~deletes & condition for condition in conditions]
    source_rows = rows.alias(SOURCE)
    marked_rows, mark_column = with_marks(source_rows, conditions, schema, ())
    with naming_failed_condition(source_rows, audits, conditions):
        computed_rows = compute_once(marked_rows)
    mark = column_named(mark_column)
    return SeparatedRows(
        good=computed_rows.where(mark == GOOD).drop(mark_column),
        rejected=computed_rows.where(mark != GOOD).alias(SOURCE),
        schema=schema,
        mark_column=mark_column,
        row_counts=dict(map(tuple, computed_rows.groupBy(mark).count().collect())),
    )


def rejecting_conditions(rows: DataFrame, audits: Sequence[Audit], identity_columns: Collection[str]) -> list[Column]:
    """Return the condition of each audit, which is true for a bad row.

    Args:
        rows: an empty frame with the columns that the conditions may read.
        audits: audits of the kind `rows`.
        identity_columns: the IDENTITY columns, which get their values after the rejected rows are left out.

    Raises:
        InvalidRequestError: a condition reads an IDENTITY column, or cannot be computed.
    """
    expressions = Expressions.of_request(rows)
    identity_names = {name.lower(): name for name in identity_columns}
    conditions = []
    for audit in audits:
        text = str(audit.rows)
        error_for = error_builder(audit, text)
        condition = expressions.condition(text, error_for)
        _, names = expressions.value(text, PrimitiveType("boolean"), error_for, allows_non_determinism=False)
        read_identities = sorted(names & identity_names.keys())
        if read_identities:
            name = identity_names[read_identities[0]]
            raise error_for(f"it reads the IDENTITY column '{name}', and rejected rows get no value of this column.")
        conditions.append(condition)
    return conditions


@contextmanager
def naming_failed_condition(rows: DataFrame, audits: Sequence[Audit], conditions: Sequence[Column]) -> Iterator[None]:
    """Convert the error of a block that computes rows with their marks, if a condition causes the error.

    After an error, each condition reads the rows once more.

    Args:
        rows: the rows before the rejected ones are left out.
        audits: the audits of the conditions.
        conditions: the result of `rejecting_conditions`.

    Raises:
        InvalidRequestError: the block raised `SourceError`, because a condition fails for a row.
    """
    try:
        yield
    except SourceError as error:
        typed_error = _condition_error(rows, audits, conditions)
        if typed_error is None:
            raise
        raise typed_error from error


def _condition_error(
    rows: DataFrame, audits: Sequence[Audit], conditions: Sequence[Column]
) -> InvalidRequestError | None:
    """Return the error for the first condition that fails for a row.

    Return None if the rows fail without the conditions too, or if no condition fails now.
    """
    if _problem(rows) is not None:
        return None
    for audit, condition in zip(audits, conditions, strict=True):
        problem = _problem(rows.select(condition.alias("is_bad")))
        if problem is not None:
            return InvalidRequestError(
                f"Nothing was written: the audit '{audit.name}' with the SQL ({audit.rows}) fails for a row: {problem}",
                remedy="Correct the SQL of the audit. It must be true for such a row if the row is bad, as in "
                "try_cast(x AS INT) IS NULL OR try_cast(x AS INT) < 0. A condition that is NULL rejects no row.",
            )
    return None


def _problem(rows: DataFrame) -> str | None:
    """Compute the rows, and return Spark's message if an expression fails for a row."""
    try:
        rows.write.format("noop").mode("overwrite").save()
    except SPARK_ERRORS as error:
        return row_problem(error)
    return None

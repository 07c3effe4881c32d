"""The conditions of audits of level `quarantine`, which a write evaluates before it writes a row."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame

from deltalite.errors import InvalidRequestError
from deltalite.protocol.schema import PrimitiveType, StructType
from deltalite.requests import Audit
from deltalite.spark.audits.resolving import error_builder
from deltalite.spark.expressions.sql import Expressions, no_rows
from deltalite.spark.runtime.errors import SPARK_ERRORS, row_problem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rejecting_conditions(
    spark: SparkSession, audits: Sequence[Audit], schema: StructType, later_columns: Collection[str]
) -> list[Column]:
    """Return the condition of each audit, which is true for a bad row.

    Args:
        spark: the session.
        audits: audits of the kind `rows`, which are resolved on `schema`.
        schema: the columns of the table.
        later_columns: columns that get their values after the rejected rows are left out.

    Raises:
        InvalidRequestError: a condition reads one of `later_columns`, or cannot be computed.
    """
    expressions = Expressions.of_request(no_rows(spark, schema))
    later_names = {name.lower(): name for name in later_columns}
    conditions = []
    for audit in audits:
        text = str(audit.rows)
        error_for = error_builder(audit, text)
        condition, names = expressions.value(text, PrimitiveType("boolean"), error_for, allows_non_determinism=False)
        for name in sorted(names & later_names.keys()):
            raise error_for(
                f"it reads the IDENTITY column '{later_names[name]}', and rejected rows get no value of this column."
            )
        conditions.append(condition)
    return conditions


def condition_error(
    rows: DataFrame, audits: Sequence[Audit], conditions: Sequence[Column]
) -> InvalidRequestError | None:
    """Return the error for the first condition that fails for a row, or None if another expression fails.

    Each condition reads the rows once more, so call this only after a write has failed.

    Args:
        rows: the rows before the rejected ones are left out.
        audits: the audits of the conditions.
        conditions: the result of `rejecting_conditions`.
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

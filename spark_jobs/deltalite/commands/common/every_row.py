"""The refusal of an unconfirmed delete or `replace_where` that would remove every row of the table.

A mistake in a Jinja template can render a condition without a column, such as `1 = 1`. Spark's optimizer folds such a
condition to true. This module also recognizes two conditions that Spark does not fold: `id IS NOT NULL` on a NOT NULL
column, and `x IS NULL OR x IS NOT NULL`. The check includes empty and new tables, so that a task fails on its first
run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltalite.columnar.predicates.predicate import And, Constant, IsNotNull, IsNull, Or, Predicate
from deltalite.errors import InvalidRequestError
from deltalite.protocol.schema import StructType
from deltalite.spark.expressions.predicates import parse_predicate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def refuse_every_row(
    spark: SparkSession, condition: str, schema: StructType, *, parameter: str, effect: str, confirmed: bool
) -> None:
    """Refuse a condition (SQL on rows of `schema`) that is always true and not `confirmed`.

    Args:
        spark: the session.
        condition: the condition.
        schema: the columns that the condition may name.
        parameter: the name of the request's parameter that contains the condition, for error messages.
        effect: a subject and a verb for error messages, such as "this operation would delete".
        confirmed: the value of `confirm_all_rows`.

    Raises:
        InvalidRequestError: the condition is always true and not confirmed, or it is not a condition on these rows.
    """
    predicate = parse_predicate(spark, condition, schema, parameter=parameter)
    if is_always_true(predicate, schema) and not confirmed:
        raise InvalidRequestError(
            f"{parameter} ({condition}) is true for every row, so {effect} every row of the table.",
            remedy=f"Correct {parameter}, or set confirm_all_rows=True.",
        )


def is_always_true(predicate: Predicate, schema: StructType) -> bool:
    """Whether a predicate is certainly true for every row of the schema."""
    match predicate:
        case Constant(truth):
            return truth is True
        case IsNotNull((name,)):
            column = schema.find(name)
            return column is not None and not column.nullable
        case And(children):
            return all(is_always_true(child, schema) for child in children)
        case Or(children):
            has_opposites = any(isinstance(child, IsNull) and IsNotNull(child.column) in children for child in children)
            return has_opposites or any(is_always_true(child, schema) for child in children)
        case _:
            return False

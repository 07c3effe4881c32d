"""The checks of a declared table: Spark can compute its expressions, and its existing rows satisfy its new rules."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.errors import InvalidRequestError
from deltalite.protocol.column_rules import ColumnRules
from deltalite.protocol.schema import StructField, StructType, bare
from deltalite.snapshot import Snapshot
from deltalite.spark.columns.conforming import conform_columns
from deltalite.spark.columns.guards import not_null_guards, violation, with_guards
from deltalite.spark.expressions.sql import Expressions, Failure, of_the_request
from deltalite.spark.runtime.errors import SPARK_ERRORS, data_error, first_line
from deltalite.spark.scan.frame import scan
from deltalite.spark.write.column_defaults import default_columns, rule_guards

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_expressions(
    spark: SparkSession,
    schema: StructType,
    rules: ColumnRules,
    *,
    columns: Collection[str],
    constraint_keys: Collection[str],
) -> None:
    """Check that Spark can compute the declared expressions.

    Args:
        spark: the session.
        schema: the table's schema.
        rules: the table's rules.
        columns: the names of the declared columns, which may have a default or be generated.
        constraint_keys: the property keys of the constraints that the request declares.

    Raises:
        InvalidRequestError: an expression of the request is wrong.
        UnsupportedFeatureError: an expression that the table already has is wrong.
    """
    declared = [field for field in (schema.find(name) for name in columns) if field is not None]
    _check_defaults(spark, declared, rules)
    _check_generated(spark, schema, declared, rules)
    conditions = replace(rules, generated={})
    rule_guards(spark, schema, schema, conditions, requested_keys=constraint_keys, parameter="constraints")


def _check_defaults(spark: SparkSession, fields: Sequence[StructField], rules: ColumnRules) -> None:
    """Compute the defaults: a text such as 'x' is a valid expression, but no valid number."""
    defaults = default_columns(spark, fields, rules, _in_schema)
    if not defaults:
        return
    try:
        spark.range(1).select(*defaults.values()).collect()
    except SPARK_ERRORS as error:
        raise InvalidRequestError(
            f"A default in `schema` cannot be computed: {first_line(error)}", remedy="Correct it in `schema`."
        ) from error


def _check_generated(
    spark: SparkSession, schema: StructType, fields: Sequence[StructField], rules: ColumnRules
) -> None:
    """Check that each expression has the type of its column and always the same value. delta-spark: GeneratedColumn."""
    generated = [field for field in fields if field.name in rules.generated]
    if not generated:
        return
    expressions = Expressions.of_table(spark, schema)
    computed_names = {name.lower() for name in (*rules.generated, *(column.name for column in rules.identities))}
    for field in generated:
        text = rules.generated[field.name]
        failure = _in_schema(f"generation expression of the column '{field.name}'", text)
        _, read = expressions.value(text, field.type, failure, may_vary=False)
        if read & computed_names:
            raise failure(f"it reads columns that are computed too: {', '.join(sorted(read & computed_names))}.")
        _, data_type, is_non_deterministic = expressions.typed(text, failure)
        if is_non_deterministic:
            raise failure("another evaluation may return another value.")
        if bare(data_type) != bare(field.type):
            raise failure(f"it is {data_type}, and the column is {field.type}. Cast it to this type.")


def _in_schema(role: str, text: str) -> Failure:
    return of_the_request(role, text, parameter="schema")


def check_rows(
    spark: SparkSession,
    base: Snapshot,
    schema: StructType,
    rules: ColumnRules,
    *,
    constraint_keys: Collection[str],
    required_columns: Collection[str],
) -> None:
    """Read all rows and compare them with new rules.

    Args:
        spark: the session.
        base: the version whose rows are read.
        schema: the table's schema after the change.
        rules: the table's rules after the change.
        constraint_keys: the property keys of the new constraints.
        required_columns: the names of columns that have become NOT NULL, also in one of their members.

    Raises:
        ConstraintViolationError: a row breaks a rule; the message has the rule and the row.
    """
    new_rules = replace(
        rules, conditions=tuple(r for r in rules.conditions if r.property_key in constraint_keys), generated={}
    )
    guards = not_null_guards(StructType(tuple(f for f in schema if f.name in required_columns)))
    guards += rule_guards(spark, schema, schema, new_rules, requested_keys=constraint_keys, parameter="constraints")
    rows = scan(spark, base).select(*conform_columns(base.schema, schema))
    try:
        with_guards(rows, guards, schema.names).agg(F.count(F.lit(1))).collect()
    except SPARK_ERRORS as error:
        broken = violation(
            error, guards, effect="Could not alter the table", remedy="Update or delete such rows first."
        )
        if (typed := broken or data_error(error)) is None:
            raise
        raise typed from error

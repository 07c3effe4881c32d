"""The checks of a declared table: Spark can compute its expressions, and its existing rows satisfy its new rules."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.errors import InvalidRequestError
from deltalite.protocol.column_rules import ColumnRules
from deltalite.protocol.schema import StructField, StructType, without_nullability_and_metadata
from deltalite.snapshot import Snapshot
from deltalite.spark.columns.conforming import conform_columns
from deltalite.spark.columns.guards import not_null_guards, violation, with_guards
from deltalite.spark.expressions.sql import ErrorBuilder, Expressions, request_error_builder
from deltalite.spark.runtime.errors import SPARK_ERRORS, data_error, first_line, reading_table
from deltalite.spark.scan.frame import scan
from deltalite.spark.write.column_defaults import default_columns, refuse_computed_columns, rule_guards

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
    declared_fields = [field for field in (schema.find(name) for name in columns) if field is not None]
    _check_defaults(spark, declared_fields, rules)
    _check_generated(spark, schema, declared_fields, rules)
    conditions_only = replace(rules, generated={})
    # This call raises an error if a condition is wrong. The guards are not needed.
    rule_guards(spark, schema, schema, conditions_only, requested_keys=constraint_keys, parameter="constraints")


def _check_defaults(spark: SparkSession, fields: Sequence[StructField], rules: ColumnRules) -> None:
    """Compute the defaults, because a valid expression may not be a valid value: 'x' is not a number, for example."""
    defaults = default_columns(spark, fields, rules, _schema_error_builder)
    if not defaults:
        return
    try:
        spark.range(1).select(*defaults.values()).collect()
    except SPARK_ERRORS as error:
        raise InvalidRequestError(
            f"A default in `schema` cannot be computed: {first_line(error)}",
            remedy="Correct the default in `schema`.",
        ) from error


def _check_generated(
    spark: SparkSession, schema: StructType, fields: Sequence[StructField], rules: ColumnRules
) -> None:
    """Check that each expression has the type of its column and is deterministic. delta-spark: GeneratedColumn."""
    generated = [field for field in fields if field.name in rules.generated]
    if not generated:
        return
    expressions = Expressions.of_table(spark, schema)
    for field in generated:
        text = rules.generated[field.name]
        error_for = _schema_error_builder(f"generation expression of the column '{field.name}'", text)
        _, read_names = expressions.value(text, field.type, error_for, allows_non_determinism=False)
        refuse_computed_columns(read_names, rules, error_for)
        _, data_type, is_non_deterministic = expressions.typed_value(text, error_for)
        if is_non_deterministic:
            raise error_for("another evaluation may return another value.")
        if without_nullability_and_metadata(data_type) != without_nullability_and_metadata(field.type):
            raise error_for(f"it is {data_type}, but the column is {field.type}. Cast it to the type of the column.")


def _schema_error_builder(role: str, text: str) -> ErrorBuilder:
    return request_error_builder(role, text, parameter="schema")


def check_rows(
    spark: SparkSession,
    base: Snapshot,
    schema: StructType,
    rules: ColumnRules,
    *,
    constraint_keys: Collection[str],
    required_columns: Collection[str],
) -> None:
    """Read all rows of a version and check them against new rules.

    Args:
        spark: the session.
        base: the version to read.
        schema: the table's schema after the change.
        rules: the table's rules after the change.
        constraint_keys: the property keys of the new constraints.
        required_columns: the names of columns that have become NOT NULL, or that have such a member.

    Raises:
        ConstraintViolationError: a row breaks a rule. The message names the rule and shows the row.
        InvalidRequestError: a new constraint cannot be computed.
        SourceError: a rule cannot be computed for a row.
        CorruptDataFileError, UnsupportedFeatureError: a file cannot be read (`reading_table`).
        CorruptLogError, StorageError, UnsupportedStorageError: see `scan`.
    """
    new_rules = replace(
        rules, conditions=tuple(r for r in rules.conditions if r.property_key in constraint_keys), generated={}
    )
    guards = not_null_guards(StructType(tuple(f for f in schema if f.name in required_columns)))
    guards += rule_guards(spark, schema, schema, new_rules, requested_keys=constraint_keys, parameter="constraints")
    rows = scan(spark, base).select(*conform_columns(base.schema, schema))
    try:
        with reading_table(base.store.root):
            with_guards(rows, guards, schema.names).agg(F.count(F.lit(1))).collect()
    except SPARK_ERRORS as error:
        broken_rule = violation(
            error, guards, effect="Could not alter the table", remedy="Update or delete such rows first."
        )
        if (typed_error := broken_rule or data_error(error)) is None:
            raise
        raise typed_error from error

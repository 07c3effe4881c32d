"""Values for columns that the rows lack: a default, or an expression over the other columns.

The values are computed while the rows are written. If the rows have a generated column, its values are compared with
the expression. An explicit NULL in a column with a default stays. Protocol: Generated Columns, Default Columns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping

from pyspark.sql import Column, DataFrame, SparkSession

from deltalite.protocol.column_rules import ColumnRules
from deltalite.protocol.schema import StructField, StructType
from deltalite.spark.columns.conforming import conform_rows
from deltalite.spark.columns.guards import Guard
from deltalite.spark.columns.names import column_named
from deltalite.spark.columns.text_lengths import fit_texts
from deltalite.spark.expressions.sql import ErrorBuilder, Expressions, request_error_builder, table_error_builder


def fill_columns(frame: DataFrame, from_schema: StructType, to_schema: StructType, rules: ColumnRules) -> DataFrame:
    """Return the rows of `frame`, converted from `from_schema` to `to_schema`, with values for missing columns.

    Texts of the types char(n) and varchar(n) are fitted to their lengths.

    Raises:
        UnsupportedFeatureError: the expression of a column cannot be computed, or its char or varchar type is invalid.
    """
    rows = conform_rows(frame, from_schema, to_schema)
    missing_fields = [field for field in to_schema if from_schema.find(field.name) is None]
    defaults = default_columns(frame.sparkSession, missing_fields, rules)
    rows = fit_texts(_with_values(rows, to_schema, defaults), to_schema)
    generated = generated_columns(frame.sparkSession, to_schema, rules)
    return _with_values(rows, to_schema, {f.name: generated[f.name] for f in missing_fields if f.name in generated})


def default_columns(
    spark: SparkSession,
    fields: Iterable[StructField],
    rules: ColumnRules,
    error_builder_of: Callable[[str, str], ErrorBuilder] = table_error_builder,
) -> dict[str, Column]:
    """Return the defaults of these columns by name, cast to their types. Columns without a default are left out.

    Raises:
        UnsupportedFeatureError: a default cannot be computed. `error_builder_of` can build another error.
    """
    fields_with_default = [field for field in fields if field.name in rules.defaults]
    if not fields_with_default:
        return {}
    columns: dict[str, Column] = {}
    expressions = Expressions.of_table(spark, StructType(()))
    for field in fields_with_default:
        text = rules.defaults[field.name]
        error_for = error_builder_of(f"default of the column '{field.name}'", text)
        columns[field.name], _ = expressions.value(text, field.type, error_for, allows_non_determinism=True)
    return columns


def rule_guards(
    spark: SparkSession,
    from_schema: StructType,
    to_schema: StructType,
    rules: ColumnRules,
    *,
    requested_keys: Container[str],
    parameter: str = "properties",
) -> list[Guard]:
    """Return guards for invariants, CHECK constraints, and the generated columns that the rows have.

    Args:
        spark: the session.
        from_schema: the schema of the incoming rows.
        to_schema: the table's schema.
        rules: the table's rules.
        requested_keys: the keys of the properties that the request sets.
        parameter: the parameter of the request that sets these properties, for errors.

    Raises:
        UnsupportedFeatureError, InvalidRequestError: a rule of the table, or of the request, cannot be computed.
    """
    if not rules.conditions and not rules.generated:
        return []
    expressions = Expressions.of_table(spark, to_schema)
    guards = []
    for table_rule in rules.conditions:
        is_requested = table_rule.property_key in requested_keys
        error_for = (
            request_error_builder(table_rule.name, table_rule.expression, parameter=parameter)
            if is_requested
            else table_error_builder(table_rule.name, table_rule.expression)
        )
        guards.append(
            Guard(
                condition=expressions.condition(table_rule.expression, error_for),
                rule=f"the {table_rule.name} is ({table_rule.expression}), and must be TRUE",
                remedy="Filter or correct such rows.",
            )
        )
    for name, column in generated_columns(spark, to_schema, rules).items():
        if from_schema.find(name) is not None:
            guards.append(
                Guard(
                    condition=column_named(name).eqNullSafe(column),
                    rule=f"the column '{name}' is generated as ({rules.generated[name]}), and must be equal to it",
                    remedy="Leave the column out. The table computes it.",
                )
            )
    return guards


def generated_columns(spark: SparkSession, schema: StructType, rules: ColumnRules) -> dict[str, Column]:
    """Return the generated columns by name, computed from the other columns of `schema` and cast to their types.

    Raises:
        UnsupportedFeatureError: an expression cannot be computed, or reads computed columns.
    """
    columns: dict[str, Column] = {}
    if not rules.generated:
        return columns
    expressions = Expressions.of_table(spark, schema)
    for field in schema:
        text = rules.generated.get(field.name)
        if text is None:
            continue
        error_for = table_error_builder(f"generation expression of the column '{field.name}'", text)
        value, read_names = expressions.value(text, field.type, error_for, allows_non_determinism=False)
        refuse_computed_columns(read_names, rules, error_for)
        columns[field.name] = value
    return columns


def refuse_computed_columns(read_names: Collection[str], rules: ColumnRules, error_for: ErrorBuilder) -> None:
    """Raise an error of `error_for` if a generation expression reads generated or IDENTITY columns.

    `read_names` are the names of the columns that the expression reads, in lower case.
    """
    computed_names = {name.lower() for name in (*rules.generated, *(column.name for column in rules.identities))}
    if read_computed_names := computed_names.intersection(read_names):
        raise error_for(f"it reads columns that are computed too: {', '.join(sorted(read_computed_names))}.")


def _with_values(rows: DataFrame, schema: StructType, values: Mapping[str, Column]) -> DataFrame:
    """Return the rows with these values in some columns of `schema`."""
    if not values:
        return rows
    return rows.select(*[values[f.name].alias(f.name) if f.name in values else column_named(f.name) for f in schema])

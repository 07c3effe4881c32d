"""The table's rules for new rows: the rows that an operation changes or adds.

Each row has the number of its action, null for a copied row. Copied rows are not checked, because they are already in
the table. If an action sets a generated column, its values are compared with the generation expression. Otherwise the
values are computed again.
Protocol: Column Invariants, CHECK Constraints, Generated Columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.errors import InvalidRequestError
from deltalite.protocol.column_rules import ColumnRules
from deltalite.protocol.identity_columns import IdentityColumn
from deltalite.protocol.schema import StructType
from deltalite.spark.columns.guards import Guard, not_null_guards
from deltalite.spark.columns.names import column_named
from deltalite.spark.columns.text_lengths import fit_texts, length_guards
from deltalite.spark.row_changes.row_actions import RowAction
from deltalite.spark.row_changes.touched_rows import NewRows
from deltalite.spark.write.column_defaults import generated_columns, rule_guards
from deltalite.spark.write.identity_values import fill_identities


@contextmanager
def fill_new_identities(
    rows: NewRows, identities: Sequence[IdentityColumn]
) -> Iterator[tuple[NewRows, Sequence[IdentityColumn], int]]:
    """Fill the IDENTITY columns that actions leave out. Yield the rows, these columns, and the number of filled rows.

    Raises:
        InvalidRequestError: two actions leave out different columns. An action may also leave out none.
        ConstraintViolationError, SourceError, AmbiguousRowsError, StorageError: see `fill_identities`.
    """
    if not identities:
        yield rows, (), 0
        return
    omitted_by_action = {
        n: [c for c in identities if c.name not in action.set_columns] for n, action in rows.actions.items()
    }
    columns = next((omitted for omitted in omitted_by_action.values() if omitted), [])
    if any(omitted not in ([], columns) for omitted in omitted_by_action.values()):
        raise InvalidRequestError(
            "The insert clauses leave out different identity columns.",
            remedy="Name the same identity columns in every insert clause, or none.",
        )
    needs_values = column_named(rows.action).isin([n for n, omitted in omitted_by_action.items() if omitted])
    with fill_identities(rows.frame.where(needs_values), columns) as (numbered_rows, count):
        yield replace(rows, frame=numbered_rows.unionAll(rows.frame.where(~needs_values))), columns, count


def apply_rules(
    rows: DataFrame, action: str, schema: StructType, rules: ColumnRules, actions: Mapping[int, RowAction]
) -> DataFrame:
    """Fit the texts of new rows to their types, compute the generated columns of new rows, and return all rows.

    A generated column that the action sets keeps its value. `action` is the column with the numbers of `actions`.

    Raises:
        UnsupportedFeatureError: the expression of a column cannot be computed, or its char or varchar type is invalid.
    """
    rows = fit_texts(rows, schema, where=column_named(action).isNotNull())
    generated = generated_columns(rows.sparkSession, schema, rules)
    if not generated:
        return rows
    columns = {}
    for name, value in generated.items():
        computing_actions = [number for number, row_action in actions.items() if name not in row_action.set_columns]
        columns[name] = (
            F.when(column_named(action).isin(computing_actions), value).otherwise(column_named(name)).alias(name)
        )
    return rows.select(*[columns.get(name, column_named(name)) for name in rows.columns])


def new_row_guards(
    spark: SparkSession, action: str, schema: StructType, rules: ColumnRules, actions: Mapping[int, RowAction]
) -> list[Guard]:
    """Return the guards that every new row must satisfy. `action` is the column with the numbers of `actions`.

    Raises:
        UnsupportedFeatureError: a rule of the table cannot be computed, or a char or varchar type is invalid.
    """
    set_names = {name for row_action in actions.values() for name in row_action.set_columns}
    set_columns = StructType(tuple(field for field in schema if field.name in set_names))
    guards = not_null_guards(schema) + length_guards(schema)
    guards += rule_guards(spark, set_columns, schema, rules, requested_keys=())
    is_copied: Column = column_named(action).isNull()
    return [replace(guard, condition=is_copied | guard.condition) for guard in guards]

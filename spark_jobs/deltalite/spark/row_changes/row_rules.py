"""The table's rules for rows that an operation changes or adds, among rows that it only copies.

Each row has the number of its action; it is null for a copied row. Only new rows are checked, because copied rows are
already in the table. Generated columns of new rows are computed again, unless the action sets them; then they are
compared. Protocol: Column Invariants, CHECK Constraints, Generated Columns.
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
from deltalite.spark.columns.names import named
from deltalite.spark.columns.text_lengths import fitted, length_guards
from deltalite.spark.row_changes.row_actions import RowAction
from deltalite.spark.row_changes.touched_rows import NewRows
from deltalite.spark.write.column_defaults import generated_columns, rule_guards
from deltalite.spark.write.identity_values import numbered


@contextmanager
def counted(
    rows: NewRows, identities: Sequence[IdentityColumn]
) -> Iterator[tuple[NewRows, Sequence[IdentityColumn], int]]:
    """Yield the rows with values in the IDENTITY columns that actions leave out, these columns, and the row count.

    Raises:
        InvalidRequestError: actions leave out different columns.
        ConstraintViolationError: a column has no values left.
    """
    if not identities:
        yield rows, (), 0
        return
    lacking = {n: [c for c in identities if c.name not in own.named] for n, own in rows.actions.items()}
    columns = next((own for own in lacking.values() if own), [])
    if any(own not in ([], columns) for own in lacking.values()):
        raise InvalidRequestError(
            "Inserts leave out different identity columns.", remedy="Name the same of them in every clause, or none."
        )
    needs = named(rows.action).isin([n for n, own in lacking.items() if own])
    with numbered(rows.frame.where(needs), columns) as (found, count):
        yield replace(rows, frame=found.unionAll(rows.frame.where(~needs))), columns, count


def ruled(
    rows: DataFrame, action: str, schema: StructType, rules: ColumnRules, actions: Mapping[int, RowAction]
) -> DataFrame:
    """Fit the texts of new rows to their types, and compute their generated columns.

    A generated column that the action sets keeps its value.
    """
    rows = fitted(rows, schema, where=named(action).isNotNull())
    made = generated_columns(rows.sparkSession, schema, rules)
    if not made:
        return rows
    columns = {}
    for name, value in made.items():
        silent = [number for number, own in actions.items() if name not in own.named]
        columns[name] = F.when(named(action).isin(silent), value).otherwise(named(name)).alias(name)
    return rows.select(*[columns.get(name, named(name)) for name in rows.columns])


def new_row_guards(
    spark: SparkSession, action: str, schema: StructType, rules: ColumnRules, actions: Mapping[int, RowAction]
) -> list[Guard]:
    """Return the guards for every new row."""
    given = StructType(tuple(f for f in schema if any(f.name in own.named for own in actions.values())))
    guards = not_null_guards(schema) + length_guards(schema)
    guards += rule_guards(spark, given, schema, rules, asked=())
    is_old: Column = named(action).isNull()
    return [replace(guard, condition=is_old | guard.condition) for guard in guards]

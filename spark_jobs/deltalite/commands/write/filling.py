"""The rows of a query as they would be stored: with all columns of the table, and with marks of rejected rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltalite.commands.common.write_target import WriteTarget
from deltalite.errors import SourceError
from deltalite.protocol.identity_columns import IdentityColumn
from deltalite.protocol.schema import StructType
from deltalite.requests import Audit
from deltalite.spark.audits.rejecting import condition_error
from deltalite.spark.write.column_defaults import fill_columns
from deltalite.spark.write.identity_values import fill_identities, fill_identities_of_good_rows
from deltalite.spark.write.row_marks import with_marks

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class FilledRows:
    """The rows to stage.

    - `target`: the table after the write, with new high-water marks of its IDENTITY columns.
    - `marks`: the name of the column with the marks of rejected rows (`row_marks`), None if nothing rejects a row.
    """

    rows: DataFrame
    target: WriteTarget
    marks: str | None


@contextmanager
def fill_and_mark(
    rows: DataFrame,
    row_schema: StructType,
    target: WriteTarget,
    audits: Sequence[Audit],
    conditions: Sequence[Column],
) -> Iterator[FilledRows]:
    """Yield the rows with values in the columns that the query lacks. A rejected row gets no IDENTITY value.

    Args:
        rows: the rows of the query.
        row_schema: the columns of the query.
        target: the table.
        audits: the audits that reject rows.
        conditions: the conditions of the audits.

    Raises:
        InvalidRequestError: the block raised `SourceError`, because a condition fails for a row.
    """
    identities = missing_identities(row_schema, target)
    filled_rows = fill_columns(rows, row_schema, target.schema, target.rules)
    if not conditions:
        with fill_identities(filled_rows, identities) as (numbered_rows, count):
            yield FilledRows(rows=numbered_rows, target=target.with_high_water_marks(identities, count), marks=None)
        return
    try:
        with _marked_rows(filled_rows, identities, target, conditions) as marked_rows:
            yield marked_rows
    except SourceError as error:
        typed_error = condition_error(filled_rows, audits, conditions)
        if typed_error is None:
            raise
        raise typed_error from error


@contextmanager
def _marked_rows(
    filled_rows: DataFrame, identities: list[IdentityColumn], target: WriteTarget, conditions: Sequence[Column]
) -> Iterator[FilledRows]:
    """Yield the rows with their marks. A rejected row gets no IDENTITY value."""
    marked_rows, marks = with_marks(filled_rows, conditions, target.schema, target.partition_columns)
    if not identities:
        yield FilledRows(rows=marked_rows, target=target, marks=marks)
        return
    with fill_identities_of_good_rows(marked_rows, identities, marks) as (numbered_rows, count):
        yield FilledRows(rows=numbered_rows, target=target.with_high_water_marks(identities, count), marks=marks)


def missing_identities(row_schema: StructType, target: WriteTarget) -> list[IdentityColumn]:
    """Return the IDENTITY columns of the table that the query lacks."""
    return [column for column in target.rules.identities if row_schema.find(column.name) is None]

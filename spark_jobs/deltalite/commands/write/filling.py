"""The rows of a query as they would be stored: with all columns of the table, and with marks of rejected rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltalite.commands.common.write_target import WriteTarget
from deltalite.protocol.schema import StructType
from deltalite.requests import Audit
from deltalite.spark.audits.rejecting import naming_failed_condition, rejecting_conditions
from deltalite.spark.expressions.sql import no_rows
from deltalite.spark.write.column_defaults import fill_columns
from deltalite.spark.write.identity_values import fill_identities, fill_identities_of_good_rows
from deltalite.spark.write.row_marks import with_marks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class FilledRows:
    """The rows to stage.

    - `target`: the table after the write, with new high-water marks of its IDENTITY columns.
    - `mark_column`: the column with the marks of rejected rows (`row_marks`), None if nothing rejects a row.
    """

    rows: DataFrame
    target: WriteTarget
    mark_column: str | None


class RowFiller:
    """Fills the columns that a query lacks, and marks the rows that audits reject.

    Args:
        spark: the session.
        row_schema: the columns of the query.
        target: the table.
        audits: the audits that reject rows.

    Raises:
        InvalidRequestError: the condition of an audit reads an IDENTITY column that the query lacks, or is wrong.
    """

    def __init__(
        self, spark: SparkSession, row_schema: StructType, target: WriteTarget, audits: Sequence[Audit]
    ) -> None:
        self._row_schema = row_schema
        self._target = target
        self._audits = audits
        self._identities = [column for column in target.rules.identities if row_schema.find(column.name) is None]
        identity_columns = [column.name for column in self._identities]
        self._conditions = (
            rejecting_conditions(no_rows(spark, target.schema), audits, identity_columns) if audits else []
        )

    @property
    def numbers_rows(self) -> bool:
        """Whether rows get values of IDENTITY columns, which are valid for one attempt only."""
        return bool(self._identities)

    @contextmanager
    def fill(self, rows: DataFrame) -> Iterator[FilledRows]:
        """Yield the rows of the query with values in the columns that it lacks. A rejected row gets no IDENTITY value.

        Raises:
            InvalidRequestError: the block raised `SourceError`, because a condition fails for a row.
        """
        filled_rows = fill_columns(rows, self._row_schema, self._target.schema, self._target.rules)
        if not self._conditions:
            with fill_identities(filled_rows, self._identities) as (numbered_rows, count):
                yield FilledRows(rows=numbered_rows, target=self._with_high_water_marks(count), mark_column=None)
            return
        with naming_failed_condition(filled_rows, self._audits, self._conditions):
            target = self._target
            marked_rows, mark_column = with_marks(
                filled_rows, self._conditions, target.schema, target.partition_columns
            )
            if self._identities:
                marked_rows, count = fill_identities_of_good_rows(marked_rows, self._identities, mark_column)
                target = self._with_high_water_marks(count)
            yield FilledRows(rows=marked_rows, target=target, mark_column=mark_column)

    def _with_high_water_marks(self, count: int) -> WriteTarget:
        return self._target.with_high_water_marks(self._identities, count)

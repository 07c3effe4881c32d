"""The rows of touched files, each with the action that applies to it.

One frame has these columns for each row: the old values (in the table's columns after the operation), the address, the
number of the action, and the new row of an update. `ChangedRows` derives four results from the frame:

- the rows of rewritten files; an updated row keeps its place in the file, so the table keeps its order
- the new rows of updates, if the old rows are only soft-deleted
- the addresses of the soft-deleted rows
- the rows of the change data feed

delta-spark: UpdateCommand, MergeIntoCommand, CDC.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.change_feed import CHANGE_TYPE
from deltalite.protocol.row_tracking import RowIdColumns, row_id_names
from deltalite.protocol.schema import StructType
from deltalite.spark.columns.conforming import conform_columns
from deltalite.spark.columns.names import column_named, unused_name
from deltalite.spark.columns.types import to_spark
from deltalite.spark.row_changes.joining import broadcast_if_small, measure_size
from deltalite.spark.row_changes.row_actions import ActionKind, RowAction, target_column
from deltalite.spark.runtime.computed_once import compute_once


@dataclass(frozen=True, slots=True, kw_only=True)
class RowColumns:
    """The names of helper columns. No column of the table or of a merge's source has such a name.

    - `file`, `row`: the address of a row.
    - `action`: the number of the row's action.
    - `new`: the new row of an update.
    - `key`: the unique number of a source row in a merge.
    - `pair_…`: the same columns in a pair of matching rows.
    """

    file: str
    row: str
    action: str
    new: str
    key: str
    pair_file: str
    pair_row: str
    pair_action: str
    pair_new: str

    @classmethod
    def unused_in(cls, *schemas: StructType) -> RowColumns:
        """Return names that no column of the schemas has."""
        by_name = {field.name.lower(): field for schema in schemas for field in schema}
        all_columns = StructType(tuple(by_name.values()))
        return cls(**{column.name: unused_name(all_columns, column.name) for column in fields(cls)})


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedRows:
    """The rows of files, with the table's columns, the row ids, and the columns `file`, `row`, `action` and `new`.

    The action of an unchanged row is null. If `frame` has only the changed rows, `all_rows` has the old values of all
    rows of the files, and their addresses.
    """

    frame: DataFrame
    schema: StructType
    columns: RowColumns
    actions: Mapping[int, RowAction]
    row_ids: RowIdColumns | None = None
    all_rows: DataFrame | None = None

    @classmethod
    def of(
        cls,
        rows: DataFrame,
        columns: RowColumns,
        *,
        base_schema: StructType,
        schema: StructType,
        actions: Mapping[int, RowAction],
        row_ids: RowIdColumns | None,
    ) -> ChangedRows:
        """Add to each row the new row that its action makes, and return the rows.

        `rows` have the columns of `base_schema` under the alias `target`, and the columns `row_ids`, `file`, `row` and
        `action`.
        """
        names = columns
        frame = rows.select(
            *conform_columns(base_schema, schema, target_column),
            *map(column_named, row_id_names(row_ids)),
            column_named(names.file),
            column_named(names.row),
            column_named(names.action),
            new_row(column_named(names.action), actions, schema).alias(names.new),
        )
        return cls(frame=frame, schema=schema, columns=names, actions=actions, row_ids=row_ids)

    @property
    def changed(self) -> DataFrame:
        """The rows that change."""
        return self.frame.where(column_named(self.columns.action).isNotNull())

    def compute_once(self) -> ChangedRows:
        """Compute the changed rows once for all later uses, and return the same rows."""
        changed = compute_once(self.changed)
        old_columns = [*self.schema.names, *row_id_names(self.row_ids), self.columns.file, self.columns.row]
        all_rows = self.frame.select(*map(column_named, old_columns))
        return replace(self, frame=broadcast_if_small(changed, measure_size(changed)), all_rows=all_rows)

    def rewritten(self) -> DataFrame:
        """Return the rows of the files after the operation, with the number of their action."""
        names = self.columns
        frame = self.frame
        if self.all_rows is not None:
            changes = frame.select(
                column_named(names.file), column_named(names.row), column_named(names.action), column_named(names.new)
            )
            frame = self.all_rows.join(changes, [names.file, names.row], "left")
        deletes = [number for number, action in self.actions.items() if action.kind is ActionKind.DELETE]
        is_kept = column_named(names.action).isNull() | ~column_named(names.action).isin(deletes)
        return frame.where(is_kept).select(
            *[
                F.when(column_named(names.new).isNotNull(), column_named(names.new).getField(f.name))
                .otherwise(column_named(f.name))
                .alias(f.name)
                for f in self.schema
            ],
            *self._new_row_ids(),
            column_named(names.action),
        )

    def _new_row_ids(self) -> list[Column]:
        """Return the columns of row ids after the operation.

        An updated row keeps its row id. Its row commit version is null, which stands for the version of the commit.
        """
        if self.row_ids is None:
            return []
        version = F.when(column_named(self.columns.action).isNull(), column_named(self.row_ids.commit_version))
        return [column_named(self.row_ids.row_id), version.alias(self.row_ids.commit_version)]

    def updated(self) -> DataFrame:
        """Return only the new rows of updates, with the number of their action."""
        names = self.columns
        return self.frame.where(column_named(names.new).isNotNull()).select(
            *columns_of_new_row(column_named(names.new), self.schema),
            *self._new_row_ids(),
            column_named(names.action),
        )

    def addresses(self) -> DataFrame:
        """Return the addresses of the changed rows: file and row."""
        return self.changed.select(column_named(self.columns.file), column_named(self.columns.row))

    def feed(self, inserts: NewRows | None, whole_file_rows: DataFrame | None) -> DataFrame:
        """Return all changes in the form of the change feed. A new row has the number of its action, an old row null.

        `inserts` has the inserted rows. `whole_file_rows` has the rows of files that are removed whole.
        """
        action = self.columns.action
        columns = [*(column_named(f.name) for f in self.schema), column_named(CHANGE_TYPE), column_named(action)]
        is_update = column_named(self.columns.new).isNotNull()
        change_type = F.when(is_update, F.lit("update_preimage")).otherwise(F.lit("delete"))
        no_action = F.lit(None).cast("int")
        frames = [
            self.changed.withColumn(CHANGE_TYPE, change_type).withColumn(action, no_action),
            self.updated().withColumn(CHANGE_TYPE, F.lit("update_postimage")),
        ]
        if inserts is not None:
            frames.append(inserts.frame.withColumn(CHANGE_TYPE, F.lit("insert")))
        if whole_file_rows is not None:
            frames.append(whole_file_rows.withColumn(CHANGE_TYPE, F.lit("delete")).withColumn(action, no_action))
        return union_all([frame.select(*columns) for frame in frames])


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRows:
    """Rows that an operation adds: the table's columns, and the number of the row's action in the column `action`."""

    frame: DataFrame
    action: str
    actions: Mapping[int, RowAction]

    def compute_once(self) -> NewRows:
        """Compute the rows once for all later uses, and return them."""
        return replace(self, frame=compute_once(self.frame))

    def with_null_row_ids(self, row_ids: RowIdColumns | None) -> DataFrame:
        """Return the rows with the columns of `ChangedRows.rewritten`. Row ids are null: the commit assigns them."""
        no_id = F.lit(None).cast("long")
        columns = [name for name in self.frame.columns if name != self.action]
        return self.frame.select(
            *map(column_named, columns),
            *[no_id.alias(name) for name in row_id_names(row_ids)],
            column_named(self.action),
        )


def union_all(frames: Sequence[DataFrame]) -> DataFrame:
    """Return all rows of frames with the same columns."""
    return reduce(DataFrame.unionAll, frames)


def columns_of_new_row(new: Column, schema: StructType) -> list[Column]:
    """Return the columns of the table from a column with new rows."""
    return [new.getField(f.name).alias(f.name) for f in schema]


def new_row(action: Column, actions: Mapping[int, RowAction], schema: StructType) -> Column:
    """Return the new row that the action with the number `action` makes; null for a delete or without an action."""
    cases = F.when(F.lit(False), F.lit(None).cast(to_spark(schema)))
    for number, row_action in actions.items():
        if row_action.values:
            cases = cases.when(action == number, row_action.new_row)
    return cases

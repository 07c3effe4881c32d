"""The rows of touched files, each with the action that applies to it.

One frame has, for each row: its old values (in the table's columns after the operation), its address, the number of its
action, and the new row of an update. Four results are derived from it: the rows of rewritten files, the new rows if old
ones are only soft-deleted, the positions of the soft-deleted rows, and the change feed. An updated row keeps its place
in the file, so the table keeps its order. delta-spark: UpdateCommand, MergeIntoCommand, CDC.
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
from deltalite.spark.columns.names import named, unused_name
from deltalite.spark.columns.types import to_spark
from deltalite.spark.row_changes.joining import broadcast_if_small, measure_size
from deltalite.spark.row_changes.row_actions import ActionKind, RowAction, of_target
from deltalite.spark.runtime.computed_once import computed_once


@dataclass(frozen=True, slots=True, kw_only=True)
class RowColumns:
    """The names of helper columns. No column of the table has one of these names."""

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
    def beside(cls, *schemas: StructType) -> RowColumns:
        """Return names that no column of the schemas has."""
        by_name = {field.name.lower(): field for schema in schemas for field in schema}
        all_columns = StructType(tuple(by_name.values()))
        return cls(**{column.name: unused_name(all_columns, column.name) for column in fields(cls)})


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedRows:
    """The rows of files, with the columns of `schema`, `row_ids` and `columns`. The action of an unchanged row is null.

    If the frame has only the changed rows, `untouched` has all rows of the files, with the table's columns and their
    addresses.
    """

    frame: DataFrame
    schema: StructType
    columns: RowColumns
    actions: Mapping[int, RowAction]
    row_ids: RowIdColumns | None = None
    untouched: DataFrame | None = None

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
        """Apply the actions to `rows`, which have the columns of `base_schema` under the alias `target`.

        The rows also have the columns `row_ids`, `file`, `row` and `action`.
        """
        names = columns
        frame = rows.select(
            *conform_columns(base_schema, schema, of_target),
            *map(named, row_id_names(row_ids)),
            named(names.file),
            named(names.row),
            named(names.action),
            new_row(named(names.action), actions, schema).alias(names.new),
        )
        return cls(frame=frame, schema=schema, columns=names, actions=actions, row_ids=row_ids)

    @property
    def changed(self) -> DataFrame:
        """The rows that change."""
        return self.frame.where(named(self.columns.action).isNotNull())

    def compute_once(self) -> ChangedRows:
        """Compute the changed rows once for all later uses, and return the same rows."""
        changed = computed_once(self.changed)
        names = self.columns
        kept = [*self.schema.names, *row_id_names(self.row_ids), names.file, names.row]
        untouched = self.frame.select(*map(named, kept))
        return replace(self, frame=broadcast_if_small(changed, measure_size(changed)), untouched=untouched)

    def rewritten(self) -> DataFrame:
        """Return the rows of the files after the operation, with the number of their action."""
        names = self.columns
        frame = self.frame
        if self.untouched is not None:
            changes = frame.select(named(names.file), named(names.row), named(names.action), named(names.new))
            frame = self.untouched.join(changes, [names.file, names.row], "left")
        deletes = [number for number, action in self.actions.items() if action.kind is ActionKind.DELETE]
        is_kept = named(names.action).isNull() | ~named(names.action).isin(deletes)
        return frame.where(is_kept).select(
            *[
                F.when(named(names.new).isNotNull(), named(names.new).getField(f.name))
                .otherwise(named(f.name))
                .alias(f.name)
                for f in self.schema
            ],
            *self._new_row_ids(),
            named(names.action),
        )

    def _new_row_ids(self) -> list[Column]:
        """Return the row ids after the operation; an updated row keeps its id and gets the version of the commit."""
        if self.row_ids is None:
            return []
        version = F.when(named(self.columns.action).isNull(), named(self.row_ids.commit_version))
        return [named(self.row_ids.row_id), version.alias(self.row_ids.commit_version)]

    def updated(self) -> DataFrame:
        """Return only the new rows of updates, with the number of their action."""
        names = self.columns
        return self.frame.where(named(names.new).isNotNull()).select(
            *[named(names.new).getField(f.name).alias(f.name) for f in self.schema],
            *self._new_row_ids(),
            named(names.action),
        )

    def positions(self) -> DataFrame:
        """Return the addresses of the changed rows: file and row."""
        return self.changed.select(named(self.columns.file), named(self.columns.row))

    def feed(self, inserts: NewRows | None, gone: DataFrame | None) -> DataFrame:
        """Return all changes in the form of the change feed, with the number of the action of a new row.

        `inserts` has the inserted rows, `gone` the rows of files that are removed whole, with the same columns.
        """
        action = self.columns.action
        columns = [*(named(f.name) for f in self.schema), named(CHANGE_TYPE), named(action)]
        has_new = named(self.columns.new).isNotNull()
        kind = F.when(has_new, F.lit("update_preimage")).otherwise(F.lit("delete"))
        no_action = F.lit(None).cast("int")
        parts = [
            self.changed.withColumn(CHANGE_TYPE, kind).withColumn(action, no_action),
            self.updated().withColumn(CHANGE_TYPE, F.lit("update_postimage")),
        ]
        if inserts is not None:
            parts.append(inserts.frame.withColumn(CHANGE_TYPE, F.lit("insert")))
        if gone is not None:
            parts.append(gone.withColumn(CHANGE_TYPE, F.lit("delete")).withColumn(action, no_action))
        return union_all([part.select(*columns) for part in parts])


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRows:
    """Rows that an operation adds: the table's columns, and the number of their action in the column `action`."""

    frame: DataFrame
    action: str
    actions: Mapping[int, RowAction]

    def compute_once(self) -> NewRows:
        """Compute the rows once for all later uses, and return them."""
        return replace(self, frame=computed_once(self.frame))

    def beside_copies(self, row_ids: RowIdColumns | None) -> DataFrame:
        """Return the rows with the columns of `ChangedRows.rewritten`; the commit gives new rows their ids."""
        no_id = F.lit(None).cast("long")
        columns = [name for name in self.frame.columns if name != self.action]
        return self.frame.select(
            *map(named, columns), *[no_id.alias(name) for name in row_id_names(row_ids)], named(self.action)
        )


def union_all(parts: Sequence[DataFrame]) -> DataFrame:
    """Return all rows of frames with the same columns."""
    return reduce(DataFrame.unionAll, parts)


def new_row(action: Column, actions: Mapping[int, RowAction], schema: StructType) -> Column:
    """Return the new row of the action with this number; null for a delete or without an action."""
    cases = F.when(F.lit(False), F.lit(None).cast(to_spark(schema)))
    for number, row_action in actions.items():
        if row_action.values:
            cases = cases.when(action == number, row_action.new_row)
    return cases

"""Rows of files that an operation touches, each with what becomes of it.

One frame has all that is asked of it later: the row as it was (in the table's columns as the operation leaves them),
where it stands, the number of the action that applies to it, and the new row of an update. From it come the rows of
files that are rewritten, the new rows where old ones are only marked as deleted, the positions of those, and the change
feed. An update keeps its place among the rows of its file, so that a table keeps its order. delta-spark: UpdateCommand,
MergeIntoCommand, CDC.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.change_feed import CHANGE_TYPE
from deltalite.protocol.schema import StructType
from deltalite.spark.columns import named, unused_name
from deltalite.spark.computed_once import computed_once
from deltalite.spark.conforming import conformed_columns
from deltalite.spark.joining import broadcast_if_small, measured
from deltalite.spark.row_actions import ActionKind, RowAction, of_target
from deltalite.spark.types import to_spark


@dataclass(frozen=True, slots=True, kw_only=True)
class RowColumns:
    """Names of our own columns beside the table's: none of them is a name of the table's."""

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
        """Names that no column of the schemas has."""
        by_name = {field.name.lower(): field for schema in schemas for field in schema}
        all_columns = StructType(tuple(by_name.values()))
        return cls(**{own.name: unused_name(all_columns, own.name) for own in fields(cls)})


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedRows:
    """The rows of files, in the columns of `schema` and those of `columns`; the action is null for rows that stay.

    `untouched` gives the same files again, with the columns of the table and their address only, where the frame has
    nothing but the rows that change.
    """

    frame: DataFrame
    schema: StructType
    columns: RowColumns
    actions: Mapping[int, RowAction]
    untouched: DataFrame | None = None

    @classmethod
    def of(
        cls,
        rows: DataFrame,
        columns: RowColumns,
        *,
        have: StructType,
        schema: StructType,
        actions: Mapping[int, RowAction],
    ) -> ChangedRows:
        """What becomes of `rows`, in which the table's columns, those of `have`, are called `target`.

        They have the columns `file`, `row` and `action`.
        """
        names = columns
        frame = rows.select(
            *conformed_columns(have, schema, of_target),
            named(names.file),
            named(names.row),
            named(names.action),
            new_row(named(names.action), actions, schema).alias(names.new),
        )
        return cls(frame=frame, schema=schema, columns=names, actions=actions)

    @property
    def changed(self) -> DataFrame:
        """Only the rows that change."""
        return self.frame.where(named(self.columns.action).isNotNull())

    def fixed(self) -> ChangedRows:
        """The same, with the rows that change computed once for all that follows."""
        kept = computed_once(self.changed)
        names = self.columns
        plain = self.frame.select(*[named(f.name) for f in self.schema], named(names.file), named(names.row))
        return replace(self, frame=broadcast_if_small(kept, measured(kept)), untouched=plain)

    def rewritten(self) -> DataFrame:
        """The rows that the files have afterwards, with the number of the action that made them."""
        names = self.columns
        frame = self.frame
        if self.untouched is not None:
            what = frame.select(named(names.file), named(names.row), named(names.action), named(names.new))
            frame = self.untouched.join(what, [names.file, names.row], "left")
        deletes = [number for number, action in self.actions.items() if action.kind is ActionKind.DELETE]
        stays = named(names.action).isNull() | ~named(names.action).isin(deletes)
        return frame.where(stays).select(
            *[
                F.when(named(names.new).isNotNull(), named(names.new).getField(f.name))
                .otherwise(named(f.name))
                .alias(f.name)
                for f in self.schema
            ],
            named(names.action),
        )

    def updated(self) -> DataFrame:
        """The new rows of updates alone, with the number of their action."""
        names = self.columns
        return self.frame.where(named(names.new).isNotNull()).select(
            *[named(names.new).getField(f.name).alias(f.name) for f in self.schema], named(names.action)
        )

    def positions(self) -> DataFrame:
        """Where the rows stand that change: file and row."""
        return self.changed.select(named(self.columns.file), named(self.columns.row))

    def feed(self, inserts: NewRows | None, gone: DataFrame | None) -> DataFrame:
        """All changes as the change feed has them, with the number of the action that made a new row.

        `inserts` are the rows that come, `gone` those of files that leave as a whole, in the same columns.
        """
        action = self.columns.action
        columns = [*(named(f.name) for f in self.schema), named(CHANGE_TYPE), named(action)]
        has_new = named(self.columns.new).isNotNull()
        kind = F.when(has_new, F.lit("update_preimage")).otherwise(F.lit("delete"))
        nobody = F.lit(None).cast("int")
        parts = [
            self.changed.withColumn(CHANGE_TYPE, kind).withColumn(action, nobody),
            self.updated().withColumn(CHANGE_TYPE, F.lit("update_postimage")),
        ]
        if inserts is not None:
            parts.append(inserts.frame.withColumn(CHANGE_TYPE, F.lit("insert")))
        if gone is not None:
            parts.append(gone.withColumn(CHANGE_TYPE, F.lit("delete")).withColumn(action, nobody))
        return united([part.select(*columns) for part in parts])


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRows:
    """Rows that an operation adds: the table's columns, and the number of their action in the column `action`."""

    frame: DataFrame
    action: str
    actions: Mapping[int, RowAction]

    def fixed(self) -> NewRows:
        """The same, computed once for all that follows."""
        return replace(self, frame=computed_once(self.frame))


def united(parts: Sequence[DataFrame]) -> DataFrame:
    """All rows of frames with the same columns."""
    return reduce(DataFrame.unionAll, parts)


def new_row(action: Column, actions: Mapping[int, RowAction], schema: StructType) -> Column:
    """The new row that the action of this number makes, null for one that makes none, and for no action."""
    found = F.when(F.lit(False), F.lit(None).cast(to_spark(schema)))
    for number, own in actions.items():
        if own.values:
            found = found.when(action == number, own.new_row)
    return found

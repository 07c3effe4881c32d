"""Marks that tell rejected rows from good rows, so that one pass writes both into separate files.

The mark of a row is a text. `GOOD` stands for a row that no condition rejects. Otherwise the text has one digit for
each condition: 1 if the condition is true for the row, else 0. A condition that is NULL rejects no row. Spark writes
the rows of each mark into a folder with the mark in its name, and commits the files of a task together. So a row is in
exactly one file, even if the query is not deterministic or if Spark repeats a task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name everybody knows

from deltalite.protocol.schema import StructType
from deltalite.spark.columns.guards import Guard
from deltalite.spark.columns.names import column_named, unused_name
from deltalite.spark.columns.stored_columns import as_in_log, may_be_empty
from deltalite.spark.columns.types import char_metadata

GOOD = "no"
OPEN_FILES = 4
"""The limit on files that a task writes at once if only the marks have folders. Spark's default would sort the rows."""
_FOLDER_STEM = "rejected"
_TRUE, _FALSE = "1", "0"


def with_marks(
    rows: DataFrame, conditions: Sequence[Column], schema: StructType, partition_columns: Sequence[str]
) -> tuple[DataFrame, str]:
    """Return the rows with their marks in an additional column, and the name of this column.

    Args:
        rows: the rows with the columns of `schema`.
        conditions: the conditions on the rows as readers get them from the table.
        schema: the logical columns of the table.
        partition_columns: the logical names of the partition columns, in which readers get NULL for an empty text.
    """
    name = unused_name(schema, "mark")
    digits = F.concat(*(F.when(condition, _TRUE).otherwise(_FALSE) for condition in conditions))
    mark = F.when(digits.contains(_TRUE), digits).otherwise(GOOD).alias(name)
    names = {column.lower() for column in partition_columns}
    text_fields = [f for f in schema if f.name.lower() in names and may_be_empty(f)]
    if not text_fields:
        return rows.select("*", mark), name
    read_texts = {f.name: as_in_log(f).alias(f.name, metadata=char_metadata(f)) for f in text_fields}
    kept_names = {f.name: unused_name(schema, f"text{number}") for number, f in enumerate(text_fields)}
    as_read = rows.select(
        *(read_texts.get(column, column_named(column)) for column in rows.columns),
        *(column_named(column).alias(kept_name) for column, kept_name in kept_names.items()),
    )
    columns = [column_named(kept_names.get(column, column)).alias(column) for column in rows.columns]
    return as_read.select("*", mark).select(*columns, name), name


def for_good_rows(guards: Sequence[Guard], marks: str) -> list[Guard]:
    """Return guards that check only the rows with the mark `GOOD` in the column `marks`."""
    is_rejected = column_named(marks) != GOOD
    return [replace(guard, condition=is_rejected | guard.condition) for guard in guards]


def mark_folder(schema: StructType, folder_columns: Sequence[str]) -> str:
    """Return the name of the folder column for the marks, which no other column has.

    The name does not begin with `_`, because a vacuum ignores such folders.
    """
    used_names = {name.lower() for name in (*schema.names, *folder_columns)}
    name = _FOLDER_STEM
    while name in used_names:
        name += "_"
    return name


def true_conditions(mark: str) -> list[int]:
    """Return the numbers, from 0, of the conditions that are true for the rows with this mark."""
    return [] if mark == GOOD else [number for number, digit in enumerate(mark) if digit == _TRUE]


def is_condition_true(marks: str, number: int) -> Column:
    """Return whether the condition with this number (from 0) is true according to the mark in the column `marks`."""
    return F.substring(column_named(marks), number + 1, 1) == _TRUE

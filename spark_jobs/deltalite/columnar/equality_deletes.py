"""Rows deleted by their values: a row goes when its key stands in a set of keys.

Keys compare as Iceberg's equality deletes do: null equals null, NaN equals NaN, and -0.0 is another value than 0.0. A
key of several columns matches as a whole. Each column's values become their place among the distinct values of the
keys, and places are joined to one number column by column, so that the search stays vectorised however many columns
there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from deltalite.columnar.casts import LossyCastError, fit
from deltalite.columnar.filters import resolve_column
from deltalite.columnar.predicate import Path
from deltalite.columnar.row_filter import column_values
from deltalite.errors import InvalidRequestError
from deltalite.protocol.arrow_schema import type_to_arrow
from deltalite.protocol.schema import StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualityDeletes:
    """The keys of deleted rows: `keys` has a column for each of `columns`, by the same names.

    `columns` are names of the table's columns or paths into its structs; `keys` may have other columns too.
    """

    columns: tuple[str, ...]
    keys: pa.Table

    def __post_init__(self) -> None:
        missing = [name for name in self.columns if self.keys.column_names.count(name) != 1]
        if not self.columns or missing:
            said = f"have no column '{missing[0]}', or have it twice" if missing else "name no column"
            raise InvalidRequestError(
                f"The keys of the equality deletes {said}.",
                remedy="Give a table with one column for each of `columns`, by the same name.",
            )


@dataclass(frozen=True, slots=True)
class _Step:
    """One column of a key: its distinct values, and the numbers that keys up to here have, in order."""

    path: Path
    values: pa.Array
    prefixes: pa.Array


@dataclass(frozen=True, slots=True)
class BoundDeletes:
    """Equality deletes made ready for the rows of one table."""

    steps: tuple[_Step, ...]

    @property
    def paths(self) -> tuple[Path, ...]:
        """The columns that a row's key is made of, spelled as in the schema."""
        return tuple(step.path for step in self.steps)

    def matched(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Which rows of the batch have their key among the deleted ones; never null. The columns have table types."""
        if len(self.steps) == 1:
            return pc.is_in(column_values(batch, self.steps[0].path), value_set=self.steps[0].values)
        number = pa.repeat(pa.scalar(0, pa.int64()), batch.num_rows)
        for step in self.steps:
            place = pc.index_in(column_values(batch, step.path), value_set=step.values).cast(pa.int64())
            joined = pc.add(pc.multiply(number, len(step.values)), place)
            number = pc.index_in(joined, value_set=step.prefixes).cast(pa.int64())
        return pc.is_valid(number)


def bind_deletes(deletes: EqualityDeletes, schema: StructType) -> BoundDeletes:
    """The deletes in the types and the spelling of a table.

    Raises:
        InvalidRequestError: a column does not exist or has no comparable type, or a key is no value of its column.
    """
    number = pa.repeat(pa.scalar(0, pa.int64()), deletes.keys.num_rows)
    steps = []
    for name in deletes.columns:
        path, data_type = resolve_column(name, schema)
        target = type_to_arrow(data_type)
        if types.is_nested(target):
            raise InvalidRequestError(
                f"Rows cannot be deleted by the column '{name}' of type {data_type}.",
                remedy="Name columns of plain types, or a member of the struct.",
            )
        keys = _fitted(deletes.keys.column(name), target, name)
        distinct = pc.unique(keys)
        place = pc.index_in(keys, value_set=distinct).cast(pa.int64())
        joined = pc.add(pc.multiply(number, len(distinct)), place)
        prefixes = pc.unique(joined)
        number = pc.index_in(joined, value_set=prefixes).cast(pa.int64())
        steps.append(_Step(path, distinct, prefixes))
    return BoundDeletes(tuple(steps))


def matched_by_any(deletes: Sequence[BoundDeletes], batch: pa.RecordBatch) -> pa.BooleanArray:
    """Which rows of the batch one of the deletes (at least one is given) takes away."""
    return reduce(pc.or_, (each.matched(batch) for each in deletes))


def _fitted(keys: pa.ChunkedArray, target: pa.DataType, name: str) -> pa.Array:
    try:
        return fit(keys.combine_chunks(), target)
    except LossyCastError as error:
        raise InvalidRequestError(
            f"The keys of the equality deletes are {keys.type} for the column '{name}', which is {target}: {error}.",
            remedy=f"Give keys of the type {target}.",
        ) from error

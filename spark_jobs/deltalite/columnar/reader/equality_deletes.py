"""Equality deletes: a row is deleted if its key is in a set of keys.

Keys compare as in Iceberg's equality deletes: null equals null, NaN equals NaN, and -0.0 differs from 0.0. A key of
several columns matches if all of its values match. The module replaces each value by its index among the distinct
values of its key column, and combines the indexes of a key into one number, column by column. Arrow can then look up
the keys of all rows of a batch at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from deltalite.columnar.parquet.casts import LossyCastError, cast_without_loss
from deltalite.columnar.predicates.filters import resolve_column
from deltalite.columnar.predicates.predicate import Path
from deltalite.columnar.predicates.row_filter import column_values
from deltalite.errors import InvalidRequestError
from deltalite.protocol.arrow_schema import type_to_arrow
from deltalite.protocol.schema import StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualityDeletes:
    """The keys of deleted rows: `keys` has one column for each of `columns`, with the same name.

    `columns` are names of the table's columns or paths into its structs. `keys` may have further columns.
    """

    columns: tuple[str, ...]
    keys: pa.Table

    def __post_init__(self) -> None:
        missing = [name for name in self.columns if self.keys.column_names.count(name) != 1]
        if not self.columns or missing:
            problem = f"have no column '{missing[0]}', or have it twice" if missing else "name no column"
            raise InvalidRequestError(
                f"The keys of the equality deletes {problem}.",
                remedy="Give a table with one column for each of `columns`, by the same name.",
            )


@dataclass(frozen=True, slots=True)
class _KeyColumn:
    """One column of a key: its distinct values, and the distinct numbers of the keys up to this column."""

    path: Path
    values: pa.Array
    prefix_numbers: pa.Array


@dataclass(frozen=True, slots=True)
class BoundDeletes:
    """Equality deletes that are bound to a table's schema."""

    key_columns: tuple[_KeyColumn, ...]

    @property
    def paths(self) -> tuple[Path, ...]:
        """The columns of a row's key, spelled as in the schema."""
        return tuple(key_column.path for key_column in self.key_columns)

    def deleted_mask(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return a mask of the rows with a deleted key, without nulls. The batch has the table's types."""
        if len(self.key_columns) == 1:
            return pc.is_in(column_values(batch, self.key_columns[0].path), value_set=self.key_columns[0].values)
        key_numbers = pa.repeat(pa.scalar(0, pa.int64()), batch.num_rows)
        for key_column in self.key_columns:
            combined = _combine(key_numbers, column_values(batch, key_column.path), key_column.values)
            key_numbers = pc.index_in(combined, value_set=key_column.prefix_numbers).cast(pa.int64())
        return pc.is_valid(key_numbers)


def bind_deletes(deletes: EqualityDeletes, schema: StructType) -> BoundDeletes:
    """Convert deletes to the types and the spelling of a table's schema.

    Raises:
        InvalidRequestError: a column does not exist or has a nested type, or a key does not fit its column.
    """
    key_numbers = pa.repeat(pa.scalar(0, pa.int64()), deletes.keys.num_rows)
    key_columns = []
    for name in deletes.columns:
        path, data_type = resolve_column(name, schema)
        target = type_to_arrow(data_type)
        if types.is_nested(target):
            raise InvalidRequestError(
                f"Rows cannot be deleted by the column '{name}' of type {data_type}.",
                remedy="Name columns of primitive types, or a field of the struct.",
            )
        keys = _cast_keys(deletes.keys.column(name), target, name)
        distinct_values = pc.unique(keys)
        combined = _combine(key_numbers, keys, distinct_values)
        prefix_numbers = pc.unique(combined)
        key_numbers = pc.index_in(combined, value_set=prefix_numbers).cast(pa.int64())
        key_columns.append(_KeyColumn(path, distinct_values, prefix_numbers))
    return BoundDeletes(tuple(key_columns))


def any_deleted_mask(deletes: Sequence[BoundDeletes], batch: pa.RecordBatch) -> pa.BooleanArray:
    """Return a mask of the rows that any of the deletes removes; `deletes` is not empty."""
    return reduce(pc.or_, (bound.deleted_mask(batch) for bound in deletes))


def _combine(key_numbers: pa.Int64Array, values: pa.Array, distinct_values: pa.Array) -> pa.Int64Array:
    """Combine each number with the index of its value in `distinct_values`; null for a value without index."""
    indexes = pc.index_in(values, value_set=distinct_values).cast(pa.int64())
    return pc.add(pc.multiply(key_numbers, len(distinct_values)), indexes)


def _cast_keys(keys: pa.ChunkedArray, target: pa.DataType, name: str) -> pa.Array:
    try:
        return cast_without_loss(keys.combine_chunks(), target)
    except LossyCastError as error:
        raise InvalidRequestError(
            f"The keys of the equality deletes are {keys.type} for the column '{name}', which is {target}: {error}.",
            remedy=f"Give keys of the type {target}.",
        ) from error

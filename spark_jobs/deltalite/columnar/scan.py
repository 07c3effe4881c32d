"""The rows of a set of data files as a stream of record batches, without Spark.

One file is open at a time and one batch in memory, whatever the size of the table. Batches have the table's Arrow
types: columns are found by name without regard to case, partition columns come from the log, a column that a file
does not have is null, and everything else is cast without loss or refused. A predicate drops the rows for which it is
not TRUE; which files to open at all is `skipping.prune`'s decision, taken before. Protocol: Reader Requirements.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from deltalite.columnar.binding import bind
from deltalite.columnar.casts import LossyCastError, fit
from deltalite.columnar.parquet_files import open_parquet
from deltalite.columnar.predicate import EVERYTHING, Predicate, columns_of
from deltalite.columnar.row_filter import select
from deltalite.errors import CorruptDataFileError, CorruptLogError, InvalidRequestError, UnsupportedFeatureError
from deltalite.protocol.arrow_schema import type_to_arrow
from deltalite.protocol.partition_values import parse_partition_value
from deltalite.protocol.paths import decode_path
from deltalite.protocol.schema import StructField, StructType

if TYPE_CHECKING:
    from deltalite.storage.log_store import LogStore

DEFAULT_BATCH_SIZE = 65_536
_FILE_COLUMNS = ("path", "partitionValues", "deletionVector")
# So many rows of the table of files are made Python objects at a time.
_FILES_AT_A_TIME = 1_024


def read_batches(
    store: LogStore,
    files: pa.Table,
    schema: StructType,
    partition_columns: Collection[str],
    columns: Sequence[str] | None = None,
    predicate: Predicate | None = None,
    batch_size: int = DEFAULT_BATCH_SIZE,
) -> Iterator[pa.RecordBatch]:
    """The rows of `files` (a snapshot's table of files) for which `predicate` is TRUE, none of them empty batches.

    Args:
        store: the table's storage.
        files: columns `path` (as in the log), `partitionValues`, and `deletionVector` where the table knows them.
        schema: the table's schema.
        partition_columns: which of its columns stand in the log instead of the files.
        columns: top-level columns, without regard to case, in the order wanted; all in the table's order where None.
        predicate: which rows; all where None.
        batch_size: the most rows that a batch has.

    Raises:
        InvalidRequestError: at once, for a column that the table does not have or a predicate that it cannot evaluate.
        UnsupportedFeatureError: at once, for files with deletion vectors.
        CorruptDataFileError: while reading, for a file that is missing, damaged or of other types than the table.
        CorruptLogError: while reading, for a partition value that is no value of its column.
    """
    plan = _plan(schema, partition_columns, columns, predicate, batch_size)
    _refuse_deletion_vectors(files)
    return _read(store, files.select(_FILE_COLUMNS[:2]), plan)


def projected_fields(schema: StructType, columns: Sequence[str] | None) -> tuple[StructField, ...]:
    """The fields that `columns` names, in that order. Raises `InvalidRequestError`, listing the table's columns."""
    if columns is None:
        return schema.fields
    if isinstance(columns, str):
        raise InvalidRequestError(f"columns is the text {columns!r}, not a list.", remedy=f"Write [{columns!r}].")
    found = {name: schema.find(name) for name in columns}
    missing = [name for name, f in found.items() if f is None]
    if missing:
        raise InvalidRequestError(
            f"The table has no column {', '.join(repr(name) for name in missing)}.",
            remedy=f"Its columns are: {', '.join(schema.names)}.",
        )
    return tuple(f for f in found.values() if f is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What is read of each file. `read` holds the fields of the result first, then those of the predicate alone."""

    read: tuple[StructField, ...]
    arrow: pa.Schema
    result: pa.Schema
    partition_columns: frozenset[str]
    predicate: Predicate
    batch_size: int


def _plan(
    schema: StructType,
    partition_columns: Collection[str],
    columns: Sequence[str] | None,
    predicate: Predicate | None,
    batch_size: int,
) -> _Plan:
    bound = EVERYTHING if predicate is None else bind(predicate, schema)
    fields = projected_fields(schema, columns)
    wanted = {f.name for f in fields}
    for_predicate = {path[0] for path in columns_of(bound)} - wanted
    read = fields + tuple(f for f in schema if f.name in for_predicate)
    arrow = pa.schema([pa.field(f.name, type_to_arrow(f.type), f.nullable) for f in read])
    # What the filter cannot evaluate is refused here, before any file is open.
    select(pa.RecordBatch.from_pylist([], schema=arrow), bound)
    return _Plan(
        read=read,
        arrow=arrow,
        result=pa.schema([arrow.field(index) for index in range(len(fields))]),
        partition_columns=frozenset(name.lower() for name in partition_columns),
        predicate=bound,
        batch_size=batch_size,
    )


def _refuse_deletion_vectors(files: pa.Table) -> None:
    if "deletionVector" not in files.column_names:
        return
    vectors = files.column("deletionVector")
    if vectors.null_count < len(vectors):
        raise UnsupportedFeatureError(
            "Some files of the table have deletion vectors, which this release does not read without Spark.",
            remedy="Read the table through Spark, or run REORG TABLE ... APPLY (PURGE) first.",
        )


def _read(store: LogStore, files: pa.Table, plan: _Plan) -> Iterator[pa.RecordBatch]:
    for some in files.to_batches(max_chunksize=_FILES_AT_A_TIME):
        for row in some.to_pylist():
            yield from _read_file(store, decode_path(row["path"]), dict(row["partitionValues"] or ()), plan)


def _read_file(
    store: LogStore, name: str, partition_values: Mapping[str, str | None], plan: _Plan
) -> Iterator[pa.RecordBatch]:
    constants = _constants(partition_values, plan)
    with open_parquet(store, name) as file:
        in_file = _names_in_file(file.schema_arrow, [f.name for f in plan.read if f.name not in constants])
        for batch in file.iter_batches(plan.batch_size, columns=list(in_file.values())):
            arrays = [
                _column(batch, f, in_file.get(f.name), constants.get(f.name), f"{store.root}/{name}")
                for f in plan.arrow
            ]
            whole = _assembled(arrays, plan.arrow, batch.num_rows)
            kept = whole if plan.predicate == EVERYTHING else select(whole, plan.predicate)
            if kept.num_rows:
                yield _assembled(kept.columns[: len(plan.result)], plan.result, kept.num_rows)


def _constants(partition_values: Mapping[str, str | None], plan: _Plan) -> dict[str, pa.Scalar]:
    """The partition columns that are read, as Arrow values by the name of the column."""
    constants = {}
    in_log = {name.lower(): text for name, text in partition_values.items()}
    for f in plan.read:
        if f.name.lower() in plan.partition_columns:
            text = in_log.get(f.name.lower())
            try:
                constants[f.name] = pa.scalar(parse_partition_value(text, f.type), type_to_arrow(f.type))
            except (pa.ArrowException, OverflowError, ValueError) as error:
                raise CorruptLogError(
                    f"The log has the partition value {text!r} for column '{f.name}', which does not fit {f.type}.",
                    remedy="Repair the log with the engine that wrote it.",
                ) from error
    return constants


def _names_in_file(schema: pa.Schema, wanted: Sequence[str]) -> dict[str, str]:
    """For each column that the file has, how the file spells it; the table's own spelling goes first."""
    exact = set(schema.names)
    folded = {name.lower(): name for name in reversed(schema.names)}
    spelled = {name: name if name in exact else folded.get(name.lower()) for name in wanted}
    return {name: own for name, own in spelled.items() if own is not None}


def _column(
    batch: pa.RecordBatch, f: pa.Field, name_in_file: str | None, constant: pa.Scalar | None, file: str
) -> pa.Array:
    if constant is not None:
        return pa.repeat(constant, batch.num_rows)
    if name_in_file is None:
        return pa.nulls(batch.num_rows, f.type)
    stored = batch.column(batch.schema.names.index(name_in_file))
    try:
        return fit(stored, f.type)
    except LossyCastError as error:
        raise CorruptDataFileError(
            f"Column '{f.name}' of the data file '{file}' is {stored.type}, but the table has {f.type}: {error}.",
            remedy="Rewrite the file with the table's type, or read it with the engine that wrote it.",
        ) from error


def _assembled(arrays: Sequence[Any], schema: pa.Schema, num_rows: int) -> pa.RecordBatch:
    """A record batch, also of no columns, which still has rows."""
    if arrays:
        return pa.RecordBatch.from_arrays(list(arrays), schema=schema)
    return pa.RecordBatch.from_struct_array(pa.nulls(num_rows, pa.struct([])))

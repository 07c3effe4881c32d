"""Reading a classic or multi-part checkpoint, column by column.

Only the columns that are asked for are read; a column that the writer left out reads as null. Rows of other kinds are
dropped by Arrow, so a checkpoint of a million files costs a few vector operations. Anything that Parquet or the schema
gets wrong is a `CorruptCheckpointError`, which tells the caller to fall back. Protocol: Checkpoints, Checkpoint Schema.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltalite.errors import CorruptCheckpointError, DeltaLiteError
from deltalite.log.file_table import ADD_TYPES, REMOVE_TYPES, without_rows
from deltalite.log.segment import CheckpointFiles
from deltalite.protocol.actions import Action, DomainMetadata, Metadata, Protocol, SetTransaction, parse_action
from deltalite.storage.log_store import LogStore

# In these a null is a value, not an absence.
_MAPS = frozenset({"configuration", "options", "partitionValues", "tags"})
_SMALL_KINDS = (Protocol.action, Metadata.action, SetTransaction.action, DomainMetadata.action)


def read_small_actions(store: LogStore, checkpoint: CheckpointFiles) -> list[Action]:
    """Protocol, metadata, transactions and domains of the checkpoint."""
    found: list[Action] = []
    for name in checkpoint.names:
        with _parquet(store, name) as file:
            kinds = [k for k in _SMALL_KINDS if k in file.schema_arrow.names]
            table = file.read(columns=kinds) if kinds else None
            for kind in kinds:
                for body in _rows_of_kind(table, kind).to_pylist(maps_as_pydicts="strict"):
                    action = parse_action(kind, _without_nulls(body), name)
                    if action is not None:
                        found.append(action)
    return found


def read_files(store: LogStore, checkpoint: CheckpointFiles, columns: Sequence[str]) -> pa.Table:
    """The `add` rows: a table with `columns` of `ADD_TYPES`."""
    return _read_kind(store, checkpoint, "add", ADD_TYPES, columns)


def read_tombstones(store: LogStore, checkpoint: CheckpointFiles, columns: Sequence[str]) -> pa.Table:
    """The `remove` rows: a table with `columns` of `REMOVE_TYPES`."""
    return _read_kind(store, checkpoint, "remove", REMOVE_TYPES, columns)


def _read_kind(
    store: LogStore, checkpoint: CheckpointFiles, kind: str, types: Mapping[str, pa.DataType], columns: Sequence[str]
) -> pa.Table:
    schema = pa.schema([(c, types[c]) for c in columns])
    pieces = [schema.empty_table()]
    for name in checkpoint.names:
        with _parquet(store, name) as file:
            if kind not in file.schema_arrow.names:
                continue
            present = [f.name for f in file.schema_arrow.field(kind).type if f.name in columns]
            table = file.read(columns=[f"{kind}.{c}" for c in present])
            if table.num_rows:
                pieces.append(_project(table, kind, schema))
    return pa.concat_tables(pieces)


def _rows_of_kind(table: pa.Table, kind: str) -> pa.ChunkedArray:
    rows = table.column(kind)
    return rows.filter(pc.is_valid(rows))


def _project(table: pa.Table, kind: str, schema: pa.Schema) -> pa.Table:
    """The rows of a kind as a table of exactly `schema`; the structs are taken apart without a copy."""
    flat = table.select([kind]).flatten()
    present = {name.removeprefix(f"{kind}."): flat.column(name) for name in flat.column_names}
    arrays = [
        _as_type(present[f.name], f.type) if f.name in present else pa.chunked_array([pa.nulls(flat.num_rows, f.type)])
        for f in schema
    ]
    return without_rows(pa.table(arrays, schema=schema), pc.is_null(table.column(kind)))


def _as_type(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    """The column in the type that replay uses; structs by the names of their fields, which writers order freely."""
    if column.type == wanted:
        return column
    if pa.types.is_struct(wanted):
        return pa.chunked_array([_struct_as(chunk, wanted) for chunk in column.chunks], wanted)
    return column.cast(wanted)


def _struct_as(chunk: pa.StructArray, wanted: pa.StructType) -> pa.StructArray:
    have = {f.name for f in chunk.type}
    children = [chunk.field(f.name).cast(f.type) if f.name in have else pa.nulls(len(chunk), f.type) for f in wanted]
    return pa.StructArray.from_arrays(children, fields=list(wanted), mask=pc.is_null(chunk))


def _without_nulls(body: Mapping[str, Any]) -> dict[str, Any]:
    """A Parquet row as a JSON body: absent instead of null, at every depth of structs."""
    return {
        key: _without_nulls(value) if isinstance(value, dict) and key not in _MAPS else value
        for key, value in body.items()
        if value is not None
    }


@contextmanager
def _parquet(store: LogStore, name: str) -> Iterator[pq.ParquetFile]:
    try:
        with store.open(name) as handle, pq.ParquetFile(handle) as file:
            yield file
    except DeltaLiteError:
        raise
    except (OSError, pa.ArrowException, KeyError, ValueError) as error:
        raise CorruptCheckpointError(
            f"The checkpoint {name} of {store.root} cannot be read: {error}.",
            remedy="Delete the file if the commits before it are still there; otherwise restore it from a backup.",
        ) from error

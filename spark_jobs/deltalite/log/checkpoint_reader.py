"""Reads a checkpoint of any kind, column by column.

The main files hold the small actions. They also hold the adds and removes, or the names of the sidecars with these.
From Parquet only the requested columns are read, a missing column reads as null, and Arrow drops rows of other kinds. A
checkpoint of a million files therefore costs a few vector operations. JSON is read line by line. Any invalid or missing
file causes a `CorruptCheckpointError`, after which the caller uses other files. Protocol: Checkpoints, Sidecar Files,
V2 Spec, Checkpoint Schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltalite.errors import CorruptCheckpointError, CorruptLogError
from deltalite.log.action_files import FileTableBuilder, read_action_blocks, read_actions
from deltalite.log.file_table import ADD_TYPES, REMOVE_TYPES, without_rows
from deltalite.log.listing import CheckpointFiles, CheckpointKind
from deltalite.log.parsed_stats import stats_texts
from deltalite.protocol.actions import (
    Action,
    AddFile,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
    parse_action,
)
from deltalite.protocol.file_names import sidecar_name
from deltalite.storage.log_store import LogStore

# In these maps a null is a value, and not a missing key.
_MAPS = frozenset({"configuration", "options", "partitionValues", "tags"})
_SMALL_KINDS = (Protocol.action, Metadata.action, SetTransaction.action, DomainMetadata.action)
# Types that some writers use instead of a string.
_TEXTS = (
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_dictionary,
)
_CHECKPOINT_METADATA, _SIDECAR = "checkpointMetadata", "sidecar"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointHead:
    """The small actions of a checkpoint, and the files that hold its adds and removes.

    `sources` are the main files and the sidecars, as names relative to the table's root.
    """

    actions: tuple[Action, ...]
    sources: tuple[str, ...]


def read_head(store: LogStore, checkpoint: CheckpointFiles) -> CheckpointHead:
    """Read the protocol, metadata, transactions and domains of a checkpoint, and find its files of adds and removes.

    Raises:
        CorruptCheckpointError: a main file cannot be read, or its content contradicts its name.
    """
    actions: list[Action] = []
    sidecars: list[str] = []
    versions: list[Any] = []
    kinds = (*_SMALL_KINDS, _CHECKPOINT_METADATA, _SIDECAR)
    for name in checkpoint.names:
        with _as_corrupt_checkpoint(store, name):
            for kind, body in _bodies(store, name, kinds):
                if kind == _SIDECAR:
                    sidecars.append(_sidecar(body, name))
                elif kind == _CHECKPOINT_METADATA:
                    versions.append(body.get("version"))
                else:
                    action = parse_action(kind, body, name)
                    actions += [action] if action is not None else []
    expected = [checkpoint.version]
    if versions != expected and (versions or checkpoint.kind is CheckpointKind.UUID_NAMED):
        raise _not_readable(
            store, checkpoint.names[0], f"its checkpointMetadata has version {versions} instead of {expected}"
        )
    return CheckpointHead(actions=tuple(actions), sources=(*checkpoint.names, *sidecars))


def sidecar_names(store: LogStore, checkpoint: CheckpointFiles) -> tuple[str, ...]:
    """Return the sidecars of a checkpoint, as names relative to the table's root; none for a V1 checkpoint.

    Raises:
        CorruptCheckpointError: a main file cannot be read.
    """
    sidecars: list[str] = []
    for name in checkpoint.names:
        with _as_corrupt_checkpoint(store, name):
            sidecars += [_sidecar(body, name) for _, body in _bodies(store, name, (_SIDECAR,))]
    return tuple(sidecars)


def read_files(store: LogStore, sources: Sequence[str], columns: Sequence[str]) -> pa.Table:
    """Read the `add` rows of main files and sidecars, with `columns` of `ADD_TYPES`, which must include `path`."""
    return _read_kind(store, sources, AddFile, ADD_TYPES, columns)


def read_file_blocks(
    store: LogStore, sources: Sequence[str], columns: Sequence[str], most_rows: int
) -> Iterator[pa.Table]:
    """Read the rows of `read_files` in the same order; Parquet in blocks of at most `most_rows` rows."""
    return _blocks_of_kind(store, sources, AddFile, pa.schema([(c, ADD_TYPES[c]) for c in columns]), most_rows)


def read_tombstones(store: LogStore, sources: Sequence[str], columns: Sequence[str]) -> pa.Table:
    """Read the `remove` rows of main files and sidecars, with `columns` of `REMOVE_TYPES`, including `path`."""
    return _read_kind(store, sources, RemoveFile, REMOVE_TYPES, columns)


def _bodies(store: LogStore, name: str, kinds: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    if _is_json(name):
        yield from ((kind, body) for kind, body in read_actions(store, name) if kind in kinds)
        return
    with _parquet(store, name) as file:
        present = [k for k in kinds if k in file.schema_arrow.names]
        table = _with_strings(file.read(columns=present)) if present else None
        for kind in present:
            for body in _rows_of_kind(table, kind).to_pylist(maps_as_pydicts="strict"):
                yield kind, _without_nulls(body)


def _sidecar(body: Mapping[str, Any], name: str) -> str:
    path = body.get("path")
    if not isinstance(path, str) or not path.strip("/."):
        raise ValueError(f"{name} has a sidecar without a path")
    return sidecar_name(path)


def _read_kind(
    store: LogStore,
    sources: Sequence[str],
    cls: type[AddFile | RemoveFile],
    types: Mapping[str, pa.DataType],
    columns: Sequence[str],
) -> pa.Table:
    schema = pa.schema([(c, types[c]) for c in columns])
    return pa.concat_tables([schema.empty_table(), *_blocks_of_kind(store, sources, cls, schema)])


def _blocks_of_kind(
    store: LogStore,
    sources: Sequence[str],
    cls: type[AddFile | RemoveFile],
    schema: pa.Schema,
    most_rows: int | None = None,
) -> Iterator[pa.Table]:
    for name in sources:
        with _as_corrupt_checkpoint(store, name):
            for table in (
                _json_files(store, name, cls, schema) if _is_json(name) else _rows(store, name, cls, schema, most_rows)
            ):
                if table["path"].null_count:
                    raise ValueError(f"it has {cls.action} actions without a path")
                yield table


def _json_files(store: LogStore, name: str, cls: type[AddFile | RemoveFile], schema: pa.Schema) -> Iterator[pa.Table]:
    builder = FileTableBuilder(cls)
    for read_bytes, pairs in read_action_blocks(store, name):
        for kind, body in pairs:
            if kind == cls.action:
                builder.append(body)
        builder.end_block(name, read_bytes)
    yield builder.table().select(schema.names)


def _rows(
    store: LogStore, name: str, cls: type[AddFile | RemoveFile], schema: pa.Schema, most_rows: int | None
) -> Iterator[pa.Table]:
    """Yield the rows of a Parquet file: all at once, or at most `most_rows` at a time."""
    kind = cls.action
    with _parquet(store, name) as file:
        if kind not in file.schema_arrow.names:
            return
        file_columns = [f.name for f in file.schema_arrow.field(kind).type]
        present = [c for c in file_columns if c in schema.names]
        may_be_parsed = "stats" in schema.names and "stats_parsed" in file_columns and cls is AddFile
        # At least one column of a struct is needed to distinguish it from a null.
        with ExitStack() as open_files:
            parsed = _ParsedStats(store, name, most_rows, open_files)
            for number, block in enumerate(
                _pieces(file, [f"{kind}.{c}" for c in present or file_columns[:1]], most_rows)
            ):
                table = _with_strings(block)
                rows = _project(table, kind, schema)
                rows.validate(full=True)  # Arrow does not check the encoding of texts by itself
                is_absent = pc.is_null(table.column(kind))
                if may_be_parsed and pc.any(pc.and_(pc.is_null(rows["stats"]), pc.invert(is_absent))).as_py():
                    texts = pc.coalesce(rows["stats"], parsed.texts_of(number))
                    rows = rows.set_column(rows.schema.get_field_index("stats"), "stats", texts)
                yield without_rows(rows, is_absent)


def _pieces(file: pq.ParquetFile, columns: list[str], most_rows: int | None) -> Iterator[pa.Table]:
    """Yield some columns of a file: all rows, or at most `most_rows` at a time; nothing for a file without rows."""
    if not file.metadata.num_rows:
        return
    if most_rows is None:
        yield file.read(columns=columns)
        return
    for batch in file.iter_batches(most_rows, columns=columns):
        yield pa.Table.from_batches([batch])


class _ParsedStats:
    """Statistics texts from the `add.stats_parsed` of a file, read on demand; `open_files` closes the file."""

    def __init__(self, store: LogStore, name: str, most_rows: int | None, open_files: ExitStack) -> None:
        self._file = _parquet(store, name, coerce_int96_timestamp_unit="us")
        self._open_files = open_files
        self._most_rows = most_rows
        self._pieces: Iterator[tuple[int, pa.Table]] | None = None
        self._instants: set[str] = set()

    def texts_of(self, number: int) -> pa.ChunkedArray:
        """Return the texts for a piece of the file; the piece numbers must ascend."""
        prefix = "add.stats_parsed"
        if self._pieces is None:
            file = self._open_files.enter_context(self._file)
            columns = [file.schema.column(i) for i in range(len(file.schema))]
            self._instants = {c.path.removeprefix(f"{prefix}.") for c in columns if c.physical_type == "INT96"}
            self._pieces = enumerate(_pieces(file, [prefix], self._most_rows))
        piece = next(piece for at, piece in self._pieces if at == number)
        return stats_texts(piece.select(["add"]).flatten().column(prefix), self._instants)


def _with_strings(table: pa.Table) -> pa.Table:
    """Convert other text types to strings, at every depth."""
    schema = pa.schema([field.with_type(_string_type(field.type)) for field in table.schema])
    return table if schema == table.schema else table.cast(schema)


def _string_type(data_type: pa.DataType) -> pa.DataType:
    if any(is_text(data_type) for is_text in _TEXTS):
        return pa.string()
    if pa.types.is_struct(data_type):
        return pa.struct([field.with_type(_string_type(field.type)) for field in data_type])
    if pa.types.is_map(data_type):
        inner = [_string_type(data_type.key_type), _string_type(data_type.item_type)]
        return data_type if inner == [data_type.key_type, data_type.item_type] else pa.map_(*inner)
    if pa.types.is_list(data_type):
        element = _string_type(data_type.value_type)
        return data_type if element == data_type.value_type else pa.list_(element)
    return data_type


def _rows_of_kind(table: pa.Table, kind: str) -> pa.ChunkedArray:
    rows = table.column(kind)
    return rows.filter(pc.is_valid(rows))


def _project(table: pa.Table, kind: str, schema: pa.Schema) -> pa.Table:
    """Return all rows as a table of exactly `schema`; structs are flattened without a copy."""
    flat = table.select([kind]).flatten()
    present = {name.removeprefix(f"{kind}."): flat.column(name) for name in flat.column_names}
    arrays = [
        _as_type(present[f.name], f.type) if f.name in present else pa.chunked_array([pa.nulls(flat.num_rows, f.type)])
        for f in schema
    ]
    return pa.table(arrays, schema=schema)


def _as_type(column: pa.ChunkedArray, data_type: pa.DataType) -> pa.ChunkedArray:
    """Convert a column to the type that replay uses. Struct fields are matched by name, because their order varies."""
    if column.type == data_type:
        return column
    if pa.types.is_string(data_type) and not pa.types.is_null(column.type):  # Arrow would convert a number to text
        raise TypeError(f"a text column has the type {column.type}")
    if pa.types.is_struct(data_type):
        return pa.chunked_array([_struct_as(chunk, data_type) for chunk in column.chunks], data_type)
    return column.cast(data_type)


def _struct_as(chunk: pa.StructArray, data_type: pa.StructType) -> pa.StructArray:
    names = {f.name for f in chunk.type}
    children = [
        chunk.field(f.name).cast(f.type) if f.name in names else pa.nulls(len(chunk), f.type) for f in data_type
    ]
    return pa.StructArray.from_arrays(children, fields=list(data_type), mask=pc.is_null(chunk))


def _without_nulls(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a Parquet row as a JSON body, without nulls at every depth of structs."""
    return {
        key: _without_nulls(value) if isinstance(value, dict) and key not in _MAPS else value
        for key, value in body.items()
        if value is not None
    }


def _is_json(name: str) -> bool:
    return name.endswith(".json")


@contextmanager
def _parquet(store: LogStore, name: str, **options: Any) -> Iterator[pq.ParquetFile]:
    with store.open(name) as handle, pq.ParquetFile(handle, **options) as file:
        yield file


@contextmanager
def _as_corrupt_checkpoint(store: LogStore, name: str) -> Iterator[None]:
    """Convert any error in reading the file to `CorruptCheckpointError`."""
    try:
        yield
    except CorruptLogError as error:
        raise _not_readable(store, name, error.problem.rstrip(".")) from error
    except (OSError, pa.ArrowException, LookupError, ArithmeticError, ValueError, TypeError, AttributeError) as error:
        # A column may have an unexpected type: a text instead of a struct has no members, for example.
        raise _not_readable(store, name, str(error)) from error


def _not_readable(store: LogStore, name: str, why: str) -> CorruptCheckpointError:
    return CorruptCheckpointError(
        f"The checkpoint file {name} of {store.root} cannot be read: {why}.",
        remedy="Delete the checkpoint if the commits before it are still there; otherwise restore it from a backup.",
    )

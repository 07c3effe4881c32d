"""Reads a checkpoint of any kind, column by column.

The main files hold the small actions: protocol, metadata, transactions and domains. They also hold the adds and
removes, or name the sidecars that hold them. From a Parquet file this module reads only the requested columns, and
Arrow drops the rows of other kinds. A checkpoint of a million files therefore costs a few vector operations. A missing
column reads as null. JSON is read in blocks of lines.
An invalid or missing file causes a `CorruptCheckpointError`; the caller then uses other files of the log. If storage
fails, each function raises `StorageError` or `StoragePermissionError`. Protocol: Checkpoints, Sidecar Files, V2 Spec,
Checkpoint Schema.
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
from deltalite.log.action_files import FileTableBuilder, log_storage_error, read_action_blocks, read_actions
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

# A null in one of these maps is a value. Elsewhere in a Parquet row, a null means that the field is missing.
_MAPS = frozenset({"configuration", "options", "partitionValues", "tags"})
_SMALL_KINDS = (Protocol.action, Metadata.action, SetTransaction.action, DomainMetadata.action)
# Tests for the types that some writers use instead of a string.
_TEXT_TYPE_TESTS = (
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
    named_versions: list[Any] = []
    kinds = (*_SMALL_KINDS, _CHECKPOINT_METADATA, _SIDECAR)
    for name in checkpoint.names:
        with _as_corrupt_checkpoint(store, name):
            for kind, body in _actions_of_kinds(store, name, kinds):
                if kind == _SIDECAR:
                    sidecars.append(_sidecar_file(body, name))
                elif kind == _CHECKPOINT_METADATA:
                    named_versions.append(body.get("version"))
                else:
                    action = parse_action(kind, body, name)
                    actions += [action] if action is not None else []
    is_confirmed = named_versions == [checkpoint.version]
    if not is_confirmed and (named_versions or checkpoint.kind is CheckpointKind.UUID_NAMED):
        raise _unreadable_error(
            store,
            checkpoint.names[0],
            f"its checkpointMetadata actions name the versions {named_versions}, but its file name says "
            f"{checkpoint.version}",
        )
    return CheckpointHead(actions=tuple(actions), sources=(*checkpoint.names, *sidecars))


def sidecar_names(store: LogStore, checkpoint: CheckpointFiles) -> tuple[str, ...]:
    """Return the sidecars of a checkpoint, as names relative to the table's root. A V1 checkpoint has none.

    Raises:
        CorruptCheckpointError: a main file cannot be read.
    """
    sidecars: list[str] = []
    for name in checkpoint.names:
        with _as_corrupt_checkpoint(store, name):
            sidecars += [_sidecar_file(body, name) for _, body in _actions_of_kinds(store, name, (_SIDECAR,))]
    return tuple(sidecars)


def read_adds(store: LogStore, sources: Sequence[str], columns: Sequence[str]) -> pa.Table:
    """Return the adds in main files and sidecars. `columns` are columns of `ADD_TYPES`, and must include `path`.

    Raises:
        CorruptCheckpointError: a file cannot be read, or has an add without a path.
    """
    return _read_kind(store, sources, AddFile, ADD_TYPES, columns)


def read_add_blocks(
    store: LogStore, sources: Sequence[str], columns: Sequence[str], max_rows: int
) -> Iterator[pa.Table]:
    """Yield the rows of `read_adds` in the same order. A block from a Parquet file has at most `max_rows` rows.

    Raises:
        CorruptCheckpointError: see `read_adds`.
    """
    return _blocks_of_kind(store, sources, AddFile, pa.schema([(c, ADD_TYPES[c]) for c in columns]), max_rows)


def read_tombstones(store: LogStore, sources: Sequence[str], columns: Sequence[str]) -> pa.Table:
    """Return the removes in main files and sidecars. `columns` are columns of `REMOVE_TYPES`, and must include `path`.

    Raises:
        CorruptCheckpointError: a file cannot be read, or has a remove without a path.
    """
    return _read_kind(store, sources, RemoveFile, REMOVE_TYPES, columns)


def _actions_of_kinds(store: LogStore, name: str, kinds: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the (kind, body) pairs of the actions of `kinds` in a main file."""
    if _is_json(name):
        yield from ((kind, body) for kind, body in read_actions(store, name) if kind in kinds)
        return
    with _parquet(store, name) as file:
        file_kinds = [kind for kind in kinds if kind in file.schema_arrow.names]
        table = _with_strings(file.read(columns=file_kinds)) if file_kinds else None
        for kind in file_kinds:
            for body in _rows_of_kind(table, kind).to_pylist(maps_as_pydicts="strict"):
                yield kind, _without_nulls(body)


def _sidecar_file(body: Mapping[str, Any], main_file: str) -> str:
    """Return the file of a `sidecar` action, relative to the table's root; `main_file` contains the action."""
    path = body.get("path")
    if not isinstance(path, str) or not path.strip("/."):
        raise ValueError(f"{main_file} has a sidecar without a path")
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
    max_rows: int | None = None,
) -> Iterator[pa.Table]:
    for name in sources:
        with _as_corrupt_checkpoint(store, name):
            is_json = _is_json(name)
            for table in (
                _json_rows(store, name, cls, schema) if is_json else _parquet_rows(store, name, cls, schema, max_rows)
            ):
                if table["path"].null_count:
                    raise ValueError(f"it has {cls.action} actions without a path")
                yield table


def _json_rows(store: LogStore, name: str, cls: type[AddFile | RemoveFile], schema: pa.Schema) -> Iterator[pa.Table]:
    builder = FileTableBuilder(cls)
    for block_bytes, pairs in read_action_blocks(store, name):
        for kind, body in pairs:
            if kind == cls.action:
                builder.append(body)
        builder.end_block(name, block_bytes)
    yield builder.table().select(schema.names)


def _parquet_rows(
    store: LogStore, name: str, cls: type[AddFile | RemoveFile], schema: pa.Schema, max_rows: int | None
) -> Iterator[pa.Table]:
    """Yield the actions of one kind in a Parquet file, at most `max_rows` in a table; None means a single table."""
    kind = cls.action
    with _parquet(store, name) as file:
        if kind not in file.schema_arrow.names:
            return
        file_columns = [f.name for f in file.schema_arrow.field(kind).type]
        requested_columns = [c for c in file_columns if c in schema.names]
        has_parsed_stats = "stats" in schema.names and "stats_parsed" in file_columns and cls is AddFile
        with ExitStack() as open_files:
            parsed_stats = _ParsedStats(store, name, max_rows, open_files)
            # The read needs at least one column of the struct, to distinguish a struct from a null.
            columns = [f"{kind}.{c}" for c in requested_columns or file_columns[:1]]
            for number, block in enumerate(_row_blocks(file, columns, max_rows)):
                table = _with_strings(block)
                rows = _project(table, kind, schema)
                rows.validate(full=True)  # Arrow does not check the encoding of texts by itself
                is_absent = pc.is_null(table.column(kind))
                if has_parsed_stats and pc.any(pc.and_(pc.is_null(rows["stats"]), pc.invert(is_absent))).as_py():
                    texts = pc.coalesce(rows["stats"], parsed_stats.texts_of(number))
                    rows = rows.set_column(rows.schema.get_field_index("stats"), "stats", texts)
                yield without_rows(rows, is_absent)


def _row_blocks(file: pq.ParquetFile, columns: list[str], max_rows: int | None) -> Iterator[pa.Table]:
    """Yield the rows of a file as `_parquet_rows` does, with `columns`; nothing for a file without rows."""
    if not file.metadata.num_rows:
        return
    if max_rows is None:
        yield file.read(columns=columns)
        return
    for batch in file.iter_batches(max_rows, columns=columns):
        yield pa.Table.from_batches([batch])


class _ParsedStats:
    """Statistics texts from the column `add.stats_parsed` of a file, read on demand; `open_files` closes the file."""

    def __init__(self, store: LogStore, name: str, max_rows: int | None, open_files: ExitStack) -> None:
        self._file_context = _parquet(store, name, coerce_int96_timestamp_unit="us")
        self._open_files = open_files
        self._max_rows = max_rows
        self._blocks: Iterator[tuple[int, pa.Table]] | None = None
        self._utc_columns: set[str] = set()

    def texts_of(self, number: int) -> pa.ChunkedArray:
        """Return the texts for the block `number` of the file. Each call needs a greater number than the last call."""
        prefix = "add.stats_parsed"
        if self._blocks is None:
            file = self._open_files.enter_context(self._file_context)
            columns = [file.schema.column(i) for i in range(len(file.schema))]
            self._utc_columns = {c.path.removeprefix(f"{prefix}.") for c in columns if c.physical_type == "INT96"}
            self._blocks = enumerate(_row_blocks(file, [prefix], self._max_rows))
        block = next(block for block_number, block in self._blocks if block_number == number)
        return stats_texts(block.select(["add"]).flatten().column(prefix), self._utc_columns)


def _with_strings(table: pa.Table) -> pa.Table:
    """Convert other text types to strings, at every depth."""
    schema = pa.schema([field.with_type(_string_type(field.type)) for field in table.schema])
    return table if schema == table.schema else table.cast(schema)


def _string_type(data_type: pa.DataType) -> pa.DataType:
    if any(is_text(data_type) for is_text in _TEXT_TYPE_TESTS):
        return pa.string()
    if pa.types.is_struct(data_type):
        return pa.struct([field.with_type(_string_type(field.type)) for field in data_type])
    if pa.types.is_map(data_type):
        key_type, item_type = _string_type(data_type.key_type), _string_type(data_type.item_type)
        is_unchanged = (key_type, item_type) == (data_type.key_type, data_type.item_type)
        return data_type if is_unchanged else pa.map_(key_type, item_type)
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
    columns = {name.removeprefix(f"{kind}."): flat.column(name) for name in flat.column_names}
    arrays = [
        _cast(columns[f.name], f.type) if f.name in columns else pa.chunked_array([pa.nulls(flat.num_rows, f.type)])
        for f in schema
    ]
    return pa.table(arrays, schema=schema)


def _cast(column: pa.ChunkedArray, data_type: pa.DataType) -> pa.ChunkedArray:
    """Convert a column to the type that replay uses. Struct fields are matched by name, because their order varies."""
    if column.type == data_type:
        return column
    if pa.types.is_string(data_type) and not pa.types.is_null(column.type):  # Arrow would convert a number to text
        raise TypeError(f"a text column has the type {column.type}")
    if pa.types.is_struct(data_type):
        return pa.chunked_array([_cast_struct(chunk, data_type) for chunk in column.chunks], data_type)
    return column.cast(data_type)


def _cast_struct(chunk: pa.StructArray, data_type: pa.StructType) -> pa.StructArray:
    names = {f.name for f in chunk.type}
    children = [
        chunk.field(f.name).cast(f.type) if f.name in names else pa.nulls(len(chunk), f.type) for f in data_type
    ]
    return pa.StructArray.from_arrays(children, fields=list(data_type), mask=pc.is_null(chunk))


def _without_nulls(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a Parquet row as a JSON body, without null fields of structs at every depth."""
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
    """Convert the errors of a missing or malformed file to `CorruptCheckpointError`.

    Raises:
        CorruptCheckpointError: the file is missing or malformed.
        StorageError, StoragePermissionError: storage failed to answer, or denied access.
    """
    try:
        yield
    except CorruptLogError as error:
        raise _unreadable_error(store, name, error.problem.rstrip(".")) from error
    except OSError as error:
        if _is_storage_failure(error):
            raise log_storage_error(store, name, error) from error
        raise _unreadable_error(store, name, str(error)) from error
    except (pa.ArrowException, LookupError, ArithmeticError, ValueError, TypeError, AttributeError) as error:
        # A column may have an unexpected type: a text instead of a struct has no members, for example.
        raise _unreadable_error(store, name, str(error)) from error


def _is_storage_failure(error: OSError) -> bool:
    """Whether the operating system could not read an existing file. Arrow's errors for damaged data have no errno."""
    return error.errno is not None and not isinstance(error, FileNotFoundError | NotADirectoryError)


def _unreadable_error(store: LogStore, name: str, reason: str) -> CorruptCheckpointError:
    return CorruptCheckpointError(
        f"The checkpoint file {name} of {store.root} cannot be read: {reason}.",
        remedy="Delete the checkpoint if the commits before it are still there; otherwise restore it from a backup.",
    )

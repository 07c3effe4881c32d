"""Reads the actions of the log's JSON files (commits, compactions, JSON checkpoints) in blocks.

A large file is read in blocks of whole lines, so a commit of any size needs memory for one block and its longest line.
Adds and removes are converted to Arrow tables every few thousand actions, because Python objects need ten times as
much memory. An error about invalid JSON names the file and the line. Protocol: Delta Log Entries, Log Compaction Files,
V2 Spec.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from deltalite.errors import CorruptLogError, StorageError, StoragePermissionError, VersionGapError
from deltalite.log.file_table import ADD_TYPES, REMOVE_TYPES, table_of
from deltalite.log.parsed_stats import stats_of_json
from deltalite.protocol.actions import AddFile, RemoveFile, iter_raw_actions
from deltalite.storage.log_store import LogStore

_DECODER = json.JSONDecoder()
_BLOCK_BYTES = 1024 * 1024
_MAX_BODIES = 10_000
# An Arrow string array holds at most 2 GiB.
_LONGEST_LINE_BYTES = 1024 * 1024 * 1024
_FILE_TYPES: Mapping[type[AddFile | RemoveFile], Mapping[str, pa.DataType]] = {
    AddFile: ADD_TYPES,
    RemoveFile: REMOVE_TYPES,
}


def read_blocks(store: LogStore, name: str, size_bytes: int | None = None) -> Iterator[bytes]:
    """Yield the content of a file in blocks of whole lines; a file that is known to be small is one block.

    Raises:
        VersionGapError: the file does not exist.
        CorruptLogError: a line is too long for an action.
        StorageError, StoragePermissionError: storage failed to answer, or denied access.
    """
    if size_bytes is not None and size_bytes <= _BLOCK_BYTES:
        data = store.read(name)
        if data is None:
            raise _deletion_error(store, name)
        yield data
        return
    with open_log_file(store, name) as handle:
        yield from _blocks(handle, name)


@contextmanager
def open_log_file(store: LogStore, name: str) -> Iterator[pa.NativeFile]:
    """Open a log file. Storage errors in the `with` block become the errors that `read_blocks` raises."""
    try:
        with store.open(name) as handle:
            yield handle
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _deletion_error(store, name) from error
    except OSError as error:
        raise log_storage_error(store, name, error) from error


def log_storage_error(store: LogStore, name: str, error: OSError) -> StorageError:
    """Return the typed error for a log file that storage does not return."""
    if isinstance(error, PermissionError):
        return StoragePermissionError(
            f"No permission to read {name} of {store.root}: {error}.",
            remedy="Give the user that runs the task access to the table's folder.",
        )
    return StorageError(
        f"Could not read {name} of {store.root}: {error}.", remedy="Check the storage, then retry the task."
    )


def _blocks(handle: pa.NativeFile, name: str) -> Iterator[bytes]:
    partial_line: list[bytes] = []
    partial_line_bytes = 0
    while chunk := handle.read(_BLOCK_BYTES):
        end = chunk.rfind(b"\n") + 1
        if end:
            yield b"".join((*partial_line, chunk[:end]))
            partial_line, partial_line_bytes = [], 0
        partial_line.append(chunk[end:])
        partial_line_bytes += len(chunk) - end
        if partial_line_bytes > _LONGEST_LINE_BYTES:
            raise CorruptLogError(
                f"{name} has a line of more than {_LONGEST_LINE_BYTES} bytes, which is too long for an action.",
                remedy="Repair the log with the engine that wrote it.",
            )
    yield b"".join(partial_line)


def read_action_blocks(
    store: LogStore, name: str, size_bytes: int | None = None
) -> Iterator[tuple[int, list[tuple[str, dict[str, Any]]]]]:
    """Yield for each block of a file its size in bytes and its (kind, body) pairs, including unknown kinds.

    Raises:
        CorruptLogError: a line is not a JSON object, or is too long for an action.
        VersionGapError, StorageError, StoragePermissionError: as `read_blocks`.
    """
    for block_bytes, pairs in _parsed_blocks(read_blocks(store, name, size_bytes), name):
        yield block_bytes, list(pairs)


def read_actions(store: LogStore, name: str, size_bytes: int | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the (kind, body) pairs of a file, including unknown kinds.

    Raises:
        CorruptLogError, VersionGapError, StorageError, StoragePermissionError: see `read_action_blocks`. The lines
            before an invalid line have been yielded.
    """
    for _, pairs in _parsed_blocks(read_blocks(store, name, size_bytes), name):
        yield from pairs


def actions_in(data: bytes, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the (kind, body) pairs in the content of a file, including unknown kinds, parsed block by block.

    Raises:
        CorruptLogError: a line is not a JSON object, or is too long for an action. The lines before this line have been
            yielded.
    """
    for _, pairs in _parsed_blocks(_blocks(pa.BufferReader(data), name), name):
        yield from pairs


def _parsed_blocks(blocks: Iterable[bytes], name: str) -> Iterator[tuple[int, Iterable[tuple[str, dict[str, Any]]]]]:
    """Yield for each block its size in bytes and its (kind, body) pairs. The pairs may raise `CorruptLogError`."""
    first_line = 1
    for block in blocks:
        pairs = _parse_well_formed(block)
        yield len(block), iter_raw_actions(block, name, first_line=first_line) if pairs is None else pairs
        first_line += block.count(b"\n")


def _parse_well_formed(block: bytes) -> list[tuple[str, dict[str, Any]]] | None:
    """Return the (kind, body) pairs of a block, or None if a line may be malformed.

    This takes half the time of `iter_raw_actions`, which names the malformed line.
    """
    pairs: list[tuple[str, dict[str, Any]]] = []
    try:
        text = block.decode()
        line_start, length = 0, len(text)
        while line_start < length:
            actions, end = _DECODER.raw_decode(text, line_start)
            line_start = text.find("\n", line_start) + 1 or length + 1
            if end != line_start - 1 or type(actions) is not dict:
                return None
            for kind, body in actions.items():
                if type(body) is not dict:
                    return None
                pairs.append((kind, body))
    except (ValueError, RecursionError):
        return None
    return pairs


class FileTableBuilder:
    """A builder of one Arrow table from the bodies of adds or removes, with all columns of their kind.

    `append` adds one body. The caller calls `end_block` after each block of a file. The columns in `omitted_columns`
    are null.
    """

    def __init__(self, cls: type[AddFile | RemoveFile], *, omitted_columns: Sequence[str] = ()) -> None:
        self._cls = cls
        self._omitted_columns = frozenset(omitted_columns)
        self._types = _FILE_TYPES[cls]
        self._bodies: list[Mapping[str, Any]] = []
        self._sources: list[tuple[int, str]] = []
        self._read_bytes = 0
        self._tables: list[pa.Table] = []
        self.append = self._bodies.append

    def end_block(self, source: str, block_bytes: int) -> None:
        """Record that the bodies since the last call come from the file `source`. Flush many or large bodies.

        Raises:
            CorruptLogError: a body is malformed.
        """
        self._sources.append((len(self._bodies), source))
        self._read_bytes += block_bytes
        if len(self._bodies) >= _MAX_BODIES or self._read_bytes >= _BLOCK_BYTES:
            self.flush()

    def flush(self) -> None:
        """Convert the collected bodies to Arrow.

        Raises:
            CorruptLogError: a body is malformed; the message names its file.
        """
        if self._bodies:
            bodies = [self._body_to_convert(body) for body in self._bodies]
            try:
                self._tables.append(table_of(bodies, self._types, self._cls))
            except CorruptLogError:
                start = 0
                # The conversion of the malformed body raises an error that names the body's file.
                for end, source in self._sources:
                    table_of(bodies[start:end], self._types, self._cls, source)
                    start = end
                raise
        self._bodies.clear()
        self._sources.clear()
        self._read_bytes = 0

    def take(self) -> list[pa.Table]:
        """Return and release the tables that were converted to Arrow since the last call."""
        tables, self._tables = self._tables, []
        return tables

    def table(self) -> pa.Table:
        """Return the rows that `take` has not returned, in the order of their bodies.

        Raises:
            CorruptLogError: a body is malformed.
        """
        self.flush()
        return pa.concat_tables([pa.schema(list(self._types.items())).empty_table(), *self._tables])

    def _body_to_convert(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a body without the omitted columns.

        If none are omitted, a missing `stats` gets the text of `stats_parsed`.
        """
        if self._omitted_columns:
            return {key: value for key, value in body.items() if key not in self._omitted_columns}
        return _with_stats(body) if "stats_parsed" in body else body


def _with_stats(body: Mapping[str, Any]) -> Mapping[str, Any]:
    return body if body.get("stats") is not None else {**body, "stats": stats_of_json(body["stats_parsed"])}


def _deletion_error(store: LogStore, name: str) -> VersionGapError:
    return VersionGapError(f"{name} of {store.root} was deleted while it was read.", remedy="Read the table again.")

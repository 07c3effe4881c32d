"""Reads the actions of a commit in bounded memory, for long-running processes such as Airflow's triggerer.

`action_files` parses a whole line at once, and the JSON parser holds Python's global interpreter lock until the end of
the line. A line of 60 MB took a gigabyte of memory and stopped all other threads for seconds. This module reads a file
in small chunks. It parses a line of up to `WHOLE_LINE_BYTES` as a whole, and scans a longer line token by token. The
ends of the chunks may raise this limit to at most twice as much. The scanner holds one chunk and the short fields, and
releases the lock after each step. The use of a field in a commit's summary (`following.summarize`) determines how a
long value is treated:

- The summary needs the field: the read fails.
- The action requires the field, and the summary does not use it: an empty value of the same JSON type replaces the
  value.
- Otherwise the field is left out.

Protocol: Delta Log Entries, Actions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from enum import Enum
from typing import Any

import pyarrow as pa

from deltalite.errors import CorruptLogError
from deltalite.log.action_files import open_log_file
from deltalite.protocol.actions import (
    AddCDCFile,
    AddFile,
    CommitInfo,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
    iter_raw_actions,
)
from deltalite.storage.log_store import LogStore

WHOLE_LINE_BYTES = 64 * 1024
_CHUNK_BYTES = 64 * 1024
# Limits for a long line: the bytes of one field that a summary uses, and the bytes of all other kept fields together.
_LONGEST_NEEDED_BYTES = 256 * 1024
_MAX_OTHER_BYTES = 64 * 1024
_LONGEST_KEY_BYTES = 1024
_FILE_FIELDS = frozenset({"path", "size", "modificationTime", "dataChange", "partitionValues"})
_NEEDED: Mapping[str, frozenset[str]] = {
    AddFile.action: _FILE_FIELDS,
    RemoveFile.action: _FILE_FIELDS,
    AddCDCFile.action: _FILE_FIELDS,
    CommitInfo.action: frozenset({"operation", "timestamp"}),
    Metadata.action: frozenset({"id"}),
    SetTransaction.action: frozenset({"appId", "version"}),
    Protocol.action: frozenset({"minReaderVersion", "minWriterVersion"}),
}
# A summary or a commit time uses these fields unless they are too long. `_MAX_OTHER_BYTES` does not limit these fields.
_OPTIONAL: Mapping[str, frozenset[str]] = {CommitInfo.action: frozenset({"userMetadata", "inCommitTimestamp"})}
# An action requires these fields, and a summary does not use them. A value that is too long becomes empty.
_REQUIRED: Mapping[str, frozenset[str]] = {Metadata.action: frozenset({"schemaString", "partitionColumns"})}
# The empty value of a JSON type, by the first character of the JSON text.
_EMPTY: Mapping[bytes, Any] = {b'"': "", b"{": {}, b"[": []}
_IN_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_SCALAR = re.compile(rb'[^"{}\[\],:]++')
_STRING = rb'"(?:[^"\\]++|\\.)*+"'
_FLAT_MEMBERS = rb'(?:[^"{}\[\]]++|' + _STRING + rb")*+"
# Flat values (see `_Tokens`), which are skipped at once.
_SKIPPED = re.compile(
    rb'(?:[^"{}\[\]]++|' + _STRING + rb"|\[" + _FLAT_MEMBERS + rb"\]|\{" + _FLAT_MEMBERS + rb"\})*+", re.DOTALL
)
_REMEDY = "Restore the file from a backup, or repair the log with the engine that wrote it."


def read_bounded_actions(store: LogStore, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the (kind, body) pairs of a file, in order.

    A long line yields only the kinds in `_NEEDED`, without long values.

    Raises:
        VersionGapError: the file does not exist.
        CorruptLogError: a line is malformed, or a field that a summary needs is too long.
        StorageError, StoragePermissionError: storage failed to answer, or denied access.
    """
    with open_log_file(store, name) as handle:
        for number, line in enumerate(_lines(handle), 1):
            if isinstance(line, bytes):
                yield from iter_raw_actions(line, name, first_line=number)
            else:
                yield from _LongLine(line, f"line {number} of {name}").actions()


def _lines(handle: pa.NativeFile) -> Iterator[bytes | Iterator[bytes]]:
    """Yield the lines of a file: a short line as bytes, a long line as an iterator of its chunks.

    The caller reads these chunks before it asks for the next line.
    """
    partial_line = b""
    while chunk := handle.read(_CHUNK_BYTES):
        *complete_lines, partial_line = (partial_line + chunk).split(b"\n")
        yield from complete_lines
        if len(partial_line) > WHOLE_LINE_BYTES:
            partial_line = yield from _long_line(handle, partial_line)
    yield partial_line


def _long_line(handle: pa.NativeFile, start: bytes) -> Generator[Iterator[bytes], None, bytes]:
    """Yield one long line, which begins with `start`, as an iterator of its chunks.

    Returns the bytes after the line in the chunk that ends the line.
    """
    bytes_after_line = b""

    def chunks() -> Iterator[bytes]:
        nonlocal bytes_after_line
        yield start
        while chunk := handle.read(_CHUNK_BYTES):
            line_part, newline, bytes_after_line = chunk.partition(b"\n")
            yield line_part
            if newline:
                return

    line = chunks()
    yield line
    for _ in line:  # an error may have stopped the caller before the end of the line
        pass
    return bytes_after_line


class _TokenKind(Enum):
    """The kind of a JSON token.

    A string consists of an opening quote (`PUNCTUATION`), pieces and an `END`. A number, a boolean or a null consists
    of one or more `SCALAR` tokens.
    """

    PUNCTUATION = 1
    PIECE = 2
    END = 3
    SCALAR = 4


_Token = tuple[_TokenKind, bytes]


class _Tokens:
    """The tokens of a text that arrives in chunks.

    While `skips_flat_values` is set, the iterator leaves out flat values that one chunk holds whole. Flat values are
    strings, scalars, and lists and objects that contain only strings and scalars.
    """

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self.skips_flat_values = False
        self._chunks = chunks

    def __iter__(self) -> Iterator[_Token]:
        is_in_string, backslash = False, b""
        for chunk in self._chunks:
            data, start = backslash + chunk, 0
            backslash = b""
            while start < len(data):
                if is_in_string:
                    end = _match_end(_IN_STRING, data, start)
                    if end > start:
                        yield _TokenKind.PIECE, data[start:end]
                    if end == len(data):
                        break
                    if data[end : end + 1] == b"\\":  # the character after the backslash is in the next chunk
                        backslash = data[end:]
                        break
                    yield _TokenKind.END, b'"'
                    is_in_string, start = False, end + 1
                    continue
                end = _match_end(_SKIPPED if self.skips_flat_values else _SCALAR, data, start)
                if end > start:
                    if not self.skips_flat_values and (text := data[start:end].strip()):
                        yield _TokenKind.SCALAR, text
                    start = end
                    continue
                yield _TokenKind.PUNCTUATION, data[start : start + 1]
                is_in_string = data[start : start + 1] == b'"'
                start += 1


def _match_end(pattern: re.Pattern[bytes], data: bytes, start: int) -> int:
    """Return where a match of the pattern at `start` ends, or `start` without a match."""
    match = pattern.match(data, start)
    return start if match is None else match.end()


class _LongLine:
    """One long line of a log: `{"<kind>": {"<field>": <value>, ...}}`, scanned token by token."""

    def __init__(self, chunks: Iterable[bytes], source: str) -> None:
        self._source = source
        self._unread: list[_Token] = []
        self._tokens = _Tokens(chunks)
        self._remaining_tokens = iter(self._tokens)
        self._other_bytes = 0

    def actions(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the actions of the kinds in `_NEEDED`, without their long values."""
        kind, text = self._next_token()
        if (kind, text.removeprefix(b"\xef\xbb\xbf")) == (_TokenKind.SCALAR, b""):  # a byte order mark
            kind, text = self._next_token()
        if (kind, text) != (_TokenKind.PUNCTUATION, b"{"):
            raise self._parse_error("it is not an object")
        for action in self._read_keys():
            first_token = self._next_token()
            if action not in _NEEDED:
                self._read_value(first_token, 0)
            elif first_token == (_TokenKind.PUNCTUATION, b"{"):
                yield action, self._read_body(action)
            elif self._read_value(first_token, len(b"null")) != b"null":
                raise CorruptLogError(f"The {action} in {self._source} is not an object.", remedy=_REMEDY)
        if next(self._remaining_tokens, None) is not None:
            raise self._parse_error("there is text after the object")

    def _read_body(self, action: str) -> dict[str, Any]:
        """Read the body of an action after its opening brace, without the long values that no summary needs."""
        body: dict[str, Any] = {}
        for field in self._read_keys():
            first_token = self._next_token()
            is_needed = field in _NEEDED[action]
            is_unused = not is_needed and field not in _OPTIONAL.get(action, ())
            limit = _MAX_OTHER_BYTES - self._other_bytes if is_unused else _LONGEST_NEEDED_BYTES
            raw_value = self._read_value(first_token, limit)
            if raw_value is not None:
                self._other_bytes += len(raw_value) + len(field) if is_unused else 0
                body[field] = self._parse(raw_value)
            elif is_needed:
                raise CorruptLogError(
                    f"The `{field}` of the {action} in {self._source} has more than {_LONGEST_NEEDED_BYTES} bytes, "
                    "the limit of a bounded read.",
                    remedy=_REMEDY,
                )
            elif first_token[1] in _EMPTY and field in _REQUIRED.get(action, ()):
                body[field] = _EMPTY[first_token[1]]
        return body

    def _read_keys(self) -> Iterator[str]:
        """Yield the keys of an object after its opening brace; the caller reads each value before the next key."""
        separator = b"{"
        while True:
            token = self._next_token()
            if token == (_TokenKind.PUNCTUATION, b"}") and separator == b"{":
                return
            if token != (_TokenKind.PUNCTUATION, b'"'):
                raise self._parse_error("a key is missing")
            raw_key = self._read_value(token, _LONGEST_KEY_BYTES)
            if raw_key is None:
                raise self._parse_error(f"a key has more than {_LONGEST_KEY_BYTES} bytes")
            if self._next_token() != (_TokenKind.PUNCTUATION, b":"):
                raise self._parse_error("a colon is missing")
            yield str(self._parse(raw_key))
            kind, separator = self._next_token()
            if kind is _TokenKind.PUNCTUATION and separator == b"}":
                return
            if (kind, separator) != (_TokenKind.PUNCTUATION, b","):
                raise self._parse_error("a comma is missing")

    def _read_value(self, first_token: _Token, limit: int) -> bytes | None:
        """Read one value to its end. Return its text, or None if the value has more than `limit` bytes."""
        pieces, size = [first_token[1]], len(first_token[1])

        def keep(text: bytes) -> None:
            nonlocal size
            size += len(text)
            if size <= limit:
                pieces.append(text)
            else:
                pieces.clear()

        match first_token:
            case (_TokenKind.SCALAR, _):
                while (token := self._next_token())[0] is _TokenKind.SCALAR:
                    keep(token[1])
                self._unread.append(token)
            case (_TokenKind.PUNCTUATION, b'"'):
                self._read_string(keep)
            case (_TokenKind.PUNCTUATION, b"{" | b"["):
                depth = 1
                while depth:
                    self._tokens.skips_flat_values = size > limit
                    kind, text = self._next_token()
                    keep(text)
                    if kind is _TokenKind.PUNCTUATION:
                        depth += (text in b"{[") - (text in b"}]")
                        if text == b'"':
                            self._read_string(keep)
                self._tokens.skips_flat_values = False
            case _:
                raise self._parse_error("a value is missing")
        return b"".join(pieces) if size <= limit else None

    def _read_string(self, keep: Callable[[bytes], None]) -> None:
        """Read the tokens of a string after its opening quote, and call `keep` with the text of each."""
        while True:
            kind, text = self._next_token()
            keep(text)
            if kind is _TokenKind.END:
                return

    def _next_token(self) -> _Token:
        token = self._unread.pop() if self._unread else next(self._remaining_tokens, None)
        if token is None:
            raise self._parse_error("the line is incomplete")
        return token

    def _parse(self, raw_value: bytes) -> Any:
        try:
            return json.loads(raw_value.decode())
        except (ValueError, RecursionError) as error:
            raise self._parse_error(str(error)) from error

    def _parse_error(self, problem: str) -> CorruptLogError:
        return CorruptLogError(f"The JSON in {self._source} is malformed: {problem}.", remedy=_REMEDY)

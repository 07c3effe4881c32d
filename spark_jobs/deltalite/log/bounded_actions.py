"""The actions of a commit, read in bounded memory for a process that serves others, such as Airflow's triggerer.

`action_files` holds a whole line and gives it to the JSON parser, which keeps Python's interpreter lock until the end
of the line. A line of 60 MB took a gigabyte and stopped all other threads for seconds. This module reads a file in
small chunks. It parses a line of up to `WHOLE_LINE_BYTES` as a whole, and scans a longer line token by token. The
scanner keeps the fields that a summary needs and every other short field; a long value becomes an empty one of its
type. The scanner holds one chunk and the kept fields, and releases the lock after each step. Protocol: Delta Log
Entries, Actions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterable, Iterator, Mapping
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
# Limits for a long line: the bytes of one field that a summary needs, and of all other kept fields together.
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
# Fields that a summary uses unless they are too long; they do not count towards the other kept fields.
_OPTIONAL: Mapping[str, frozenset[str]] = {CommitInfo.action: frozenset({"userMetadata", "inCommitTimestamp"})}
# Fields that an action requires and a summary does not use; a value that is too long becomes empty.
_REQUIRED: Mapping[str, frozenset[str]] = {Metadata.action: frozenset({"schemaString", "partitionColumns"})}
_EMPTY: Mapping[bytes, Any] = {b'"': "", b"{": {}, b"[": []}
_IN_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_SCALAR = re.compile(rb'[^"{}\[\],:]++')
_STRING = rb'"(?:[^"\\]++|\\.)*+"'
_FLAT_TEXT = rb'(?:[^"{}\[\]]++|' + _STRING + rb")*+"
# The parts of a skipped value: texts, scalars, and lists and objects without nested ones.
_FLAT = re.compile(
    rb'(?:[^"{}\[\]]++|' + _STRING + rb"|\[" + _FLAT_TEXT + rb"\]|\{" + _FLAT_TEXT + rb"\})*+", re.DOTALL
)
_REMEDY = "Restore the file from a backup, or repair the log with the engine that wrote it."


def read_bounded_actions(store: LogStore, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the (kind, body) pairs of a file, in order. A long line yields only known kinds, without long values.

    Raises:
        VersionGapError: the file does not exist.
        CorruptLogError: a line is not a JSON object, or a field that a summary needs is too long.
        StorageError, StoragePermissionError: storage failed to answer, or denied access.
    """
    with open_log_file(store, name) as handle:
        for number, line in enumerate(_lines(handle), 1):
            if isinstance(line, bytes):
                yield from iter_raw_actions(line, name, first_line=number)
            else:
                yield from _LongLine(line, f"Line {number} of {name}").actions()


def _lines(handle: pa.NativeFile) -> Iterator[bytes | Iterator[bytes]]:
    """Yield the lines of a file; a long line as its chunks, which the caller reads before the next line."""
    rest = b""
    while chunk := handle.read(_CHUNK_BYTES):
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole
        if len(rest) > WHOLE_LINE_BYTES:
            rest = yield from _long_line(handle, rest)
    yield rest


def _long_line(handle: pa.NativeFile, start: bytes) -> Generator[Iterator[bytes], None, bytes]:
    """Yield one long line that begins with `start`; returns the bytes that were read after its end."""
    rest = b""

    def chunks() -> Iterator[bytes]:
        nonlocal rest
        yield start
        while chunk := handle.read(_CHUNK_BYTES):
            end, newline, rest = chunk.partition(b"\n")
            yield end
            if newline:
                return

    line = chunks()
    yield line
    for _ in line:  # the rest, if an error stopped the caller
        pass
    return rest


class _Kind(Enum):
    """The kind of a JSON token. A string consists of pieces and an end, a scalar of one or more pieces."""

    PUNCTUATION = 1
    PIECE = 2
    END = 3
    SCALAR = 4


_Token = tuple[_Kind, bytes]


class _Tokens:
    """The tokens of a text that arrives in chunks. While `skips` is set, values without nested ones are left out."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self.skips = False
        self._chunks = chunks

    def __iter__(self) -> Iterator[_Token]:
        in_string, carried = False, b""
        for chunk in self._chunks:
            data, at = carried + chunk, 0
            carried = b""
            while at < len(data):
                if in_string:
                    end = _end_of(_IN_STRING, data, at)
                    if end > at:
                        yield _Kind.PIECE, data[at:end]
                    if end == len(data):
                        break
                    if data[end : end + 1] == b"\\":  # its second character is in the next chunk
                        carried = data[end:]
                        break
                    yield _Kind.END, b'"'
                    in_string, at = False, end + 1
                    continue
                end = _end_of(_FLAT if self.skips else _SCALAR, data, at)
                if end > at:
                    if not self.skips and (text := data[at:end].strip()):
                        yield _Kind.SCALAR, text
                    at = end
                    continue
                yield _Kind.PUNCTUATION, data[at : at + 1]
                in_string = data[at : at + 1] == b'"'
                at += 1


def _end_of(pattern: re.Pattern[bytes], data: bytes, at: int) -> int:
    matched = pattern.match(data, at)
    return at if matched is None else matched.end()


class _LongLine:
    """One long line of a log: `{"<kind>": {"<field>": <value>, ...}}`, scanned token by token."""

    def __init__(self, chunks: Iterable[bytes], source: str) -> None:
        self._source = source
        self._unread: list[_Token] = []
        self._tokens = _Tokens(chunks)
        self._remaining_tokens = iter(self._tokens)
        self._other_bytes = 0

    def actions(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the actions of known kinds, without their long values."""
        kind, text = self._next()
        if (kind, text.removeprefix(b"\xef\xbb\xbf")) == (_Kind.SCALAR, b""):
            kind, text = self._next()
        if (kind, text) != (_Kind.PUNCTUATION, b"{"):
            raise self._malformed("it is not an object")
        for action in self._keys():
            first = self._next()
            if action not in _NEEDED:
                self._value(first, 0)
            elif first == (_Kind.PUNCTUATION, b"{"):
                yield action, self._body(action)
            elif self._value(first, len(b"null")) != b"null":
                raise CorruptLogError(f"The {action} in {self._source} is not an object.", remedy=_REMEDY)
        if next(self._remaining_tokens, None) is not None:
            raise self._malformed("there is text after the object")

    def _body(self, action: str) -> dict[str, Any]:
        body: dict[str, Any] = {}
        for field in self._keys():
            first = self._next()
            is_needed = field in _NEEDED[action]
            is_other = not is_needed and field not in _OPTIONAL.get(action, ())
            raw = self._value(first, _MAX_OTHER_BYTES - self._other_bytes if is_other else _LONGEST_NEEDED_BYTES)
            if raw is not None:
                self._other_bytes += len(raw) + len(field) if is_other else 0
                body[field] = self._parsed(raw)
            elif is_needed:
                raise CorruptLogError(
                    f"The `{field}` of the {action} in {self._source} has more than {_LONGEST_NEEDED_BYTES} bytes, "
                    "the limit of a bounded read.",
                    remedy=_REMEDY,
                )
            elif first[1] in _EMPTY and field in _REQUIRED.get(action, ()):
                body[field] = _EMPTY[first[1]]
        return body

    def _keys(self) -> Iterator[str]:
        """Yield the keys of an object after its opening brace; the caller reads each value before the next key."""
        separator = b"{"
        while True:
            token = self._next()
            if token == (_Kind.PUNCTUATION, b"}") and separator == b"{":
                return
            if token != (_Kind.PUNCTUATION, b'"'):
                raise self._malformed("a key is missing")
            raw = self._value(token, _LONGEST_KEY_BYTES)
            if raw is None:
                raise self._malformed(f"a key has more than {_LONGEST_KEY_BYTES} bytes")
            if self._next() != (_Kind.PUNCTUATION, b":"):
                raise self._malformed("a colon is missing")
            yield str(self._parsed(raw))
            kind, separator = self._next()
            if kind is _Kind.PUNCTUATION and separator == b"}":
                return
            if (kind, separator) != (_Kind.PUNCTUATION, b","):
                raise self._malformed("a comma is missing")

    def _value(self, first: _Token, limit: int) -> bytes | None:
        """Read one value to its end; return its text, or None if it has more than `limit` bytes."""
        pieces, size = [first[1]], len(first[1])

        def keep(text: bytes) -> None:
            nonlocal size
            size += len(text)
            if size <= limit:
                pieces.append(text)
            else:
                pieces.clear()

        match first:
            case (_Kind.SCALAR, _):
                while (token := self._next())[0] is _Kind.SCALAR:
                    keep(token[1])
                self._unread.append(token)
            case (_Kind.PUNCTUATION, b'"'):
                self._string(keep)
            case (_Kind.PUNCTUATION, b"{" | b"["):
                depth = 1
                while depth:
                    self._tokens.skips = size > limit
                    kind, text = self._next()
                    keep(text)
                    if kind is _Kind.PUNCTUATION:
                        depth += (text in b"{[") - (text in b"}]")
                        if text == b'"':
                            self._string(keep)
                self._tokens.skips = False
            case _:
                raise self._malformed("a value is missing")
        return b"".join(pieces) if size <= limit else None

    def _string(self, keep: Any) -> None:
        while True:
            kind, text = self._next()
            keep(text)
            if kind is _Kind.END:
                return

    def _next(self) -> _Token:
        token = self._unread.pop() if self._unread else next(self._remaining_tokens, None)
        if token is None:
            raise self._malformed("the line is incomplete")
        return token

    def _parsed(self, raw: bytes) -> Any:
        try:
            return json.loads(raw.decode())
        except (ValueError, RecursionError) as error:
            raise self._malformed(str(error)) from error

    def _malformed(self, problem: str) -> CorruptLogError:
        return CorruptLogError(f"{self._source} is not JSON: {problem}.", remedy=_REMEDY)

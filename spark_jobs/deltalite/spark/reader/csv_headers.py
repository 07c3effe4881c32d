"""The header of a CSV file, with the rules of Spark's reader: comments, empty lines, and names that are not unique."""

from __future__ import annotations

import bz2
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from deltalite.errors import InvalidRequestError, SourceError, SourceNotFoundError
from deltalite.spark.reader.csv_fields import CsvDialect, OpenQuoteError
from deltalite.spark.reader.unreadable_file_error import UnreadableFileError

if TYPE_CHECKING:
    from deltalite.storage.log_store import LogStore

_FIRST_BYTES, _MAX_BYTES = 64 * 1024, 16 * 1024 * 1024
_GZIP_WINDOW_BITS = 31
_UNREAD_COMPRESSIONS = (".zst", ".lz4", ".snappy")
_REPLACE = "Replace the file, or leave it out with `pattern`, `file_names` or `quarantine`."
_TRUE = "true"


class CsvHeaderReader:
    """Reads headers with the options of a CSV source. The names of the options are case-insensitive."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = {name.lower(): value for name, value in options.items()}
        self._dialect = CsvDialect.of(self._options)

    @property
    def has_header(self) -> bool:
        """Whether the first line of each file names the columns."""
        return self._options.get("header", "false").lower() == _TRUE

    def can_read(self, name: str) -> bool:
        """Whether this class can decompress the file. The end of its name shows the compression."""
        return not name.endswith(_UNREAD_COMPRESSIONS)

    def read(self, store: LogStore, name: str) -> tuple[str, ...] | None:
        """Return the names of the columns of a file, or None if the file has no line.

        Raises:
            SourceNotFoundError: the file no longer exists.
            SourceError: the header is longer than 16 MiB, or cannot be decompressed or decoded. With the option
                `multiLine`, also a header whose first line ends inside quotes.
            InvalidRequestError: the encoding is unknown.
            StorageError: the storage does not answer.
        """
        line = self._header_line(store, name)
        if not line:
            return None
        has_multi_line = self._options.get("multiline", "false").lower() == _TRUE
        try:
            return _safe_names(self._dialect.fields(line, may_end_in_quotes=not has_multi_line))
        except OpenQuoteError as error:
            raise UnreadableFileError(
                f"The header of {name} has a name with a line break, or a quote that is not closed.",
                remedy="Change the name in the file, or read the file without `header` and with a `schema`.",
            ) from error

    def _header_line(self, store: LogStore, name: str) -> str:
        """Return the first line of a file that is neither empty nor a comment, or ""; see `read` for errors."""
        size_bytes = _FIRST_BYTES
        while True:
            data = store.read_start(name, size_bytes)
            if data is None:
                raise SourceNotFoundError(
                    f"The file {name} no longer exists.", remedy="Run the task again if the file was replaced."
                )
            is_whole = len(data) < size_bytes
            content = _decompressed(name, data, is_whole=is_whole)
            line = self._first_line(self._text(content, "replace"), is_whole=is_whole)
            if line is not None and line != self._first_line(self._text(content, "ignore"), is_whole=is_whole):
                raise UnreadableFileError(
                    f"The header of {name} is not text in the encoding {self._encoding}.",
                    remedy="Set the option `encoding` of the source.",
                )
            is_too_long = size_bytes >= _MAX_BYTES if line is None else len(line) > _MAX_BYTES
            if is_too_long:
                raise UnreadableFileError(
                    f"The header of {name} is longer than 16 MiB.", remedy="Check that the file is a CSV file."
                )
            if line is not None:
                return line
            size_bytes *= 16

    @property
    def _encoding(self) -> str:
        return self._options.get("encoding", self._options.get("charset", "utf-8"))

    def _text(self, data: bytes, errors: str) -> str:
        """Return the text of the data. Bytes that are not text become U+FFFD ("replace") or are left out ("ignore")."""
        try:
            text = data.decode(self._encoding, errors)
        except LookupError as error:
            raise InvalidRequestError(
                f"The source has the unknown encoding {self._encoding!r}.", remedy="Correct the option."
            ) from error
        return text.removeprefix("\ufeff")

    def _first_line(self, text: str, *, is_whole: bool) -> str | None:
        """Return the first line that is neither empty nor a comment; "" without one, None if the text is too short."""
        separator = self._options.get("linesep")
        lines = text.split(separator) if separator else text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        comment = self._options.get("comment")
        for number, line in enumerate(lines):
            if line.strip() and not (comment and line.startswith(comment)):
                return line if is_whole or number < len(lines) - 1 else None
        return "" if is_whole else None


def _safe_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names as Spark's reader names the columns: an empty or a repeated name gets its position."""
    name_counts = Counter(name.strip().lower() for name in names)
    return tuple(
        f"_c{n}"
        if not name.strip()
        else f"{name.strip()}{n}"
        if name_counts[name.strip().lower()] > 1
        else name.strip()
        for n, name in enumerate(names)
    )


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /) -> bytes: ...


def _decompressed(name: str, data: bytes, *, is_whole: bool) -> bytes:
    """Return the start of the content of a file. The end of its name shows whether it is compressed.

    Raises:
        UnreadableFileError: the data is damaged, or is all data of the file (`is_whole`) and ends too early.
        SourceError: the library cannot decompress the format.
    """
    if name.endswith(_UNREAD_COMPRESSIONS):
        raise SourceError(
            f"The header of {name} cannot be read, because of its compression.",
            remedy="Compress CSV files with gzip or bzip2, or give `schema` in the source.",
        )
    new_decompressor = _new_decompressor(name)
    if new_decompressor is None:
        return data
    try:
        content, is_complete = _members(data, new_decompressor)
    except (zlib.error, OSError) as error:
        raise UnreadableFileError(f"The file {name} cannot be decompressed: {error}.", remedy=_REPLACE) from error
    if is_whole and not is_complete:
        raise UnreadableFileError(f"The end of the compressed file {name} is missing.", remedy=_REPLACE)
    return content


def _new_decompressor(name: str) -> Callable[[], _Decompressor] | None:
    """Return the constructor of the decompressor by the end of a name, None for a file that is not compressed."""
    if name.endswith(".gz"):
        return lambda: zlib.decompressobj(_GZIP_WINDOW_BITS)
    if name.endswith(".deflate"):
        return zlib.decompressobj
    return bz2.BZ2Decompressor if name.endswith(".bz2") else None


def _members(data: bytes, new_decompressor: Callable[[], _Decompressor]) -> tuple[bytes, bool]:
    """Return the content of all members of a compressed file, and whether the last one is complete."""
    content, is_complete = b"", True
    while data:
        decompressor = new_decompressor()
        content += decompressor.decompress(data)
        is_complete = decompressor.eof
        data = decompressor.unused_data.lstrip(b"\0")  # zeros may fill the end of a file
    return content, is_complete

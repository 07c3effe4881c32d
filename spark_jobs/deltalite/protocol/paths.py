"""How files are named in the log: relative or absolute, percent-encoded.

A path in the log is a URI reference (RFC 2396), so the file `day=2026-01-01/a b%20.parquet` stands there as
`day=2026-01-01/a%20b%2520.parquet`. Partition values are escaped a first time when they become a directory's name, as
Hive and Spark do, and the directory's name is encoded a second time here. Protocol: Add File and Remove File.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import quote, unquote

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
# What Spark's ExternalCatalogUtils.escapePathName escapes: control characters and these.
_HIVE_ESCAPED = frozenset("\"#%'*/:=?\\\x7f{[]^") | {chr(c) for c in range(1, 0x20)}
# What java.net.URI leaves alone in a path, beside letters and digits.
_URI_SAFE = "/-_.!~*'():@&=+$,;"


def encode_path(path: str) -> str:
    """The form in the log of a path relative to the table's root."""
    return quote(path, safe=_URI_SAFE)


def decode_path(path: str) -> str:
    """The file's real name from its form in the log."""
    return unquote(path) if "%" in path else path


def canonical_path(path: str) -> str:
    """One spelling for each file: decoded, and `file:/x`, `file:///x` and `/x` alike."""
    decoded = decode_path(path)
    return "/" + decoded.removeprefix("file:").lstrip("/") if decoded.startswith("file:/") else decoded


def is_absolute(path: str) -> bool:
    """Whether a (decoded) path of the log names a place of its own instead of one below the table."""
    return path.startswith(("/", "file:/")) or "://" in path


def escape_partition_value(value: str | None) -> str:
    """A partition value as part of a directory's name. Null and the empty string share one name."""
    if value is None or value == "":
        return HIVE_NULL
    return "".join(f"%{ord(c):02X}" if c in _HIVE_ESCAPED else c for c in value)


def unescape_partition_value(text: str) -> str | None:
    """The inverse of `escape_partition_value`, for a segment of a directory's name."""
    return None if text == HIVE_NULL else unquote(text)


def partition_dir(columns: Sequence[str], values: Mapping[str, str | None]) -> str:
    """The conventional directory of a partition, such as `day=2026-01-01/country=de`; empty without columns."""
    return "/".join(f"{escape_partition_value(c)}={escape_partition_value(values[c])}" for c in columns)


def partition_values_of_dir(directory: str) -> dict[str, str | None]:
    """The column names and values that a directory such as `day=2026-01-01/country=de` spells."""
    segments = (segment.split("=", 1) for segment in directory.split("/") if segment)
    return {unquote(column): unescape_partition_value(value) for column, value in segments}

"""How files are named in the log: relative or absolute, percent-encoded.

A path in the log is a URI reference (RFC 2396), so the file `day=2026-01-01/a b%20.parquet` stands there as
`day=2026-01-01/a%20b%2520.parquet`. Partition values are escaped a first time when they become a directory's name, as
Hive and Spark do, and the directory's name is encoded a second time here. Protocol: Add File and Remove File.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote, unquote

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
# What java.net.URI leaves alone in a path, beside letters and digits.
_URI_SAFE = "/-_.!~*'():@&=+$,;"
# What Hive and Spark escape in the names of partition directories (Spark: ExternalCatalogUtils.charToEscape).
HIVE_ESCAPED = re.compile(r"""[\x01-\x1f\x7f"#%'*/:=?\\{\[\]^]""")
"""Each becomes three characters. Java reads the pattern as Python does."""


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


def partition_dir(values: Mapping[str, str | None]) -> str:
    """The directory that Hive and Spark give rows with these partition values, in order: `day=2026-01-01/country=de`.

    Without any values it is the empty string. Null and the empty string share one name.
    """
    return "/".join(f"{_hive_escaped(column)}={_hive_escaped(text or HIVE_NULL)}" for column, text in values.items())


def _hive_escaped(text: str) -> str:
    return HIVE_ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text)


def partition_values_of_dir(directory: str) -> dict[str, str | None]:
    """The column names and values that a directory such as `day=2026-01-01/country=de` spells, as Spark names it.

    Null and the empty string share one name there, and are null.
    """
    segments = (segment.split("=", 1) for segment in directory.split("/") if segment)
    return {unquote(column): None if value == HIVE_NULL else unquote(value) for column, value in segments}

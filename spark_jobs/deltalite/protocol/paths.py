"""How files are named in the log: relative or absolute, percent-encoded.

A path in the log is a URI reference (RFC 2396), so the file `day=2026-01-01/a b%20.parquet` stands there as
`day=2026-01-01/a%20b%2520.parquet`. Partition values are escaped a first time when they become a directory's name, as
Hive and Spark do, and the directory's name is encoded a second time here. Engines on Hadoop normalise a path before
they use it or write it back, so `d//x`, `./d/x` and `e/../d/x` name the file `d/x`. Decoding therefore normalises
first, as Hadoop's `Path(URI)` does. Protocol: Add File and Remove File.
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
PLACE = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:(?=/)(?://[^/]*)?|//[^/]+)?")
"""The scheme and the authority of a path, or nothing; what follows them is normalised."""
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
"""What makes Java read a relative path as an absolute one."""
NO_AUTHORITY = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):///")
"""A scheme with an empty authority, which means what no authority means."""
_THIS_HOST = "file://localhost/"
"""A local path with the one host that it can have."""
NOT_CANONICAL = r"%|^file:|^//|[^:]//|(^|/)\.\.?(/|$)|^([^A-Za-z].*)?://|[^A-Za-z0-9+.-].*://"
"""Matches each path that differs from its canonical spelling, and few others. RE2 and Java read it as Python does."""


def encode_path(path: str) -> str:
    """The form in the log of a path relative to the table's root."""
    return quote(path, safe=_URI_SAFE)


def decode_path(path: str) -> str:
    """The file's real name from its form in the log: normalised, then decoded."""
    return _decoded(_normalised(path))


def _decoded(path: str) -> str:
    return unquote(path) if "%" in path else path


def _normalised(path: str) -> str:
    """The path without empty segments, `.` and resolvable `..`, by the rules of `java.net.URI.normalize`.

    Percent-encoded characters are not looked into. A `..` that leads out of the path stays, and so does a slash at the
    end. A relative path never becomes an absolute one.
    """
    if path.startswith(_THIS_HOST):
        path = "file://" + path.removeprefix(_THIS_HOST[:-1])
    if not ("//" in path or "/." in path or path.startswith(".")):
        return path
    place = PLACE.match(path)
    begin = "" if place is None else place[0]
    rest = path[len(begin) :]
    segments, ends_open = list[str](), False
    for segment in rest.split("/"):
        ends_open = segment in ("", ".", "..")
        if segment == ".." and (not segments or segments[-1] == ".."):
            segments.append(segment)
            ends_open = False
        elif segment == "..":
            segments.pop()
        elif not ends_open:
            segments.append(segment)
    normal = "/".join(segments) + ("/" if ends_open and segments else "")
    if rest.startswith("/"):
        return f"{begin}/{normal}"
    return f"./{normal}" if SCHEME.match(normal) and not SCHEME.match(path) else begin + normal


def is_plain(path: str) -> bool:
    """Whether a path of the log surely is its own canonical spelling; this asks no more than a fast test can tell."""
    return not ("%" in path or "//" in path or "/." in path or path.startswith((".", "file:")))


def canonical_path(path: str) -> str:
    """One spelling for each file: normalised, decoded, and `file:/x`, `file:///x` and `/x` alike."""
    normal = _normalised(path)
    if normal.startswith("file:/"):
        normal = "/" + normal.removeprefix("file:").lstrip("/")
    elif ":///" in normal:
        normal = NO_AUTHORITY.sub(r"\1:/", normal)
    return _decoded(normal)


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

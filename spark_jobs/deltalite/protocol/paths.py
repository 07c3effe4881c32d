"""The paths of files in the log: relative or absolute, percent-encoded.

A path in the log is a URI reference (RFC 2396), so the log names the file `day=2026-01-01/a b%20.parquet` as
`day=2026-01-01/a%20b%2520.parquet`. Partition values are escaped twice: once for the name of the directory, as in Hive
and Spark, and again as a part of the path. Engines on Hadoop normalise a path before they use it or write it back, so
`d//x`, `./d/x` and `e/../d/x` name the file `d/x`. `decode_path` therefore normalises a path before it decodes it, as
Hadoop's `Path(URI)` does. Protocol: Add File and Remove File.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from urllib.parse import quote, unquote

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
# The characters that java.net.URI does not encode in a path, in addition to letters and digits.
_URI_SAFE = "/-_.!~*'():@&=+$,;"
# The characters that Hive and Spark escape in partition directories (Spark: ExternalCatalogUtils.charToEscape).
HIVE_ESCAPED = re.compile(r"""[\x01-\x1f\x7f"#%'*/:=?\\{\[\]^]""")
"""Each of these characters becomes three, such as `%3A`. The pattern has the same meaning in Java and in Python."""
SCHEME_AND_AUTHORITY = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:(?=/)(?://[^/]*)?|//[^/]+)?")
"""The scheme and the authority of a path, or nothing; only the rest of the path is normalised."""
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
"""A scheme at the start of a path. Java would parse a relative path with this start as absolute."""
NO_AUTHORITY = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):///")
"""A scheme with an empty authority, which is equivalent to no authority."""
THIS_HOST = "file://localhost/"
"""The start of a local path with the only valid host, which is equivalent to `file:///`."""
NOT_CANONICAL = r"%|^file:|^//|[^:]//|(^|/)\.\.?(/|$)|^([^A-Za-z].*)?://|[^A-Za-z0-9+.-].*://"
"""Matches each path that is not canonical, and few canonical paths. RE2, Java and Python match the same paths."""


def encode_path(path: str) -> str:
    """Encode a path relative to the table's root for the log."""
    return quote(path, safe=_URI_SAFE)


def decode_path(path: str) -> str:
    """Return the name of a file in storage from its path in the log. The path is normalised, then decoded."""
    return _decode(_normalise(path))


def _decode(path: str) -> str:
    return unquote(path) if "%" in path else path


def _normalise(path: str) -> str:
    """Remove empty segments, `.` and resolvable `..` from a path, by the rules of `java.net.URI.normalize`.

    Percent-encoded characters are not decoded. A `..` that leads out of the path stays, and so does a slash at the end.
    A relative path never becomes absolute.
    """
    if path.startswith(THIS_HOST):
        path = "file:///" + path.removeprefix(THIS_HOST)
    if not ("//" in path or "/." in path or path.startswith(".")):
        return path
    match = SCHEME_AND_AUTHORITY.match(path)
    prefix = "" if match is None else match[0]
    path_part = path[len(prefix) :]
    segments, ends_with_slash = list[str](), False
    for segment in path_part.split("/"):
        ends_with_slash = segment in ("", ".", "..")
        if segment == ".." and (not segments or segments[-1] == ".."):
            segments.append(segment)
            ends_with_slash = False
        elif segment == "..":
            segments.pop()
        elif not ends_with_slash:
            segments.append(segment)
    normal_part = "/".join(segments) + ("/" if ends_with_slash and segments else "")
    if path_part.startswith("/"):
        return f"{prefix}/{normal_part}"
    return f"./{normal_part}" if SCHEME.match(normal_part) and not SCHEME.match(path) else prefix + normal_part


def is_certainly_canonical(path: str) -> bool:
    """Whether a fast test shows that a path of the log is canonical; it may be False for a canonical path."""
    return not ("%" in path or "//" in path or "/." in path or path.startswith((".", "file:")))


def canonical_path(path: str) -> str:
    """Return the canonical spelling of a path: normalised, decoded, and `/x` for `file:/x` and `file:///x`."""
    normal_path = _normalise(path)
    if normal_path.startswith("file:/"):
        normal_path = "/" + normal_path.removeprefix("file:").lstrip("/")
    elif ":///" in normal_path:
        normal_path = NO_AUTHORITY.sub(r"\1:/", normal_path)
    return _decode(normal_path)


def is_absolute(path: str) -> bool:
    """Whether a decoded path of the log is absolute instead of relative to the table."""
    return path.startswith(("/", "file:/")) or "://" in path


def name_in_table(path: str, root: str) -> str | None:
    """Return the name in the table that a path in the log means; None for the root and paths outside of the table."""
    name = canonical_path(path)
    if is_absolute(name):
        if not name.startswith(f"{root}/"):
            return None
        name = name.removeprefix(f"{root}/")
    name = posixpath.normpath(name)
    return name if name != "." and is_inside(name) else None


def is_inside(name: str) -> bool:
    """Whether a decoded name is a file below the table, without empty, `.` or `..` parts."""
    return not is_absolute(name) and not {"", ".", ".."} & set(name.split("/"))


def partition_dir(values: Mapping[str, str | None]) -> str:
    """Return the directory of Hive and Spark for partition values, in order: `day=2026-01-01/country=de`.

    Without values, the directory is the empty string. Null and the empty string have the same name.
    """
    return "/".join(
        f"{_escape_for_hive(column)}={_escape_for_hive(text or HIVE_NULL)}" for column, text in values.items()
    )


def _escape_for_hive(text: str) -> str:
    return HIVE_ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", text)


def partition_values_of_dir(directory: str) -> dict[str, str | None]:
    """Return the partition values by column of a directory such as `day=2026-01-01/country=de`.

    Null and the empty string have the same name, and are returned as null.
    """
    segments = (segment.split("=", 1) for segment in directory.split("/") if segment)
    return {unquote(column): None if value == HIVE_NULL else unquote(value) for column, value in segments}

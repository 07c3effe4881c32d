"""Table addresses: parses them, and gives each table one canonical spelling.

An address is a local path (absolute or relative) or a URI with a scheme. `file:/x`, `file:///x` and `/x` are the same
table, and a trailing slash does not count. Standard library only, so that an operator can check an address before it
starts a process.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from deltalite.errors import InvalidTableAddressError, UnsupportedStorageError

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_SEPARATORS = re.compile(r"[/\\{},:;=&?#|\[\]\"'`]")
_DECODINGS = 8
_JSON_ESCAPE = re.compile(r"\\u([0-9A-Fa-f]{4})")
_INNERMOST_BRACES = re.compile(r"\{([^{}]*)\}")
_NAME = re.compile(r"\.*[^./\\{},][^/\\{},]*")  # any name that is not only dots
_MAX_ALTERNATIVES = 1_000
_PASSWORD = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/@]*:[^/]*@")
_HELP = "Give a local path such as /lake/orders, or a URI such as s3://bucket/orders."
# Engines use several schemes for one storage. Addresses are compared by the canonical scheme.
_SAME_STORAGE = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "abfss"}
# Hadoop takes the authority of such an address from its configuration (`fs.defaultFS`).
_DEFAULT_AUTHORITY = frozenset({"hdfs", "viewfs"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLocation:
    """A table's address. `scheme` is 'file' for a local table, and then `path` is an absolute local path."""

    scheme: str
    path: str

    @property
    def is_local(self) -> bool:
        """Whether the table lies in a file system that this process can open by path."""
        return self.scheme == "file"


def check_local(path: str) -> None:
    """Check that this process can open a decoded path of the log: it is relative to the table, or local.

    Raises:
        UnsupportedStorageError: the path is on another storage.
    """
    if "://" in path and not path.startswith("file:/"):
        raise UnsupportedStorageError(
            f"The log names the file {path!r}, which is not in the local file system; this release reads local and "
            "mounted file systems only.",
            remedy="Read the table with an engine that reaches that storage.",
        )


def resolve_path(root: str, path: str) -> str:
    """Return the address of a file by its decoded path in the log, which is relative to `root` or absolute.

    A path such as `/x` is on the storage of the table.
    """
    if path.startswith("file:/"):
        return "/" + path.removeprefix("file:").lstrip("/")
    if _SCHEME.match(path):
        return path
    if not path.startswith("/"):
        return f"{root}/{path}"
    if not _SCHEME.match(root):
        return path
    parts = urlsplit(root)
    return f"{parts.scheme}://{parts.netloc}{path}"


def parse_location(address: str) -> TableLocation:
    """Return the canonical location of a table.

    Raises:
        InvalidTableAddressError: the address is empty, an unrendered template, a bare scheme, or contains control
            characters or a password. Passwords are rejected because logs, events and the table's history show the
            address.
    """
    if _PASSWORD.match(address):
        raise InvalidTableAddressError(
            f"The table's address {_redacted(address)!r} contains a password.",
            remedy="Remove user and password, and put them into the connection that `storage_conn_id` names.",
        )
    if not address.strip():
        raise InvalidTableAddressError(f"The table's address is {address!r}.", remedy=_HELP)
    if address != address.strip() or not address.isprintable():
        raise InvalidTableAddressError(
            f"The table's address {address!r} begins or ends with white space, or contains control characters.",
            remedy=_HELP,
        )
    if "{{" in address or "{%" in address:
        raise InvalidTableAddressError(
            f"The table's address {address!r} still contains a template.", remedy="Check the quoting of the template."
        )
    if address.startswith("file:"):
        return TableLocation(scheme="file", path=_local(unquote(_file_path(address))))
    if _SCHEME.match(address):
        parts = urlsplit(address)
        scheme = parts.scheme.lower()
        has_authority = bool(parts.netloc) or (scheme in _DEFAULT_AUTHORITY and parts.path.strip("/"))
        if not has_authority or parts.query or parts.fragment:
            raise InvalidTableAddressError(
                f"The table's address {_redacted(address)!r} is not a usable URI.", remedy=_HELP
            )
        return TableLocation(scheme=scheme, path=scheme + address[len(scheme) :].rstrip("/"))
    return TableLocation(scheme="file", path=_local(address))


def reject_parent_segments(address: str) -> None:
    """Check that a rendered template has no part `..`.

    Raises:
        InvalidTableAddressError: a part of the address is `..`. Text from another source could use it to leave the
            folder that the DAG author wrote.
    """
    if has_parent_segment(address):
        raise InvalidTableAddressError(
            f"The address {_redacted(address)!r} contains '..', which leads to another folder.",
            remedy="Write the folder itself. To use a name from another source, apply the filter path_part.",
        )


def has_parent_segment(text: str) -> bool:
    r"""Whether a part of an address, of a pattern or of a list of addresses is `..`, in any spelling.

    - Percent-encoding and JSON escapes are decoded, repeatedly if necessary.
    - Backslashes count as separators and are also removed, because Hadoop reads `\.` in a pattern as a dot.
    - Braces and their commas count as separators, because Hadoop reads `{a,../b}` as two addresses. Each address that
      Hadoop expands from braces is checked too: `{x/.,y}./b` includes `x/../b`.
    """
    for _ in range(_DECODINGS):
        for spelled in (text, text.replace("\\", "")):
            if any(part.strip() == ".." for part in _SEPARATORS.split(spelled)) or _braces_have_parent_segment(spelled):
                return True
        if (decoded := unquote(_JSON_ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), text))) == text:
            return False
        text = decoded
    return True  # no legitimate address is encoded so many times


def _braces_have_parent_segment(text: str) -> bool:
    """Whether a pattern with braces expands to an address with the part `..`; True if it has too many expansions.

    Names are shortened to one letter first, so that a list of names has one expansion.
    """
    patterns = {_NAME.sub("x", text)}
    while patterns:
        pattern = patterns.pop()
        braces = _INNERMOST_BRACES.search(pattern)
        if braces is not None:
            begin, end = pattern[: braces.start()], pattern[braces.end() :]
            patterns |= {begin + name + end for name in braces[1].split(",")}
            if len(patterns) > _MAX_ALTERNATIVES:
                return True
        elif ".." in pattern.split("/"):
            return True
    return False


def is_same_table(address: str, other_address: str) -> bool:
    """Whether two addresses are the same table. For existing local tables this follows links and mounts."""
    first, second = parse_location(address), parse_location(other_address)
    if _comparable(first) == _comparable(second):
        return True
    both_exist = first.is_local and second.is_local and os.path.exists(first.path) and os.path.exists(second.path)
    return both_exist and os.path.samefile(first.path, second.path)


def _comparable(location: TableLocation) -> tuple[str, str]:
    return _SAME_STORAGE.get(location.scheme, location.scheme), location.path.removeprefix(location.scheme)


def _file_path(address: str) -> str:
    """Return the path in `file:/x`, `file:///x` or `file://localhost/x`."""
    rest = address.removeprefix("file:")
    if not rest.startswith("//"):
        path = rest
    else:
        host, slash, tail = rest[2:].partition("/")
        path = slash + tail if host in ("", "localhost") else ""
    if not path.startswith("/"):
        raise InvalidTableAddressError(f"The table's address {address!r} has no absolute path.", remedy=_HELP)
    return path


def _redacted(address: str) -> str:
    from deltalite.redaction import redacted  # noqa: PLC0415  only errors need it, and every DAG file imports this

    return redacted(address)


def _local(path: str) -> str:
    return os.path.normpath(os.path.abspath(os.path.expanduser(path)))

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

_SCHEME_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_SEPARATOR_PATTERN = re.compile(r"[/\\{},:;=&?#|\[\]\"'`]")
_MAX_DECODINGS = 8
_JSON_ESCAPE_PATTERN = re.compile(r"\\u([0-9A-Fa-f]{4})")
_INNERMOST_BRACES_PATTERN = re.compile(r"\{([^{}]*)\}")
# This pattern matches a name that contains a character other than a dot.
_ORDINARY_NAME_PATTERN = re.compile(r"\.*[^./\\{},][^/\\{},]*")
_MAX_ALTERNATIVES = 1_000
_PASSWORD_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/@]*:[^/]*@")
_ADDRESS_REMEDY = "Give a local path such as /lake/orders, or a URI such as s3://bucket/orders."
# Engines use several schemes for one storage. Addresses are compared by the canonical scheme.
_CANONICAL_SCHEMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "abfss"}
# Hadoop takes the authority of such an address from its configuration (`fs.defaultFS`).
_DEFAULT_AUTHORITY_SCHEMES = frozenset({"hdfs", "viewfs"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLocation:
    """A table's address. `scheme` is 'file' for a local table.

    `path` is the absolute local path of a local table, and the whole address of any other table.
    """

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
    if _SCHEME_PATTERN.match(path):
        return path
    if not path.startswith("/"):
        return f"{root}/{path}"
    if not _SCHEME_PATTERN.match(root):
        return path
    root_uri = urlsplit(root)
    return f"{root_uri.scheme}://{root_uri.netloc}{path}"


def parse_location(address: str) -> TableLocation:
    """Return the canonical location of a table.

    Raises:
        InvalidTableAddressError: the address is empty, is an unrendered template, is not a complete URI, begins or ends
            with white space, or contains a query, a fragment, control characters or a password. Logs, events and the
            table's history show the address, so it must not contain a password.
    """
    if _PASSWORD_PATTERN.match(address):
        raise InvalidTableAddressError(
            f"The table's address {_redacted(address)!r} contains a password.",
            remedy="Remove user and password, and put them into the connection that `storage_conn_id` names.",
        )
    if not address.strip():
        raise InvalidTableAddressError(f"The table's address is {address!r}.", remedy=_ADDRESS_REMEDY)
    if address != address.strip() or not address.isprintable():
        raise InvalidTableAddressError(
            f"The table's address {address!r} begins or ends with white space, or contains control characters.",
            remedy=_ADDRESS_REMEDY,
        )
    if "{{" in address or "{%" in address:
        raise InvalidTableAddressError(
            f"The table's address {address!r} still contains a template.", remedy="Check the quoting of the template."
        )
    if address.startswith("file:"):
        return TableLocation(scheme="file", path=_absolute_path(unquote(_file_path(address))))
    if _SCHEME_PATTERN.match(address):
        uri = urlsplit(address)
        scheme = uri.scheme.lower()
        has_authority = bool(uri.netloc) or (scheme in _DEFAULT_AUTHORITY_SCHEMES and uri.path.strip("/"))
        if not has_authority or uri.query or uri.fragment:
            raise InvalidTableAddressError(
                f"The table's address {_redacted(address)!r} has no bucket or host, or has a query or a fragment.",
                remedy=_ADDRESS_REMEDY,
            )
        return TableLocation(scheme=scheme, path=scheme + address[len(scheme) :].rstrip("/"))
    return TableLocation(scheme="file", path=_absolute_path(address))


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
    for _ in range(_MAX_DECODINGS):
        for variant in (text, text.replace("\\", "")):
            if any(part.strip() == ".." for part in _SEPARATOR_PATTERN.split(variant)) or _braces_have_parent_segment(
                variant
            ):
                return True
        if (decoded := unquote(_JSON_ESCAPE_PATTERN.sub(lambda escape: chr(int(escape[1], 16)), text))) == text:
            return False
        text = decoded
    return True  # No valid address is encoded so many times.


def _braces_have_parent_segment(text: str) -> bool:
    """Whether a pattern with braces expands to an address with the part `..`; True if it has too many expansions.

    The function first shortens names to one letter, so that a list of names has one expansion.
    """
    patterns = {_ORDINARY_NAME_PATTERN.sub("x", text)}
    while patterns:
        pattern = patterns.pop()
        braces = _INNERMOST_BRACES_PATTERN.search(pattern)
        if braces is not None:
            prefix, suffix = pattern[: braces.start()], pattern[braces.end() :]
            patterns |= {prefix + alternative + suffix for alternative in braces[1].split(",")}
            if len(patterns) > _MAX_ALTERNATIVES:
                return True
        elif ".." in pattern.split("/"):
            return True
    return False


def is_same_table(address: str, other_address: str) -> bool:
    """Whether two addresses are of the same table. Follows links and mounts of local tables that exist."""
    location, other_location = parse_location(address), parse_location(other_address)
    if canonical_address(location) == canonical_address(other_location):
        return True
    exist_locally = all(item.is_local and os.path.exists(item.path) for item in (location, other_location))
    return exist_locally and os.path.samefile(location.path, other_location.path)


def contain_one_another(address: str, other_address: str) -> bool:
    """Whether one of two canonical addresses is, or lies in, the folder of the other one. Follows local links."""
    folder, other_folder = (f"{_without_links(each).rstrip('/')}/" for each in (address, other_address))
    return folder.startswith(other_folder) or other_folder.startswith(folder)


def _without_links(address: str) -> str:
    return os.path.realpath(address) if address.startswith("/") else address


def canonical_address(location: TableLocation) -> str:
    """Return the address in one spelling: `s3a://b/t` and `s3://b/t` are one address."""
    scheme = _CANONICAL_SCHEMES.get(location.scheme, location.scheme)
    return location.path if location.is_local else scheme + location.path.removeprefix(location.scheme)


def _file_path(address: str) -> str:
    """Return the path in `file:/x`, `file:///x` or `file://localhost/x`. Raises `InvalidTableAddressError`."""
    path = address.removeprefix("file:")
    if path.startswith("//"):
        host, slash, path_in_host = path[2:].partition("/")
        path = slash + path_in_host if host in ("", "localhost") else ""
    if not path.startswith("/"):
        raise InvalidTableAddressError(f"The table's address {address!r} has no absolute path.", remedy=_ADDRESS_REMEDY)
    return path


def _redacted(address: str) -> str:
    from deltalite.redaction import redacted  # noqa: PLC0415  only errors need it, and each DAG file loads this module

    return redacted(address)


def _absolute_path(path: str) -> str:
    return os.path.normpath(os.path.abspath(os.path.expanduser(path)))

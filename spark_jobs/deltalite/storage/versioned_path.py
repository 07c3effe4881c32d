"""A version or a time at the end of a table address, such as `/lake/orders@v3`.

The spellings are those of delta-spark: `@v` and a version, or `@` and seventeen digits, `yyyyMMddHHmmssSSS` in UTC. Any
other text after an `@` belongs to the path. Standard library only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from deltalite.errors import InvalidRequestError, InvalidTableAddressError
from deltalite.requests.moments import parse_moment_ms

_VERSION_PATTERN = re.compile(r"(?P<path>.+)@[vV](?P<version>\d+)/?")
_TIME_PATTERN = re.compile(r"(?P<path>.+)@(?P<digits>\d{17})/?")


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionedPath:
    """An address with a version, a time (milliseconds UTC), or neither."""

    path: str
    version: int | None = None
    timestamp_ms: int | None = None


def parse_versioned_path(address: str) -> VersionedPath:
    """Return the address without its version or time, and the version or time as a value.

    Raises:
        InvalidTableAddressError: the address is not text.
        InvalidRequestError: the address ends with `@` and digits that are not a valid time.
    """
    if not isinstance(address, str):
        raise InvalidTableAddressError(
            f"The table's address is {address!r}, which is not text.", remedy="Give a path or a URI."
        )
    if match := _VERSION_PATTERN.fullmatch(address):
        return VersionedPath(path=match["path"], version=int(match["version"]))
    if match := _TIME_PATTERN.fullmatch(address):
        digits = match["digits"]
        try:
            moment = datetime.strptime(digits[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
        except ValueError as error:
            raise InvalidRequestError(
                f"Invalid time at the end of the address {address!r}: {error}.",
                remedy="Write @yyyyMMddHHmmssSSS in UTC, or @v and a version.",
            ) from error
        return VersionedPath(path=match["path"], timestamp_ms=int(moment.timestamp()) * 1000 + int(digits[14:]))
    return VersionedPath(path=address)


def refuse_version(address: str, *, operation: str = "write to", participle: str = "written") -> None:
    """Check that an address names no version or time, because the operation applies to the newest version only.

    `operation` and `participle` name the operation in the error.

    Raises:
        InvalidRequestError: the address ends with a version or a time.
    """
    versioned_path = parse_versioned_path(address)
    if versioned_path.version is not None or versioned_path.timestamp_ms is not None:
        raise InvalidRequestError(
            f"Could not {operation} {address!r}: the address names a version, and only the newest version can be "
            f"{participle}.",
            remedy=f"Give the address {versioned_path.path!r}.",
        )


def resolve_version(address: str, version: int | None, timestamp: str | datetime | None) -> VersionedPath:
    """Combine an address with a separate version or time.

    Raises:
        InvalidRequestError: there is more than one version or time, or the version or time is invalid.
    """
    versioned_path = parse_versioned_path(address)
    selectors = (versioned_path.version, versioned_path.timestamp_ms, version, timestamp)
    if sum(selector is not None for selector in selectors) > 1:
        raise InvalidRequestError(
            f"The request for {address!r} has more than one version or time.",
            remedy="Keep one, either in the address or as an argument.",
        )
    if version is not None:
        if isinstance(version, bool) or not isinstance(version, int):
            raise InvalidRequestError(
                f"The version is {version!r}, which is not an int.", remedy="Give an int such as 3, or leave it out."
            )
        return VersionedPath(path=versioned_path.path, version=version)
    if timestamp is not None:
        return VersionedPath(path=versioned_path.path, timestamp_ms=parse_moment_ms(timestamp))
    return versioned_path

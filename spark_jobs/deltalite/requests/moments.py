"""Conversion of times as users write them to milliseconds UTC, and checks of the version or time in a request."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from deltalite.errors import InvalidRequestError
from deltalite.requests.base import Fault

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_moment_ms(moment: str | datetime) -> int:
    """Convert ISO 8601 text or a datetime to milliseconds UTC; a time without a time zone is read as UTC.

    Raises:
        InvalidRequestError: the text is not a time, or the value is neither text nor a datetime.
    """
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment.strip())
        except ValueError as error:
            raise InvalidRequestError(
                f"Invalid time {moment!r}: {error}.", remedy="Write it as 2026-01-01T00:00:00Z."
            ) from error
    if not isinstance(moment, datetime):
        raise InvalidRequestError(
            f"The timestamp is {moment!r}, which is neither text nor a datetime.",
            remedy="Give ISO 8601 text such as '2026-01-01T00:00:00Z', or a datetime.",
        )
    zoned_moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (zoned_moment - _EPOCH) // timedelta(milliseconds=1)


def version_faults(version: int | None, timestamp: str | None) -> Iterator[Fault]:
    """Yield the faults of a request for a version, or for the newest version at a time, each with its remedy."""
    if version is not None and timestamp is not None:
        yield "The request names both a version and a time.", "Keep one of them."
    if version is not None and version < 0:
        yield f"version is {version}, which is negative.", "Give 0 or more."
    if timestamp is not None and not timestamp.strip():
        yield "timestamp is empty.", "Write it as 2026-01-01T00:00:00Z."
    elif timestamp is not None:
        try:
            parse_moment_ms(timestamp)
        except InvalidRequestError as error:
            yield error.problem, error.remedy

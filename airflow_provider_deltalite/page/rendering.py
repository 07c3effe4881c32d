"""The templates and their filters. Jinja2 escapes every value; no template marks a value as safe.

The Content-Security-Policy allows only the app's style sheet and scripts, and no inline ones. So a page is harmless
even if an escape is missing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from airflow_provider_deltalite.page.links import Links
from airflow_provider_deltalite.page.spans import span_text
from deltalite.inspection.shown_texts import shown_text
from deltalite.sizes import format_bytes

FOLDER = Path(__file__).resolve().parent
SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'self'; base-uri 'none'"
    ),
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
}
_UNKNOWN = "\N{EN DASH}"


def page(template: str, links: Links, *, status: int = 200, **values: Any) -> HTMLResponse:
    """Return the response with a rendered template."""
    text = _environment().get_template(template).render(links=links, now=datetime.now(UTC), **values)
    # A table may contain unpaired surrogates, which UTF-8 cannot encode.
    content = text.encode("utf-8", "replace")
    return HTMLResponse(content, status, headers={**SECURITY_HEADERS, "Cache-Control": "no-store"})


def number(value: int | None) -> str:
    """Format a number with thin spaces between thousands."""
    return _UNKNOWN if value is None else f"{value:,}".replace(",", "\u202f")


def counted(value: int | None, noun: str) -> str:
    """Format a number with a noun, such as `1 file` or `2 files`."""
    return f"{number(value)} {noun}{'' if value == 1 else 's'}"


def size(value: int | None) -> str:
    """Format a number of bytes."""
    return _UNKNOWN if value is None else format_bytes(value)


def moment(value: int | datetime | None) -> str:
    """Format a time, or milliseconds UTC, as `2026-03-01 12:00:00 UTC`."""
    time = _time(value)
    return _UNKNOWN if time is None else f"{time:%Y-%m-%d %H:%M:%S} UTC"


def moments(times_ms: Mapping[int, int]) -> str:
    """Format times in milliseconds UTC as JSON, such as `{"7": "2026-03-01 12:00:00 UTC"}`."""
    return json.dumps({key: moment(time_ms) for key, time_ms in times_ms.items()}, separators=(",", ":"))


def iso(value: int | datetime | None) -> str:
    """Format a time as ISO 8601, for the attribute `datetime`."""
    time = _time(value)
    return "" if time is None else time.isoformat(timespec="seconds")


def ago(value: int | datetime | None, now: datetime) -> str:
    """Format the age of a time, such as `3 hours ago`."""
    time = _time(value)
    if time is None:
        return _UNKNOWN
    seconds = (now - time).total_seconds()
    if seconds < 0:
        return "just now"
    return f"{span_text(seconds)} ago"


def duration(start: datetime | None, end: datetime | None) -> str:
    """Format the time between two times, such as `1 min 5 s`."""
    if start is None or end is None:
        return _UNKNOWN
    return seconds_text((end - start).total_seconds())


def seconds_text(value: float) -> str:
    """Format a duration in seconds, such as `2 h 5 min`, `1 min 5 s` or `18 ms`."""
    if 0 < value < 1:
        return f"{max(1, round(value * 1000))} ms"
    minutes, seconds = divmod(max(0, round(value)), 60)
    hours, rest = divmod(minutes, 60)
    if hours:
        return f"{hours} h {rest} min"
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


def _time(value: int | datetime | None) -> datetime | None:
    if value is None:
        return None
    try:
        return value.astimezone(UTC) if isinstance(value, datetime) else datetime.fromtimestamp(value / 1000, tz=UTC)
    except (OverflowError, ValueError, OSError):
        return None


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "ago": ago,
        "counted": counted,
        "iso": iso,
        "moment": moment,
        "moments": moments,
        "number": number,
        "seconds": seconds_text,
        "shown": shown_text,
        "size": size,
    }
    environment.globals |= {"duration": duration}
    return environment

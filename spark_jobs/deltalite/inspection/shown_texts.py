"""Texts of a table for a report: bounded, without secrets, and without characters that control a display.

Every writer of a table chooses names, comments, properties and provenance, so a report treats them as hostile. These
functions do not escape markup, because only the report knows its format.
"""

from __future__ import annotations

import json
from typing import Any

from deltalite.redaction import is_secret, redacted

MAX_LENGTH = 300
"""The longest text that `shown_text` returns, in characters, without its ellipsis."""
# The redaction reads more than the result shows, so that it recognizes a secret at the end of the shown part. It does
# not read all, because a megabyte takes seconds.
_MAX_READ = 4_000
_STARS = "***"


def shown_text(value: Any, *, name: str = "", max_length: int = MAX_LENGTH) -> str:
    """Return a text or JSON value as one bounded line; an empty text for None.

    Args:
        value: the value. A value that is not a text is shown as JSON.
        name: the name of the setting that has the value. The value becomes stars if the setting is secret, or if its
            name is too long to decide this.
        max_length: the number of characters after which the text ends with an ellipsis.
    """
    if value is None:
        return ""
    if len(name) > _MAX_READ or (name and is_secret(name)):
        return _STARS
    text = value if isinstance(value, str) else _json_text(value)
    text = redacted(text[:_MAX_READ])
    if not text.isprintable():
        text = "".join(c if c.isprintable() else _escape(c) for c in text)
    return text if len(text) <= max_length else f"{text[:max_length]}…"


def _escape(character: str) -> str:
    """Return a space for white space, and the escape of another character."""
    return " " if character.isspace() else character.encode("unicode_escape", "backslashreplace").decode("ascii")


def _json_text(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return str(value)[:_MAX_READ]

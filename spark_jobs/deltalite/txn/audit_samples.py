"""Sample rows of audits as JSON that a person reads. Pure functions.

The values come from the table, so they are untrusted: a text may be long, contain a secret, or imitate a log line.
Each sample is one line of at most `MAX_SAMPLE_CHARACTERS` characters. Characters that are not printable are escaped.
Values of columns with a secret name, and secrets in texts, become stars.

Samples are never part of a commit or of a result. Only logs, errors and questions to people show them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping

from deltalite.redaction import STARS, is_secret, redacted
from deltalite.sizes import counted

MAX_VALUE_CHARACTERS, MAX_SAMPLE_CHARACTERS = 80, 500
MAX_READ_CHARACTERS = 1_000
"""The characters that the job reads of a value. It reads more than a sample shows, to recognize complete secrets."""
MAX_TOTAL_CHARACTERS = 4_000
"""The limit for the characters of all samples of one attempt."""
_OMITTED = "..."


def sample_text(values: Mapping[str, object]) -> str:
    """Return the values of one row as a line of JSON. Columns at the end that do not fit are left out and counted."""
    members: list[str] = []
    remaining = MAX_SAMPLE_CHARACTERS - len("{}") - len(_omitted(len(values)))
    for name, value in values.items():
        member = f"{_json_text(_cut(name))}: {_json_value(name, value)}"
        remaining -= len(member) + len(", ")
        if remaining < 0:
            members.append(_omitted(len(values) - len(members)))
            break
        members.append(member)
    return f"{{{', '.join(members)}}}"


def _omitted(column_count: int) -> str:
    """Return the member of the JSON that counts the omitted columns."""
    count = counted(column_count, "more column")
    return f'"{_OMITTED}": "{count}"'


def within_total(samples: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """Return the first samples of the audits, by the names of the audits, up to `MAX_TOTAL_CHARACTERS`."""
    remaining = MAX_TOTAL_CHARACTERS
    kept: dict[str, tuple[str, ...]] = {}
    for name, texts in samples.items():
        kept_texts = []
        for text in texts:
            remaining -= len(text)
            if remaining < 0:
                break
            kept_texts.append(text)
        if kept_texts:
            kept[name] = tuple(kept_texts)
    return kept


def _json_value(name: str, value: object) -> str:
    if value is None or isinstance(value, bool | int):
        return json.dumps(STARS if is_secret(name) and value is not None else value)
    if isinstance(value, float):
        return json.dumps(value if math.isfinite(value) else str(value))
    return _json_text(_cut(STARS if is_secret(name) else redacted(str(value))))


def _cut(text: str) -> str:
    return text if len(text) <= MAX_VALUE_CHARACTERS else text[:MAX_VALUE_CHARACTERS] + _OMITTED


def _json_text(text: str) -> str:
    """Return the text as JSON, with escapes for characters that are not printable."""
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in quoted)

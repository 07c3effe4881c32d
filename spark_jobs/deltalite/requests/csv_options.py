"""The options of Spark's CSV reader that make every read fail if they are invalid."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from deltalite.requests.base import Fault

_SINGLE_CHARACTERS = ("quote", "escape", "comment", "charToEscapeQuoteEscaping")
_LONGEST_LINE_SEPARATOR = 2
_ESCAPED_CHARACTERS = {"t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "'": "'", "\\": "\\"}
_SEPARATOR_PART = re.compile(r"\\(?P<escaped>.?)|[^\\]+", re.DOTALL)


def csv_option_faults(options: Mapping[str, object]) -> Iterator[Fault]:
    """Yield the faults of the options of a CSV source, as Spark checks them. Names are case-insensitive."""
    texts = {name.lower(): value for name, value in options.items() if isinstance(value, str)}
    for name in _SINGLE_CHARACTERS:
        value = texts.get(name.lower(), "")
        if _utf16_length(value) > 1:
            yield f"The option {name!r} of the CSV source is {value!r}.", "Give one character, or an empty text."
    if column_separator(texts) is None:
        name = "sep" if "sep" in texts else "delimiter"
        yield (
            f"The option {name!r} of the CSV source is {texts[name]!r}.",
            r"Give one or more characters. Write a tab as '\t' and a backslash as '\\'.",
        )
    line_separator = texts.get("linesep")
    if line_separator is not None and not 1 <= _utf16_length(line_separator) <= _LONGEST_LINE_SEPARATOR:
        yield f"The option 'lineSep' of the CSV source is {line_separator!r}.", "Give one or two characters."


def column_separator(options: Mapping[str, str]) -> str | None:
    """Return the separator of columns, or None if it is invalid. The names of the options have lower case."""
    text = options.get("sep", options.get("delimiter", ","))
    parts: list[str | None] = []
    for part in _SEPARATOR_PART.finditer(text):
        escaped = part["escaped"]
        parts.append(part[0] if escaped is None else _ESCAPED_CHARACTERS.get(escaped))
    characters = [part for part in parts if part is not None]
    return "".join(characters) if characters and len(characters) == len(parts) else None


def _utf16_length(text: str) -> int:
    """Return the number of Java's characters."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2

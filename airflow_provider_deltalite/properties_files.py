"""Properties files, from which `spark-submit` reads settings. The format is that of `java.util.Properties`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_BLANKS = " \t\f"
_LINE_END_PATTERN = re.compile(r"\r\n|\r|\n")
_OPEN_LINE_PATTERN = re.compile(r"(?<!\\)(\\\\)*\\$")  # ends with an odd number of backslashes
_ENTRY_PATTERN = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE_PATTERN = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.?))", re.DOTALL)
_CONTROL_CHARACTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPES = str.maketrans(
    {"\\": "\\\\"} | {character: f"\\{letter}" for letter, character in _CONTROL_CHARACTERS.items()}
)


def parse_properties(text: str) -> dict[str, str]:
    """Return the settings of a properties file. A later value of a setting replaces an earlier one."""
    settings = {}
    for line in _entries(text):
        match = next(_ENTRY_PATTERN.finditer(line))  # matches every line
        settings[_unescaped(match[1])] = _unescaped(match[2])
    return settings


def properties_text(settings: Mapping[str, str], *, base: str = "") -> str:
    """Return the text of a properties file: `base`, then `settings`, which take precedence."""
    lines = [f"{_escaped(name, is_name=True)}={_escaped(value)}" for name, value in settings.items()]
    return "\n".join([base, *lines, ""]).lstrip("\n")


def _entries(text: str) -> Iterator[str]:
    """Yield the lines with settings. A backslash at the end of a line joins the next line to it."""
    lines = iter(_LINE_END_PATTERN.split(text))
    for line in lines:
        entry = line.lstrip(_BLANKS)
        if not entry or entry[0] in "#!":
            continue
        while _OPEN_LINE_PATTERN.search(entry):
            entry = entry[:-1] + next(lines, "").lstrip(_BLANKS)
        yield entry


def _unescaped(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        return chr(int(match[1], 16)) if match[1] else _CONTROL_CHARACTERS.get(match[2], match[2])

    # Java writes a character outside of the basic plane as two escapes, which are one character here.
    return _ESCAPE_PATTERN.sub(character, text).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _escaped(text: str, *, is_name: bool = False) -> str:
    escaped = text.translate(_ESCAPES)
    if is_name:
        return re.sub(r"([ :=#!])", r"\\\1", escaped)
    return "\\" + escaped if escaped.startswith(" ") else escaped

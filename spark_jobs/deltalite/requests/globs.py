r"""Glob patterns for names of files and folders, with Hadoop's syntax: `*`, `?`, `[a-c]`, `[^x]`, `{a,b}` and `\c`.

A pattern consists of parts between `/`. `*` and `?` match no `/`. A pattern that matches a folder selects all files
below it. The functions here do no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from deltalite.errors import InvalidRequestError

_MAX_ALTERNATIVES = 1_000
_REMEDY = r"Correct the pattern; write \* for a literal star."


@dataclass(frozen=True, slots=True, kw_only=True)
class NamePattern:
    """The alternatives of a pattern, each as the regular expressions of its parts."""

    alternatives: tuple[tuple[re.Pattern[str], ...], ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the pattern with this text; the empty text selects all files.

        Raises:
            InvalidRequestError: the pattern is malformed, or has too many alternatives.
        """
        alternatives = [
            tuple(part_pattern(part, text) for part in alternative.split("/") if part)
            for alternative in expand_braces(text)
        ]
        return cls(alternatives=tuple(alternatives))

    def selects(self, name: str) -> bool:
        """Whether the pattern matches a file or a folder above it. `name` is relative and uses `/`."""
        parts = name.split("/")
        return any(len(parts) >= len(alternative) and _match(alternative, parts) for alternative in self.alternatives)

    def matches(self, name: str) -> bool:
        """Whether the pattern matches the complete name."""
        parts = name.split("/")
        return any(len(parts) == len(alternative) and _match(alternative, parts) for alternative in self.alternatives)

    def may_select_below(self, folder: str) -> bool:
        """Whether the pattern may select a file below this folder; the name of the root is empty."""
        parts = folder.split("/") if folder else []
        return any(_match(alternative, parts) for alternative in self.alternatives)


def _match(alternative: tuple[re.Pattern[str], ...], parts: list[str]) -> bool:
    """Whether the first parts match, up to the number of parts that both have."""
    return all(pattern.fullmatch(part) for pattern, part in zip(alternative, parts, strict=False))


def expand_braces(text: str) -> Iterator[str]:
    """Yield the alternatives of a pattern, which have no braces.

    Raises:
        InvalidRequestError: a brace has no end, or there are too many alternatives.
    """
    alternatives = [""]
    position = 0
    while position < len(text):
        character = text[position]
        if character == "\\":
            alternatives = [prefix + text[position : position + 2] for prefix in alternatives]
            position += 2
        elif character == "{":
            end, options = _braces(text, position)
            expanded = [inner for option in options for inner in expand_braces(option)]
            alternatives = [prefix + inner for prefix in alternatives for inner in expanded]
            position = end
        else:
            alternatives = [prefix + character for prefix in alternatives]
            position += 1
        if len(alternatives) > _MAX_ALTERNATIVES:
            raise InvalidRequestError(
                f"The pattern {text!r} has more than {_MAX_ALTERNATIVES} alternatives.", remedy="Use fewer braces."
            )
    yield from alternatives


def _braces(text: str, start: int) -> tuple[int, list[str]]:
    """Return the position after the braces that begin at `start`, and their options."""
    depth, options, option_start, position = 0, list[str](), start + 1, start
    while position < len(text):
        character = text[position]
        if character == "\\":
            position += 1
        elif character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
            if not depth:
                return position + 1, [*options, text[option_start:position]]
        elif character == "," and depth == 1:
            options.append(text[option_start:position])
            option_start = position + 1
        position += 1
    raise InvalidRequestError(f"The pattern {text!r} has a brace without an end.", remedy=_REMEDY)


def _escaped_class(body: str) -> str:
    r"""Return the content of a bracket as a regular expression. `-` makes a range, and `\-` is a literal."""
    return re.sub(r"\\?(.)", lambda c: c[0] if c[0] == "-" else re.escape(c[1]), body, flags=re.DOTALL)


def part_pattern(part: str, pattern: str) -> re.Pattern[str]:
    """Return the regular expression of one part of `pattern`. The part has neither `/` nor braces.

    Raises:
        InvalidRequestError: the part is malformed.
    """
    expression, position = "", 0
    while position < len(part):
        character = part[position]
        position += 1
        match character:
            case "*":
                expression += "[^/]*"
            case "?":
                expression += "[^/]"
            case "\\":
                expression += re.escape(part[position : position + 1])
                position += 1
            case "[":
                end = part.find("]", position + 1)
                if end < 0:
                    raise InvalidRequestError(f"The pattern {pattern!r} has a bracket without an end.", remedy=_REMEDY)
                body = part[position:end]
                negation, body = ("^", body[1:]) if body[0] in "^!" else ("", body)
                expression += f"[{negation}{_escaped_class(body)}]"
                position = end + 1
            case _:
                expression += re.escape(character)
    try:
        return re.compile(expression, re.DOTALL)
    except re.error as error:
        raise InvalidRequestError(f"The pattern {pattern!r} is malformed: {error}.", remedy=_REMEDY) from error

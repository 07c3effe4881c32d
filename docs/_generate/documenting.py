"""Shared parts of the generators: parsed docstrings, tables in Markdown, and the error of a missing text.

Docstrings of the provider are prose followed by `:param name: text`, with `(templated)` at the end of a text. Those of
the library are in Google's style. Both become plain Markdown that a code host renders too.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Sequence
from typing import Any

_PARAM = re.compile(r"^:param (\w+): ?", re.MULTILINE)
_TEMPLATED = re.compile(r"\s*\(templated\)\s*$")
_SECTION = re.compile(r"^(Args|Returns|Raises|Yields):$", re.MULTILINE)
_ENTRY = re.compile(r"^    (?P<name>[\w*. ,]+): (?P<text>.*(?:\n     .*)*)", re.MULTILINE)


class UndocumentedError(Exception):
    """The code has something that no text describes, or a text describes what the code does not have."""


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; a `|` in a cell is escaped, also inside code, as GitHub's tables need it."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def code(text: str) -> str:
    """A text as code, whatever backticks are in it."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def named(path: str) -> Any:
    """The object of a dotted name. Raises ImportError or AttributeError if there is none."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def prose(documented: object) -> str:
    """The docstring without its parameters."""
    return _PARAM.split(inspect.getdoc(documented) or "", maxsplit=1)[0].strip()


def params(documented: object) -> dict[str, tuple[str, bool]]:
    """Parameter -> its text in the docstring, and whether it is templated."""
    pieces = _PARAM.split(inspect.getdoc(documented) or "")[1:]
    texts = {name: " ".join(text.split()) for name, text in zip(pieces[::2], pieces[1::2], strict=True)}
    return {name: (_TEMPLATED.sub("", text), bool(_TEMPLATED.search(text))) for name, text in texts.items()}


def google_docstring(documented: object) -> str:
    """A docstring in Google's style, with its sections as lists."""
    first, *pieces = _SECTION.split(inspect.getdoc(documented) or "")
    shown = [first.strip()]
    for title, body in zip(pieces[::2], pieces[1::2], strict=True):
        entries = [f"- {code(one['name'])}: {' '.join(one['text'].split())}" for one in _ENTRY.finditer(body)]
        shown.append(f"*{title}*\n\n" + ("\n".join(entries) or " ".join(body.split())))
    return "\n\n".join(shown)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")

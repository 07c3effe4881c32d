"""Functions that all generators share: they parse docstrings and write Markdown.

A docstring of the provider is prose followed by `:param name: text`. A text ends with `(templated)` if the parameter is
templated. A docstring of the library is in Google's style. Both become plain Markdown that a code host can render.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Sequence
from typing import Any

_PARAM_PATTERN = re.compile(r"^:param (\w+): ?", re.MULTILINE)
_TEMPLATED_PATTERN = re.compile(r"\s*\(templated\)\s*$")
_SECTION_PATTERN = re.compile(r"^(Args|Returns|Raises|Yields):$", re.MULTILINE)
# A long list of errors may continue on the next line.
_NAME_WITH_TEXT_PATTERN = re.compile(
    r"^    (?P<name>[\w*.]+(?:,\s+[\w*.]+)*): (?P<text>.*(?:\n     .*)*)", re.MULTILINE
)


class UndocumentedError(Exception):
    """A name has no text, a text describes a name that the code does not have, or a docstring has another form."""


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown. GitHub requires that each `|` in a cell is escaped, also inside code."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(text) for text in line) + " |" for line in lines)


def code(text: str) -> str:
    """Return a text as inline code. The text may contain single backticks."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def import_object(dotted_name: str) -> Any:
    """Return the object with a dotted name. Raises ImportError or AttributeError if the name does not exist."""
    module, _, name = dotted_name.rpartition(".")
    return getattr(importlib.import_module(module), name)


def prose(documented: object) -> str:
    """Return the docstring without its parameters."""
    return _PARAM_PATTERN.split(inspect.getdoc(documented) or "", maxsplit=1)[0].strip()


def param_texts(documented: object) -> dict[str, tuple[str, bool]]:
    """Return the text of each parameter in the docstring, and whether the parameter is templated.

    A section such as `Raises:` may follow the parameters.
    """
    docstring_before_sections = _SECTION_PATTERN.split(inspect.getdoc(documented) or "")[0]
    names_and_texts = _PARAM_PATTERN.split(docstring_before_sections)[1:]
    texts = {
        name: " ".join(text.split()) for name, text in zip(names_and_texts[::2], names_and_texts[1::2], strict=True)
    }
    return {
        name: (_TEMPLATED_PATTERN.sub("", text), bool(_TEMPLATED_PATTERN.search(text))) for name, text in texts.items()
    }


def google_docstring_as_markdown(documented: object) -> str:
    """Return a docstring in Google's style as Markdown, with its sections as lists.

    Raises:
        UndocumentedError: a section with names also has lines without a name. The page would lack them.
    """
    description, *titles_and_bodies = _SECTION_PATTERN.split(inspect.getdoc(documented) or "")
    paragraphs = [description.strip()]
    for title, body in zip(titles_and_bodies[::2], titles_and_bodies[1::2], strict=True):
        items = [
            f"- {code(' '.join(item['name'].split()))}: {' '.join(item['text'].split())}"
            for item in _NAME_WITH_TEXT_PATTERN.finditer(body)
        ]
        if items and (lines_without_name := _NAME_WITH_TEXT_PATTERN.sub("", body).strip()):
            raise UndocumentedError(f"{documented} has lines without a name below '{title}:': {lines_without_name}")
        paragraphs.append(f"*{title}*\n\n" + ("\n".join(items) or " ".join(body.split())))
    return "\n\n".join(paragraphs)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")

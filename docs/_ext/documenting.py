"""What the extensions share: docstrings taken apart, and tables whose cells are Markdown.

Docstrings of the provider are prose followed by `:param name: text`; both are shown as they are written, with
`(templated)` taken off the text and put into a column of its own.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Sequence
from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

_PARAM = re.compile(r"^:param (\w+): ?", re.MULTILINE)
_TEMPLATED = re.compile(r"\s*\(templated\)\s*$")


class DocumentingDirective(SphinxDirective):
    """A directive that makes tables and paragraphs out of texts in Markdown."""

    def text(self, markdown: str) -> list[nodes.Node]:
        """The nodes of a text."""
        return self.parse_text_to_nodes(markdown)

    def table(
        self, head: Sequence[str], rows: Sequence[Sequence[str]], *, widths: Sequence[int], kind: str
    ) -> nodes.table:
        """A table with one line of heads; each cell is a text in Markdown."""
        group = nodes.tgroup(cols=len(head))
        group += [nodes.colspec(colwidth=width) for width in widths]
        group += nodes.thead("", self._row(head))
        group += nodes.tbody("", *(self._row(row) for row in rows))
        return nodes.table("", group, classes=[kind])

    def _row(self, cells: Sequence[str]) -> nodes.row:
        return nodes.row("", *(nodes.entry("", *self.text(cell)) for cell in cells))


def code(text: str) -> str:
    """A text as code, whatever backticks are in it."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def named(path: str) -> Any:
    """The object of a dotted name. Raises ImportError or AttributeError where there is none."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def prose(documented: object) -> str:
    """The docstring without its parameters."""
    return _PARAM.split(inspect.getdoc(documented) or "", maxsplit=1)[0].strip()


def params(documented: object) -> dict[str, tuple[str, bool]]:
    """Parameter -> what its docstring says of it, and whether it is templated."""
    pieces = _PARAM.split(inspect.getdoc(documented) or "")[1:]
    texts = {name: " ".join(text.split()) for name, text in zip(pieces[::2], pieces[1::2], strict=True)}
    return {name: (_TEMPLATED.sub("", text), bool(_TEMPLATED.search(text))) for name, text in texts.items()}

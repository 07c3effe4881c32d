"""The program behind `make pages`: refreshes the generated parts of the pages in `docs/`.

A generated part is between the comments `<!-- generated: KIND ARGUMENTS -->` and `<!-- end -->`. It is plain Markdown,
so that a code host and the site show the same text. Parameters, errors, commands, settings and the Python API come from
the code. Snippets come from the example DAGs. A test fails if a page differs from the output of this program.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Callable
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1]
CHECKOUT = DOCS.parent
_BLOCK_PATTERN = re.compile(
    r"^<!-- generated: (?P<kind>[\w-]+)(?P<arguments>[^\n]*?) -->\n.*?^<!-- end -->$", re.MULTILINE | re.DOTALL
)

sys.path.insert(0, str(Path(__file__).resolve().parent))
if "AIRFLOW_HOME" not in os.environ:
    # The import of Airflow writes a configuration file, and reads settings that the pages must not show.
    os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="deltalite-docs-")
    atexit.register(shutil.rmtree, os.environ["AIRFLOW_HOME"], ignore_errors=True)

import documented_classes  # noqa: E402  it imports Airflow, which reads AIRFLOW_HOME
import documented_commands  # noqa: E402
import documented_errors  # noqa: E402
import documented_settings  # noqa: E402
from documenting import UndocumentedError  # noqa: E402


def snippet(path: str, name: str) -> str:
    """Return the lines of an example DAG between its comments `[START name]` and `[END name]`, as a code block.

    Raises:
        UndocumentedError: the example does not have both comments.
    """
    text = (CHECKOUT / path).read_text(encoding="utf-8")
    lines = re.search(rf"^[^\n]*\[START {name}\][^\n]*\n(.*?)^[^\n]*\[END {name}\]", text, re.MULTILINE | re.DOTALL)
    if lines is None:
        raise UndocumentedError(f"{path} has no lines between [START {name}] and [END {name}].")
    return f"```python\n{textwrap.dedent(lines[1]).rstrip()}\n```"


GENERATORS: dict[str, Callable[..., str]] = {
    "api": documented_classes.api,
    "classes": documented_classes.classes,
    "code": snippet,
    "commands": documented_commands.commands,
    "error-facts": documented_errors.error_facts,
    "error-tree": documented_errors.error_tree,
    "exit-codes": documented_commands.exit_codes,
    "parameters": documented_classes.parameters,
    "result-fields": documented_settings.result_fields,
    "settings": documented_settings.settings,
}


def refresh_page(text: str) -> str:
    """Return the text of a page with refreshed parts. Raises `UndocumentedError` if the code lacks a text."""
    return _BLOCK_PATTERN.sub(_refresh_block, text)


def undocumented_classes() -> list[str]:
    """Return the public classes of the provider and the errors that no page describes."""
    pages = "\n".join(page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md"))
    blocks = [(block["kind"], block["arguments"].split()) for block in _BLOCK_PATTERN.finditer(pages)]
    documented_names = {arguments[0] for kind, arguments in blocks if kind in {"parameters", "error-facts"}}
    for kind, arguments in blocks:
        if kind == "classes":
            documented_names |= set(documented_classes.provider_classes(*arguments))
    public_names = [
        *documented_classes.provider_classes("operators", "sensors", "hooks", "triggers"),
        *documented_errors.error_classes(),
    ]
    return sorted(set(public_names) - documented_names)


def _refresh_block(block: re.Match[str]) -> str:
    start_comment = block[0].split("\n", 1)[0]
    body = GENERATORS[block["kind"]](*block["arguments"].split())
    return f"{start_comment}\n\n{body}\n\n<!-- end -->"


def main() -> int:
    """Rewrite each page with a changed generated part. Return 1 if a public class has no documentation, else 0."""
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        new_text = refresh_page(text)
        if new_text != text:
            page.write_text(new_text, encoding="utf-8")
            sys.stdout.write(f"refreshed {page.relative_to(CHECKOUT)}\n")
    undocumented = undocumented_classes()
    for name in undocumented:
        sys.stderr.write(f"No page in docs/ describes {name}. Add a generated part for it to a page.\n")
    return 1 if undocumented else 0


if __name__ == "__main__":
    sys.exit(main())

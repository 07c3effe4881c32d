"""Refreshes the generated parts of the pages in `docs/`: run `make pages`.

A generated part stands between `<!-- generated: KIND ARGUMENTS -->` and `<!-- end -->`, in plain Markdown, so that a
code host shows what the site shows. Parameters, errors, commands, settings and the Python API come from the code;
snippets come from the example DAGs. A test holds the pages equal to what this program writes.
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
_BLOCK = re.compile(
    r"^<!-- generated: (?P<kind>[\w-]+)(?P<arguments>[^\n]*?) -->\n.*?^<!-- end -->$", re.MULTILINE | re.DOTALL
)

sys.path.insert(0, str(Path(__file__).resolve().parent))
if "AIRFLOW_HOME" not in os.environ:
    # Airflow writes a configuration where it is imported, and a machine's own settings are no defaults.
    os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="deltalite-docs-")
    atexit.register(shutil.rmtree, os.environ["AIRFLOW_HOME"], ignore_errors=True)

import documented_classes  # noqa: E402  after the environment
import documented_commands  # noqa: E402
import documented_errors  # noqa: E402
import documented_settings  # noqa: E402
from documenting import UndocumentedError  # noqa: E402


def snippet(path: str, name: str) -> str:
    """The lines of an example DAG between its comments `[START name]` and `[END name]`."""
    text = (CHECKOUT / path).read_text(encoding="utf-8")
    lines = re.search(rf"^[^\n]*\[START {name}\][^\n]*\n(.*?)^[^\n]*\[END {name}\]", text, re.MULTILINE | re.DOTALL)
    if lines is None:
        raise UndocumentedError(f"{path} has no part '{name}'.")
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


def refreshed(text: str) -> str:
    """A page with its generated parts made anew. Raises `UndocumentedError` if a text is missing in the code."""
    return _BLOCK.sub(_generated, text)


def undescribed() -> list[str]:
    """Return the public names that no page describes: public classes of the provider, and errors."""
    pages = "\n".join(page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md"))
    blocks = [(block["kind"], block["arguments"].split()) for block in _BLOCK.finditer(pages)]
    described = {arguments[0] for kind, arguments in blocks if kind in {"parameters", "error-facts"}}
    for kind, arguments in blocks:
        if kind == "classes":
            described |= set(documented_classes.provider_classes(*arguments))
    wanted = [
        *documented_classes.provider_classes("operators", "sensors", "hooks", "triggers"),
        *documented_errors.error_classes(),
    ]
    return sorted(set(wanted) - described)


def _generated(block: re.Match[str]) -> str:
    start = block[0].split("\n", 1)[0]
    body = GENERATORS[block["kind"]](*block["arguments"].split())
    return f"{start}\n\n{body}\n\n<!-- end -->"


def main() -> int:
    """Rewrite each page whose generated parts have changed."""
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        new_text = refreshed(text)
        if new_text != text:
            page.write_text(new_text, encoding="utf-8")
            sys.stdout.write(f"refreshed {page.relative_to(CHECKOUT)}\n")
    missing = undescribed()
    for name in missing:
        sys.stderr.write(f"No page describes {name}.\n")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())

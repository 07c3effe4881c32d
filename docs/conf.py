"""Settings of the documentation build: `make docs`, which fails on warnings and needs no network.

Pages are plain Markdown, which a code host renders too. `make pages` runs the program in `_generate`, which writes the
generated parts of the pages from the code and the example DAGs. This file adds the tables of contents and the
changelog, which only the site has. References to other projects are plain links, so the build needs no network.
"""

from __future__ import annotations

from pathlib import Path

from sphinx.application import Sphinx

from deltalite.version import VERSION

HERE = Path(__file__).resolve().parent
CONTENTS = {
    "Get started": ["get-started"],
    "How-to": [
        "how-to/load-daily-files",
        "how-to/upsert",
        "how-to/keep-a-history",
        "how-to/correct-a-mistake",
        "backfill",
        "how-to/wait-for-a-table",
        "how-to/load-what-is-new",
        "how-to/load-each-file-once",
        "how-to/check-rows",
        "how-to/follow-changes",
        "how-to/maintain-a-lake",
        "how-to/see-tables-in-airflow",
        "how-to/build-a-lake",
        "how-to/run-on-standalone",
        "how-to/run-on-yarn",
        "how-to/run-on-kubernetes",
        "how-to/free-the-worker",
        "how-to/run-with-livy",
        "how-to/start-small-tasks-faster",
        "how-to/use-s3",
        "how-to/use-azure",
        "how-to/use-google",
        "how-to/alert",
        "how-to/migrate",
    ],
    "Concepts": ["concepts", "idempotency", "storage", "security", "comparison", "table-features", "benchmarks"],
    "Reference": [
        "operators",
        "sensor-and-events",
        "lineage",
        "maintenance",
        "deployment",
        "python",
        "command-line",
        "troubleshooting",
        "changelog",
    ],
    "Decisions": ["decisions/index"],
}

project = "airflow-provider-deltalite"
author = "the authors of airflow-provider-deltalite"
version = release = VERSION

extensions = ["myst_parser"]
exclude_patterns = ["_build", "_generate"]
myst_heading_anchors = 4

smartquotes = False  # keeps the two dashes of an option such as --json

html_theme = "furo"
html_title = f"airflow-provider-deltalite {VERSION}"
html_static_path = ["_static"]
html_css_files = ["tables.css"]
html_show_sphinx = False
html_copy_source = False


def _toctree(pages: list[str], caption: str) -> str:
    """Return a hidden table of contents. Sphinx builds the navigation from it."""
    return f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(pages) + "\n```\n"


def add_site_content(_app: Sphinx, page: str, text: list[str]) -> None:
    """Add the tables of contents to their pages, and the changelog to its page.

    Sphinx expects that the function changes the only element of `text`.
    """
    if page == "index":
        for caption, pages in CONTENTS.items():
            text[0] += _toctree(pages, caption)
    elif page == "decisions/index":
        text[0] += _toctree(sorted(path.stem for path in (HERE / "decisions").glob("[0-9]*.md")), "Decisions")
    elif page == "changelog":
        text[0] = (HERE.parent / "CHANGELOG.md").read_text(encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Connect this extension to Sphinx, which calls `setup` by its name."""
    app.connect("source-read", add_site_content)

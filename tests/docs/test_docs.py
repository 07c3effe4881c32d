"""The documentation is plain Markdown that agrees with the code, builds without network, and shows only tested code."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from deltalite import errors
from deltalite.errors import DeltaLiteError

CHECKOUT = Path(__file__).resolve().parents[2]
DOCS = CHECKOUT / "docs"
REFRESH = "Run `make pages` (.venv/bin/python docs/_generate/pages.py) and commit what it wrote."
PAGES = sorted(DOCS.glob("*.md"))
EXAMPLES = sorted((CHECKOUT / "example_dags").glob("*.py"))
ERRORS = [name for name, it in vars(errors).items() if isinstance(it, type) and issubclass(it, DeltaLiteError)]

_FENCE = re.compile(r"^(?P<fence>```+)(?P<said>[^\n]*)\n(?P<body>.*?)^(?P=fence)\s*$", re.MULTILINE | re.DOTALL)
_SHELL = "console"


def fences(page: Path) -> list[tuple[str, str]]:
    """What the fenced blocks of a page say they are, and what is in them."""
    return [(found["said"].strip(), found["body"]) for found in _FENCE.finditer(page.read_text("utf-8"))]


def lines_of(text: str) -> str:
    """A piece of code without its indentation."""
    return "\n".join(line.strip() for line in text.strip().splitlines() if line.strip())


@pytest.mark.packaging
@pytest.mark.slow
def test_the_documentation_builds_without_a_warning_and_without_network(tmp_path):
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-n", "-E", "-q", "-d", tmp_path / "trees"]
    built = subprocess.run(
        [*command, DOCS, tmp_path / "html"],
        env={**os.environ, **nowhere},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    assert {path.stem for path in PAGES} <= {path.stem for path in (tmp_path / "html").glob("*.html")}
    operators = (tmp_path / "html" / "operators.html").read_text("utf-8")
    assert "conflict_seconds" in operators


@pytest.fixture(scope="module")
def pages():
    """The program that writes the generated parts of the pages."""
    sys.path.insert(0, str(DOCS / "_generate"))
    try:
        yield importlib.import_module("pages")
    finally:
        sys.path.remove(str(DOCS / "_generate"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_generated_parts_of_a_page_are_those_of_the_code(page, pages):
    text = page.read_text("utf-8")
    assert pages.refreshed(text) == text, f"{page.name} is out of date. {REFRESH}"


def test_every_class_of_the_provider_and_every_error_is_described(pages):
    assert pages.undescribed() == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_plain_markdown_that_a_code_host_renders(page):
    text = page.read_text("utf-8")
    assert [said for said, _ in fences(page) if said.startswith("{")] == []  # directives of Sphinx
    assert re.findall(r"\[\]\([^)]*\)", text) == []  # a link without a text
    assert re.findall(r"^(?::::| {0,3}: ).*", text, re.MULTILINE) == []  # other syntax that only MyST knows
    assert re.findall(r"\{[a-z-]+\}`[^`]*`", text) == []  # roles


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_link_to_another_page_leads_to_a_page_and_a_heading_that_exist(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        linked = page if not name else page.parent / name
        assert linked.is_file(), target
        assert not anchor or anchor in anchors(linked), target


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", ERRORS)
def test_each_error_has_its_entry_with_a_word_on_what_to_do(name):
    text = (DOCS / "troubleshooting.md").read_text("utf-8")
    head = rf"^## {name}\n\n<!-- generated: error-facts {name} -->\n.*?^<!-- end -->\n"
    entry = re.search(head + r"(?P<advice>.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert entry is not None and len(entry["advice"].split()) > 5


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_shows_generated_code_and_types_only_commands(page):
    written = re.sub(r"^<!-- generated: .*?^<!-- end -->$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    for found in _FENCE.finditer(written):
        said, body = found["said"].strip(), found["body"]
        assert said == _SHELL, f"{page.name} types {said or 'code'} by hand: {body[:60]!r}"
        assert all(line.startswith("$ ") for line in body.splitlines())


def test_the_code_in_the_readme_is_that_of_example_dags():
    examples = [lines_of(path.read_text("utf-8")) for path in EXAMPLES]
    shown = [lines_of(body) for said, body in fences(CHECKOUT / "README.md") if said == "python"]
    assert shown
    for piece in shown:
        assert any(piece in example for example in examples), piece


def test_the_readme_points_to_pages_that_are_there():
    linked = re.findall(r"\]\(([^)#]+\.md)\b", (CHECKOUT / "README.md").read_text("utf-8"))
    assert linked
    assert [name for name in linked if not (CHECKOUT / name).is_file()] == []

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
from tests.support.selection import sampled

CHECKOUT = Path(__file__).resolve().parents[2]
DOCS = CHECKOUT / "docs"
HOW_TO_REFRESH = "Run `make pages` (.venv/bin/python docs/_generate/pages.py) and commit the changed pages."
PAGES = sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts)
# The maximum number of lines of a page at the top of the checkout, so that it stays an overview.
MAX_LINES = {"ARCHITECTURE.md": 150, "README.md": 100}
MAX_LINES_OF_A_DAG = 15
TOP_PAGES = ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"]
EXAMPLES = sorted((CHECKOUT / "example_dags").glob("*.py"))
ERRORS = [name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, DeltaLiteError)]


def page_name(page: Path) -> str:
    """Return the name of a page in the ids of the tests: its path below `docs/`."""
    return page.relative_to(DOCS).with_suffix("").as_posix()


_FENCE = re.compile(r"^(?P<fence>```+)(?P<language>[^\n]*)\n(?P<body>.*?)^(?P=fence)\s*$", re.MULTILINE | re.DOTALL)
_SHELL = "console"


def fences(page: Path) -> list[tuple[str, str]]:
    """Return the language and the body of each fenced block of a page."""
    return [(fence["language"].strip(), fence["body"]) for fence in _FENCE.finditer(page.read_text("utf-8"))]


def link_targets(page: Path) -> list[tuple[str, str]]:
    """Return the path and the anchor of each link of a page to a file of the checkout."""
    targets = re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8"))
    return [(path, anchor) for path, _, anchor in (target.partition("#") for target in targets if "://" not in target)]


def without_indentation(text: str) -> str:
    """Return code without indentation and without empty lines."""
    return "\n".join(line.strip() for line in text.strip().splitlines() if line.strip())


@pytest.mark.packaging
@pytest.mark.slow
# A sample has the theme `basic`, because the theme of the site, `furo`, takes most of the time of a build.
@pytest.mark.parametrize("theme", sampled(["basic", "furo"], {"basic"}))
def test_the_documentation_builds_without_a_warning_and_without_network(tmp_path, theme):
    unreachable_proxies = dict.fromkeys(
        ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9"
    )
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-n", "-E", "-q", "-d", tmp_path / "trees"]
    process = subprocess.run(
        [*command, "-D", f"html_theme={theme}", DOCS, tmp_path / "html"],
        env={**os.environ, **unreachable_proxies},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    built_pages = {path.relative_to(tmp_path / "html").with_suffix("") for path in (tmp_path / "html").rglob("*.html")}
    assert {path.relative_to(DOCS).with_suffix("") for path in PAGES} <= built_pages
    operators = (tmp_path / "html" / "operators.html").read_text("utf-8")
    assert "conflict_seconds" in operators


@pytest.fixture(scope="module")
def page_generator():
    """The module that writes the generated parts of the pages."""
    sys.path.insert(0, str(DOCS / "_generate"))
    try:
        yield importlib.import_module("pages")
    finally:
        sys.path.remove(str(DOCS / "_generate"))


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_the_generated_parts_of_a_page_are_those_of_the_code(page, page_generator):
    text = page.read_text("utf-8")
    assert page_generator.refresh_page(text) == text, f"{page.name} is out of date. {HOW_TO_REFRESH}"
    rows_with_section = [line for line in text.splitlines() if line.startswith("|") and " Raises: " in line]
    assert rows_with_section == [], "the text of a parameter contains the next section of the docstring"


def test_every_class_of_the_provider_and_every_error_is_described(page_generator):
    assert page_generator.undocumented_classes() == []


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_a_page_is_plain_markdown_that_a_code_host_renders(page):
    text = page.read_text("utf-8")
    sphinx_directives = [language for language, _ in fences(page) if language.startswith("{")]
    assert sphinx_directives == []
    links_without_text = re.findall(r"\[\]\([^)]*\)", text)
    assert links_without_text == []
    myst_blocks = re.findall(r"^(?::::| {0,3}: ).*", text, re.MULTILINE)
    assert myst_blocks == []
    sphinx_roles = re.findall(r"\{[a-z-]+\}`[^`]*`", text)
    assert sphinx_roles == []


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_a_link_to_another_page_leads_to_a_page_and_a_heading_that_exist(page):
    for path, anchor in link_targets(page):
        linked_page = page if not path else page.parent / path
        assert linked_page.is_file(), path
        assert not anchor or anchor in anchors(linked_page), f"{path}#{anchor}"


def anchors(page: Path) -> set[str]:
    """Return the anchors that a code host makes of the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", ERRORS)
def test_each_error_has_an_entry_with_advice(name):
    text = (DOCS / "troubleshooting.md").read_text("utf-8")
    head = rf"^## {name}\n\n<!-- generated: error-facts {name} -->\n.*?^<!-- end -->\n"
    entry = re.search(head + r"(?P<advice>.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert entry is not None and len(entry["advice"].split()) > 5


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_code_in_a_page_is_generated_except_for_commands(page):
    handwritten = re.sub(
        r"^<!-- generated: .*?^<!-- end -->$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    for fence in _FENCE.finditer(handwritten):
        language, body = fence["language"].strip(), fence["body"]
        assert language == _SHELL, f"{page.name} contains {language or 'code'} that is not generated: {body[:60]!r}"
        assert all(line.startswith("$ ") for line in body.splitlines())


def test_the_code_in_the_readme_is_that_of_example_dags():
    examples = [without_indentation(path.read_text("utf-8")) for path in EXAMPLES]
    readme_code = [
        without_indentation(body) for language, body in fences(CHECKOUT / "README.md") if language == "python"
    ]
    assert readme_code
    for code_block in readme_code:
        assert any(code_block in example for example in examples), code_block
        assert len(code_block.splitlines()) <= MAX_LINES_OF_A_DAG


@pytest.mark.parametrize("name", TOP_PAGES)
def test_a_link_of_a_page_at_the_top_leads_to_a_file_that_exists(name):
    paths = [path for path, _ in link_targets(CHECKOUT / name)]
    assert paths
    assert [path for path in paths if not (CHECKOUT / path).exists()] == []


@pytest.mark.parametrize(("name", "max_lines"), MAX_LINES.items())
def test_an_overview_stays_short(name, max_lines):
    assert len((CHECKOUT / name).read_text("utf-8").splitlines()) <= max_lines


# Paths in a page may begin at the checkout, or in one of the packages.
ROOTS = [CHECKOUT, CHECKOUT / "spark_jobs" / "deltalite", CHECKOUT / "airflow_provider_deltalite"]
PACKAGES = [path for root in ROOTS[1:] for path in sorted(root.rglob("__init__.py"))]


def missing_files(text: str, roots: list[Path]) -> list[str]:
    """Return the files that the text names in backticks and that exist in none of the roots.

    A file that the text calls new, as in "`a.py` (new)", is left out.
    """
    mentioned_files = re.findall(r"`([\w./-]+\.(?:py|md|sh|toml|txt))`(?! \(new\))", text)
    new_files = re.findall(r"`([\w./-]+\.py)` \(new\)", text)
    return [
        name for name in mentioned_files if name not in new_files and not any((root / name).is_file() for root in roots)
    ]


@pytest.mark.parametrize("name", TOP_PAGES)
def test_a_page_at_the_top_names_files_that_exist(name):
    assert missing_files((CHECKOUT / name).read_text("utf-8"), ROOTS) == []


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.parent.name)
def test_the_docstring_of_a_package_names_files_that_exist(package):
    assert missing_files(package.read_text("utf-8"), [package.parent, CHECKOUT]) == []


def test_a_file_that_does_not_exist_is_reported():
    text = "Read `README.md`, write `spark/gone.py` and `spark/comment.py` (new)."
    assert missing_files(text, [CHECKOUT]) == ["spark/gone.py"]


def test_the_targets_that_pages_name_are_in_the_makefile():
    targets = set(re.findall(r"^([a-z-]+):", (CHECKOUT / "Makefile").read_text("utf-8"), re.MULTILINE))
    mentioned_targets = {
        target for name in TOP_PAGES for target in re.findall(r"`make ([a-z-]+)", (CHECKOUT / name).read_text("utf-8"))
    }
    assert mentioned_targets
    assert mentioned_targets <= targets


@pytest.mark.parametrize("page", [*PAGES, CHECKOUT / "README.md"], ids=lambda page: page.stem)
def test_a_command_installs_the_version_of_a_package_that_the_tests_use(page):
    constraints = (CHECKOUT / "constraints.txt").read_text("utf-8").splitlines()
    commands = "".join(body for language, body in fences(page) if language == _SHELL)
    assert [pin for pin in re.findall(r"[\w-]+==[\d.]+", commands) if pin not in constraints] == []


DECISIONS = sorted((DOCS / "decisions").glob("[0-9]*.md"))


def test_decisions_are_numbered_without_gaps_and_are_listed_in_the_index():
    assert [path.name[:4] for path in DECISIONS] == [f"{number:04d}" for number in range(1, len(DECISIONS) + 1)]
    index_entries = re.findall(
        r"^- \[(\d+)\. (.+)\]\((.+)\)$", (DOCS / "decisions" / "index.md").read_text("utf-8"), re.MULTILINE
    )
    titles = [(number, title, path) for number, title, path in sorted(index_entries, key=lambda entry: int(entry[0]))]
    assert titles == [(str(int(path.name[:4])), title_of_decision(path), path.name) for path in DECISIONS]


def title_of_decision(page: Path) -> str:
    """Return the title of a decision, without its number."""
    return page.read_text("utf-8").split("\n", 1)[0].split(". ", 1)[1]


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem)
def test_a_decision_has_its_four_parts(page):
    headings = re.findall(r"^## (.+)$", page.read_text("utf-8"), re.MULTILINE)
    assert headings == ["Context", "Decision", "Consequences", "Rejected alternatives"]


@pytest.mark.parametrize("page", sorted((DOCS / "how-to").glob("*.md")), ids=lambda page: page.stem)
def test_a_how_to_begins_with_when_you_need_it_and_ends_with_a_check(page):
    title, first_paragraph, *_ = page.read_text("utf-8").split("\n\n")
    assert title.startswith("# ")
    assert first_paragraph.startswith("You need this when ")
    assert re.findall(r"^## (.+)$", page.read_text("utf-8"), re.MULTILINE)[-1] == "Check that it worked"

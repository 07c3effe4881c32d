"""The page of the benchmarks is what the committed results give."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.suites import page

PICTURES = sorted(path.name for path in (page.DOCS / page.PICTURES).glob("*.svg"))


@pytest.fixture(scope="module")
def new_docs(tmp_path_factory) -> Path:
    """A folder with a page that was just made."""
    docs = tmp_path_factory.mktemp("docs")
    page.write_page(docs)
    return docs


def test_the_page_is_what_the_results_give(new_docs):
    committed_page = (page.DOCS / "benchmarks.md").read_text("utf-8")
    assert (new_docs / "benchmarks.md").read_text("utf-8") == committed_page, "Run `make pages`, and commit the page."


def test_the_page_has_the_plots_that_the_results_give(new_docs):
    assert sorted(path.name for path in (new_docs / page.PICTURES).iterdir()) == PICTURES


@pytest.mark.parametrize(("minutes", "text"), [(0.2, "1 minute"), (1.4, "1 minute"), (1.6, "2 minutes")])
def test_one_minute_is_singular(minutes, text):
    assert page.duration(minutes) == text


@pytest.mark.parametrize("picture", PICTURES)
def test_a_plot_is_what_the_results_give(picture, new_docs):
    committed_plot = (page.DOCS / page.PICTURES / picture).read_text("utf-8")
    assert (new_docs / page.PICTURES / picture).read_text("utf-8") == committed_plot, "Run `make pages`, and commit it."

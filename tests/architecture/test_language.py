"""`make lint` finds the words, openings and names that CONTRIBUTING.md forbids, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.check_language import findings, rules_of

CHECKOUT = Path(__file__).resolve().parents[2]
PAGE = """
#### Words

| use | do not use |
|---|---|
| recreated table | `remade` |
| log position | place, mark |

#### Openings

| begin with the actor | do not begin with |
|---|---|
| name the thing that acts | `What is` |

#### Names

These names say nothing: `found`, `own`.

#### Commit messages
"""
RULES = rules_of(PAGE)


@pytest.mark.parametrize(
    "line",
    [
        "# The table was remade.",
        '"""What is not in the log is ignored."""',
        "# A reader skips it. What is left is read.",
        "| What is missing | an error |",
        "found = files.of(table)",
        "def own(): ...",
        "def rows(*, own): ...",
        "for found, number in pairs: ...",
        "_found = 1",
        "self.found = 1",
    ],
)
def test_a_forbidden_word_opening_or_name_is_reported(line):
    assert len(list(findings("a.py", line if "|" not in line else f"# {line}", RULES))) == 1


@pytest.mark.parametrize(
    "line",
    [
        "# The premade table, a place, a mark.",
        '"""Return what is in the log."""',
        "error = 'not found'",
        "matching_files = index.found",
        "owner = 1",
    ],
)
def test_other_words_and_names_pass(line):
    assert list(findings("a.py", line, RULES)) == []


def test_a_finding_names_the_file_the_line_and_the_word_to_use():
    assert list(findings("docs/a.md", "# Title\n\nA remade table.", RULES)) == [
        'docs/a.md:3: "remade": write "recreated table"'
    ]


def test_the_page_of_the_project_has_all_three_parts():
    rules = rules_of((CHECKOUT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    advice = " ".join(text for *_, text in rules.patterns)
    assert "replan" in advice
    assert "What is" in advice
    assert "found" in rules.forbidden_names

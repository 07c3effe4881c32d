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
| separate | `of its own` |

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


@pytest.mark.parametrize(
    "text",
    [
        "A table has a log of its\nown.",
        "A table has a log of\nits\nown.",
        "- A table has a log of its\n  own.",
        "> A table has a log of its\n> own.",
        "A list: a log of its\n* own.",
        "# A table has a log of its\n# own.",
        "    #: A table has a log of its\n    #: own.",
        '"""A table.\n\n    It has a log of its\n    own.\n"""',
        'text = (\n    "a log of its "\n    "own"\n)',
        'text = (\n    f"a log {of} of its"\n    f" own"\n)',
        "text = ('a log of its '\n    'own')",
        "# A reader skips it. What\n# is left is read.",
        "What\n    is left?",
    ],
)
def test_a_forbidden_text_is_reported_across_the_end_of_a_line(text):
    assert len(list(findings("a.md", text, RULES))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "A table has a log of its\n\nown.",
        "# A table has a log of its\n#\n# own.",
        "A table has a log of its\n| own |",
        "A table has a log of its\nowner.",
        'texts = ["a log of its", "own"]',
        "It skips what\nis in the log.",
    ],
)
def test_texts_of_two_paragraphs_or_values_are_not_joined(text):
    assert list(findings("a.md", text, RULES)) == []


def test_a_finding_names_the_file_the_line_and_the_word_to_use():
    assert list(findings("docs/a.md", "# Title\n\nA remade table.", RULES)) == [
        'docs/a.md:3: "remade": write "recreated table"'
    ]
    assert list(findings("docs/a.md", "# Title\n\n\nA log of its\nown, remade.", RULES)) == [
        'docs/a.md:4: "of its own": write "separate"',
        'docs/a.md:5: "remade": write "recreated table"',
    ]


def test_the_page_of_the_project_has_all_three_parts():
    rules = rules_of((CHECKOUT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    advice = " ".join(text for *_, text in rules.patterns)
    assert "replan" in advice
    assert "What is" in advice
    assert "found" in rules.forbidden_names

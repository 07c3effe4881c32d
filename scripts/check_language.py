"""Checks the words of the project against the tables "Words" and "Openings" and the list "Names" in CONTRIBUTING.md.

The program searches for each text in backticks:

- a word, anywhere outside CONTRIBUTING.md;
- an opening, at the start of a sentence;
- a name, where Python code gives it to a value, an argument or a function.

A text of several words is also recognised if it continues on the next line of a paragraph, a comment or a string. Each
finding is one line: file, line, text to write instead. The exit code is 1 if there is a finding.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

RULES_FILE = "CONTRIBUTING.md"
EXEMPT_FILES = frozenset({Path(RULES_FILE), Path("tests/architecture/test_language.py")})
SUFFIXES = frozenset({".py", ".md", ".sh", ".toml", ".yaml"})
# A sentence begins a line, a comment, a text in quotes, a table cell or a list item, or follows another sentence.
_SENTENCE_START = r"(?:^|[.!?:]\s|[\"'(|#*>-])\s*"
# White space between two words, or the end of a line. At the end of a line, a string may end. The next line may begin
# with the mark of a comment, a quotation or a list item, and with the start of a string.
_GAP = re.compile(r"""[ \t]*["']?[ \t]*\n[ \t]*(?:(?:#+:?|[>*-])[ \t]+)*(?:[bfr]{0,2}["'])?[ \t]*|[ \t]+""")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Forbidden texts in lower case, each with its pattern and its advice, and the names that no code may assign.

    The group `text` of a pattern is the forbidden text.
    """

    patterns: tuple[tuple[str, re.Pattern[str], str], ...]
    forbidden_names: frozenset[str]


def rules_of(page: str) -> Rules:
    """Read the rules from the text of CONTRIBUTING.md."""
    patterns = [
        (word.lower(), _pattern(r"\b", word, re.IGNORECASE), f'"{word}": write "{plain_word}"')
        for plain_word, word in _texts_to_avoid(_section(page, "Words"))
    ]
    patterns += [
        (opening.lower(), _pattern(_SENTENCE_START, opening), f'a sentence opens with "{opening}": {advice}')
        for advice, opening in _texts_to_avoid(_section(page, "Openings"))
    ]
    names = re.findall(r"`(\w+)`", _section(page, "Names"))
    return Rules(patterns=tuple(patterns), forbidden_names=frozenset(names))


def _pattern(before: str, text: str, flags: int = 0) -> re.Pattern[str]:
    """Return the pattern of a text after `before`, with any gap between its words."""
    words = f"(?:{_GAP.pattern})".join(map(re.escape, text.split()))
    return re.compile(rf"{before}(?P<text>{words}\b)", flags | re.MULTILINE)


def _section(page: str, title: str) -> str:
    """Return the text below the heading `#### title`, up to the next heading."""
    match = re.search(rf"^#### {title}\n(.*?)(?=^#)", page, re.MULTILINE | re.DOTALL)
    if match is None:
        raise SystemExit(f'{RULES_FILE} has no section "#### {title}".')
    return match[1]


def _texts_to_avoid(table: str) -> Iterator[tuple[str, str]]:
    """Yield, for each text in backticks in the second column of a table, the first column and this text."""
    for instead, avoid in re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", table, re.MULTILINE):
        for text in re.findall(r"`([^`]+)`", avoid):
            yield instead.strip(), text


def findings(path: str, text: str, rules: Rules) -> Iterator[str]:
    """Yield each finding in a file as one line."""
    # A pattern is slow compared with the search for its text in the whole file, and few files contain the text.
    lower_case_text = _GAP.sub(" ", text).lower()
    patterns = [(pattern, advice) for words, pattern, advice in rules.patterns if words in lower_case_text]
    findings_in_text = {
        (text.count("\n", 0, match.start("text")) + 1, advice)
        for pattern, advice in patterns
        for match in pattern.finditer(text)
    }
    for line_number, advice in sorted(findings_in_text):
        yield f"{path}:{line_number}: {advice}"
    if path.endswith(".py"):
        for line_number, name in sorted(set(_assigned_names(ast.parse(text)))):
            if name.lstrip("_") in rules.forbidden_names:
                yield f'{path}:{line_number}: the name "{name}" does not say what its value is: name the role'


def _assigned_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line number and the text of each name that the code assigns."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield node.lineno, name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield node.lineno, name
            case _:
                pass


def main() -> int:
    """Check the files that git tracks and the new files, but not the ignored ones, and print the findings."""
    rules = rules_of(Path(RULES_FILE).read_text(encoding="utf-8"))
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    files = [
        path for path in map(Path, names) if path.suffix in SUFFIXES and path not in EXEMPT_FILES and path.is_file()
    ]
    finding_lines = [line for path in files for line in findings(str(path), path.read_text(encoding="utf-8"), rules)]
    print("\n".join(finding_lines), end="\n" if finding_lines else "")
    return 1 if finding_lines else 0


if __name__ == "__main__":
    sys.exit(main())

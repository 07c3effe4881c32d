"""Code that a person copies from a page: sources and operators for a DAG, and commands for a shell.

Values become literals of Python and words of a shell, so a hostile name cannot add code. A literal has printable ASCII
characters only: a character that reorders the shown text would make the code look different from what it does.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from airflow_provider_deltalite.page.known_tables import KnownTable
from deltalite.requests import Step

_OPERATORS = {
    Step.OPTIMIZE: "DeltaOptimizeOperator",
    Step.CHECKPOINT: "DeltaCheckpointOperator",
    Step.VACUUM: "DeltaVacuumOperator",
}
_MODULE = "airflow_provider_deltalite.operators.delta"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snippet:
    """A text to copy, with its title."""

    title: str
    text: str


def maintenance_operator(table: KnownTable, step: Step) -> Snippet:
    """Return the operator that does a step of the maintenance."""
    return Snippet(title=f"Task for the {step.value}", text=_operator(_OPERATORS[step], step.value, table))


def version_snippets(table: KnownTable, version: int, *, is_newest: bool) -> list[Snippet]:
    """Return the texts for a version: read it, compare it, go back to it."""
    literal = _literal(table.address)
    shell_word = shlex.quote(table.address)
    snippets = [
        Snippet(
            title="Read this version in a task",
            text=f'source={{"format": "delta", "path": {literal}, "version_as_of": {version}}},',
        ),
        Snippet(title="Details on the command line", text=f"deltalite detail {shell_word} --version {version}"),
    ]
    if version > 0:
        snippets.append(
            Snippet(
                title="What changed, on the command line",
                text=f"deltalite diff {shell_word} {version - 1} {version}",
            )
        )
    if not is_newest:
        text = _operator("DeltaRestoreOperator", "restore", table, f"version={version}")
        snippets.append(Snippet(title="Go back to this version", text=text))
    return snippets


def _literal(text: str) -> str:
    """Return a text as a literal of Python with ASCII characters only, in double quotes if it contains no quote."""
    literal = ascii(text)
    return literal if '"' in text or "'" in text else f'"{literal[1:-1]}"'


def _operator(name: str, task_id: str, table: KnownTable, *arguments: str) -> str:
    connection = () if table.conn_id is None else (f"storage_conn_id={_literal(table.conn_id)}",)
    parts = [f'task_id="{task_id}"', f"table={_literal(table.address)}", *arguments, *connection]
    lines = "".join(f"    {part},\n" for part in parts)
    return f"from {_MODULE} import {name}\n\n{name}(\n{lines})"

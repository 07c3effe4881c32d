"""A table and its versions as values for the templates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_deltalite.page.explanations import explain_feature, explain_property
from airflow_provider_deltalite.page.known_tables import KnownTable
from airflow_provider_deltalite.page.layout_view import bar_width
from airflow_provider_deltalite.page.snippets import Snippet, maintenance_operator
from deltalite.inspection.commit_entries import CommitEntry
from deltalite.inspection.overview import TableOverview
from deltalite.inspection.table_rows import Outcome, StepOutcome

_BAR_WIDTH = 96


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """A step of the maintenance: whether it is due, why, and the task that does it."""

    step: str
    is_due: bool
    reason: str
    snippet: Snippet


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """A name, its value, and one sentence about it."""

    name: str
    value: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineRow:
    """A commit, and the widths of its bars in pixels: rows that it added, updated and removed."""

    entry: CommitEntry
    added: int
    updated: int
    removed: int


def advice_of(table: KnownTable, steps: Sequence[StepOutcome]) -> list[Advice]:
    """Return the steps of the maintenance, the due ones first."""
    advice = [
        Advice(
            step=step.step.value,
            is_due=step.outcome is Outcome.DUE,
            reason=step.reason,
            snippet=maintenance_operator(table, step.step),
        )
        for step in steps
    ]
    return sorted(advice, key=lambda item: not item.is_due)


def explained_properties(overview: TableOverview) -> list[Explained]:
    """Return the properties with a sentence each."""
    return [
        Explained(name=key, value=value, sentence=explain_property(key)) for key, value in overview.properties.items()
    ]


def explained_features(overview: TableOverview) -> list[Explained]:
    """Return the table features with a sentence each."""
    return [Explained(name=name, value="", sentence=explain_feature(name)) for name in overview.features]


def timeline(entries: Sequence[CommitEntry]) -> list[TimelineRow]:
    """Return the commits with bars. The commit that changed most rows has the longest bar."""
    most = max((sum(_counts(entry)) for entry in entries), default=0)
    rows = []
    for entry in entries:
        added, updated, removed = (bar_width(count, most, _BAR_WIDTH) for count in _counts(entry))
        rows.append(TimelineRow(entry=entry, added=added, updated=updated, removed=removed))
    return rows


def _counts(entry: CommitEntry) -> tuple[int, int, int]:
    return entry.rows_added or 0, entry.rows_updated or 0, entry.rows_removed or 0

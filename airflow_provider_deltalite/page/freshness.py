"""The freshness of a table: whether its last commit is late, as one word, and the reason in a sentence.

1. DAGs that write the table start by a schedule: the one that starts most often decides. The table is late if it has no
   commit since this DAG was due to start, and half of its interval has passed since then.
2. There is no such DAG: the times between the newest commits decide. The table is late if its last commit is older than
   one and a half times the usual time.

Every commit counts, also an optimize. Pure functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from airflow_provider_deltalite.page.known_tables import KnownTable
from airflow_provider_deltalite.page.spans import span_text
from deltalite.inspection.shown_texts import shown_text

_SHORTEST_GAP_MS = 60_000
"""Commits with a shorter time between them belong to one load, so this time does not show when the next load is due."""
_GRACE = 0.5
"""The share of the usual time that a commit may be late."""


class FreshnessWord(StrEnum):
    """The freshness of a table."""

    FRESH = "fresh"
    LATE = "late"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When a DAG starts by its schedule.

    - `last_start`: the time of its newest scheduled run; None before the first one.
    - `next_start`: the time of its next scheduled run; None for a DAG without times, such as one that waits for assets.
    """

    is_paused: bool
    last_start: datetime | None = None
    next_start: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """The freshness of a table, and the reason."""

    word: FreshnessWord
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cadence:
    """Two starts of a DAG by its schedule, in seconds UTC: the newest one, and the next one."""

    dag_id: str
    last: float
    next: float

    @property
    def interval(self) -> float:
        return self.next - self.last


def freshness_of(
    table: KnownTable,
    schedules: Mapping[str, Schedule],
    *,
    last_commit_ms: int | None,
    usual_gap_ms: int | None,
    now: datetime,
) -> Freshness:
    """Return the freshness of a table.

    Args:
        table: the table, with the DAGs that write it and that the user may read.
        schedules: the schedules of DAGs by their ids.
        last_commit_ms: the time of the last commit in milliseconds UTC; None if it is unknown.
        usual_gap_ms: the usual milliseconds between loads; None if the commits show none.
        now: the time.
    """
    if last_commit_ms is None:
        return Freshness(word=FreshnessWord.UNKNOWN, reason="The log no longer holds the last commit.")
    last_commit = last_commit_ms / 1000
    dag_ids = sorted({task.dag_id for task in table.producers} & set(schedules))
    cadences = [cadence for dag_id in dag_ids if (cadence := _cadence(dag_id, schedules[dag_id])) is not None]
    if cadences:
        shortest = min(cadences, key=lambda cadence: cadence.interval)
        return _freshness_by_schedule(shortest, last_commit, now.timestamp())
    paused = [shown_text(dag_id) for dag_id in dag_ids if schedules[dag_id].is_paused]
    note = f" Paused: {', '.join(paused)}." if paused else ""
    if usual_gap_ms is None or usual_gap_ms < _SHORTEST_GAP_MS:
        reason = "No DAG with scheduled runs writes the table, and its newest commits show no usual time between loads."
        return Freshness(word=FreshnessWord.UNKNOWN, reason=reason + note)
    age, usual = now.timestamp() - last_commit, usual_gap_ms / 1000
    reason = f"The last commit is {span_text(age)} old, and there are usually {span_text(usual)} between loads."
    return Freshness(word=_word(is_late=age > usual * (1 + _GRACE)), reason=reason + note)


def dag_ids_of(tables: Sequence[KnownTable]) -> frozenset[str]:
    """Return the DAGs that write at least one of the tables."""
    return frozenset(task.dag_id for table in tables for task in table.producers)


def _cadence(dag_id: str, schedule: Schedule) -> _Cadence | None:
    """Return the starts of a DAG; None if it is paused, has no times, or has not run by its schedule so far."""
    if schedule.is_paused or schedule.last_start is None or schedule.next_start is None:
        return None
    if schedule.next_start <= schedule.last_start:
        return None
    return _Cadence(dag_id=dag_id, last=schedule.last_start.timestamp(), next=schedule.next_start.timestamp())


def _freshness_by_schedule(cadence: _Cadence, last_commit: float, now: float) -> Freshness:
    """Return the freshness by the newest start that was due.

    It is the newest start of a run, or the next start if the time of the next start has passed without a run.
    """
    due = cadence.next if now >= cadence.next else cadence.last
    dag, every = shown_text(cadence.dag_id), f"It starts every {span_text(cadence.interval)}."
    if last_commit >= due:
        reason = f"A commit is newer than the last start of the DAG {dag}, {span_text(now - due)} ago. {every}"
        return Freshness(word=FreshnessWord.FRESH, reason=reason)
    reason = f"No commit since the DAG {dag} was due to start, {span_text(now - due)} ago. {every}"
    return Freshness(word=_word(is_late=now - due > cadence.interval * _GRACE), reason=reason)


def _word(*, is_late: bool) -> FreshnessWord:
    return FreshnessWord.LATE if is_late else FreshnessWord.FRESH

"""Decides which maintenance steps are due, from the measures of a table and the thresholds of the request.

Each decision has a reason, which reports show. A reason names the measure and its threshold.
"""

from __future__ import annotations

from dataclasses import dataclass

from deltalite.inspection.health import TableHealth
from deltalite.requests import Step, Thresholds
from deltalite.sizes import counted, format_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The decision whether a step is due, and its reason."""

    step: Step
    is_due: bool
    reason: str


def decide(health: TableHealth, thresholds: Thresholds) -> tuple[Decision, ...]:
    """Return the decision for each step, in the order of the steps."""
    return tuple(_decide(step, health, thresholds) for step in Step)


def _decide(step: Step, health: TableHealth, thresholds: Thresholds) -> Decision:
    if not thresholds.allows(step):
        return Decision(step=step, is_due=False, reason=f"{step}=False")
    match step:
        case Step.OPTIMIZE:
            is_due, reason = _decide_optimize(health, thresholds)
        case Step.CHECKPOINT:
            is_due, reason = _decide_checkpoint(health, thresholds)
        case Step.VACUUM:
            is_due, reason = _decide_vacuum(health, thresholds)
    return Decision(step=step, is_due=is_due, reason=reason)


def _decide_optimize(health: TableHealth, thresholds: Thresholds) -> tuple[bool, str]:
    """Decide whether an optimize is due, in this order.

    1. No file can be packed or purged: no.
    2. Too many rows are soft-deleted: yes.
    3. Enough files would be rewritten: yes.
    4. Otherwise: no.
    """
    if not health.files_to_rewrite:
        return False, f"nothing to rewrite: {counted(health.files, 'file')}, {health.small_files} small"
    ratio_text = f"{health.deleted_rows_ratio:.1%} of rows soft-deleted"
    if health.deleted_rows_ratio > thresholds.max_deleted_rows_ratio:
        return True, f"{ratio_text} (limit {thresholds.max_deleted_rows_ratio:.1%})"
    count_text = f"{counted(health.files_to_rewrite, 'file')} to rewrite (threshold {thresholds.min_small_files})"
    return health.files_to_rewrite >= thresholds.min_small_files, count_text


def _decide_checkpoint(health: TableHealth, thresholds: Thresholds) -> tuple[bool, str]:
    threshold = thresholds.checkpoint_after_commits or health.checkpoint_interval
    commits = health.commits_since_checkpoint
    return commits >= threshold, f"{counted(commits, 'commit')} since the checkpoint (threshold {threshold})"


def _decide_vacuum(health: TableHealth, thresholds: Thresholds) -> tuple[bool, str]:
    """Decide whether a vacuum is due, in this order.

    1. The log names enough dead bytes: yes.
    2. The last vacuum is recent, or the table is new and has no vacuum: no.
    3. There is no commit since the last vacuum, and no dead file: no.
    4. Otherwise: yes, because only a vacuum finds files that no version names.
    """
    dead_text = f"{format_bytes(health.dead_bytes)} dead"
    if health.dead_files and health.dead_bytes >= thresholds.min_dead_bytes:
        return True, f"{dead_text} (threshold {format_bytes(thresholds.min_dead_bytes)})"
    event, days = "the last vacuum", health.days_since_vacuum
    if days is None:
        event, days = "the creation, and no vacuum", health.age_days
    if days is None:
        return True, "the log shows no vacuum"
    age_text = f"{days:.1f} days since {event} (threshold {thresholds.vacuum_after_days})"
    if days < thresholds.vacuum_after_days:
        return False, f"{dead_text}; {age_text}"
    if health.commits_since_vacuum == 0 and not health.dead_files:
        return False, "no commit since the last vacuum"
    return True, age_text

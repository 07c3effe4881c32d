"""The rows of a version as values for the template, or the sentence why there are none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_deltalite.page.reading import Result, State
from deltalite.inspection.preview import (
    MAX_BYTES,
    MAX_CONDITION_LENGTH,
    MAX_CONDITIONS,
    MAX_READ_BYTES,
    MAX_ROWS,
    Limit,
    RowPreview,
)
from deltalite.sizes import format_bytes

SWITCHED_OFF = "The page shows no rows. To show them, set [deltalite] ui_preview = True for the API server."
NOT_ALLOWED = (
    "You may not see rows. Ask an administrator of Airflow for the right to read the view 'Delta table rows', and to "
    "create events of assets."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewView:
    """The rows of a version.

    - `refusal`: why the user sees no rows; empty if the user may see them.
    - `is_shown`: whether the user asked for rows.
    - `conditions`: the conditions on the rows.
    - `problem`: why the rows could not be read; empty without a problem.
    - `note`: the limit that ended the rows; empty if these are all rows.
    """

    refusal: str = ""
    is_shown: bool = False
    conditions: Sequence[str] = ()
    problem: str = ""
    note: str = ""
    rows: RowPreview | None = None

    @property
    def inputs(self) -> list[str]:
        """The texts of the form: the conditions, and an empty one for another condition."""
        return [*self.conditions, ""][:MAX_CONDITIONS]


def problem_of_conditions(conditions: Sequence[str]) -> str:
    """Return why conditions are refused before they are parsed; an empty text if they are not."""
    if len(conditions) > MAX_CONDITIONS:
        return f"There are more than {MAX_CONDITIONS} conditions. Leave some out."
    if any(len(condition) > MAX_CONDITION_LENGTH for condition in conditions):
        return f"A condition has more than {MAX_CONDITION_LENGTH} characters. Shorten it."
    return ""


def preview_view(result: Result[RowPreview], conditions: Sequence[str], *, seconds: float) -> PreviewView:
    """Return the rows of a read, or the sentence about a read that failed or did not end in time."""
    preview = result.value
    if result.error is not None:
        problem = f"{result.error.kind}: {result.error.message}"
        if result.error.kind not in ("InvalidRequestError", "Overloaded"):
            problem += " If the version is old, a vacuum may have deleted its files."
        return PreviewView(is_shown=True, conditions=conditions, problem=problem)
    if preview is None:
        reason = (
            f"The rows were not read in {seconds:.3g} s."
            if result.state is State.SLOW
            else "Other reads of this storage come first."
        )
        return PreviewView(
            is_shown=True, conditions=conditions, problem=f"{reason} Reload the page, or add a condition."
        )
    return PreviewView(is_shown=True, conditions=conditions, note=_note(preview), rows=preview)


def _note(preview: RowPreview) -> str:
    match preview.limit:
        case Limit.ROWS:
            return f"These are the first {MAX_ROWS} rows."
        case Limit.BYTES:
            return (
                f"The version may have more rows: a preview ends after {format_bytes(MAX_BYTES)} of text, or after "
                f"{format_bytes(MAX_READ_BYTES)} of columns were read."
            )
        case Limit.SECONDS:
            return "The version may have more rows: the time for the preview ended."
        case Limit.NONE:
            return ""

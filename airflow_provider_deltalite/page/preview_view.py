"""The rows or the changed rows of a version as values for the template, or the sentence why there are none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

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

# The errors for which a vacuum is not a possible cause.
_OTHER_CAUSES = (
    "InvalidRequestError",
    "Overloaded",
    "ChangeFeedUnavailableError",
    "UnsupportedFeatureError",
    "VersionNotFoundError",
)


class RowChoice(StrEnum):
    """The rows that a user asks for: the value of the parameter `rows` of the page."""

    NONE = ""
    ALL = "1"
    CHANGED = "changed"

    @classmethod
    def of(cls, text: str) -> RowChoice:
        """Return the choice that a parameter names. Any other text chooses all rows of the version."""
        return cls(text) if text in (cls.NONE, cls.CHANGED) else cls.ALL


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewView:
    """The rows of a version, or its changed rows.

    - `refusal`: why the user sees no rows; empty if the user may see them.
    - `choice`: the rows that the user asked for.
    - `conditions`: the conditions on the rows.
    - `problem`: why the rows could not be read; empty without a problem.
    - `note`: the limit that ended the rows; empty if these are all rows.
    """

    refusal: str = ""
    choice: RowChoice = RowChoice.NONE
    conditions: Sequence[str] = ()
    problem: str = ""
    note: str = ""
    rows: RowPreview | None = None

    @property
    def is_of_changes(self) -> bool:
        """Whether the user asked for changed rows."""
        return self.choice is RowChoice.CHANGED

    @property
    def noun(self) -> str:
        """The name of the rows that the user asked for."""
        return "changed rows" if self.is_of_changes else "rows"

    @property
    def inputs(self) -> list[str]:
        """The texts of the form: the conditions, and an empty one for another condition."""
        return [*self.conditions, ""][:MAX_CONDITIONS]


def problem_of_conditions(conditions: Sequence[str]) -> str:
    """Return the problem if the conditions are too many or too long; otherwise an empty text. Parse no condition."""
    if len(conditions) > MAX_CONDITIONS:
        return f"There are more than {MAX_CONDITIONS} conditions. Leave some out."
    if any(len(condition) > MAX_CONDITION_LENGTH for condition in conditions):
        return f"A condition has more than {MAX_CONDITION_LENGTH} characters. Shorten it."
    return ""


def preview_view(
    result: Result[RowPreview], choice: RowChoice, conditions: Sequence[str], *, seconds: float
) -> PreviewView:
    """Return the rows of a read, or the sentence about a read that failed or did not end in time."""
    view = PreviewView(choice=choice, conditions=conditions)
    preview = result.value
    if result.error is not None:
        problem = result.error.text
        if result.error.kind not in _OTHER_CAUSES:
            problem += " If the version is old, a vacuum may have deleted its files."
        return replace(view, problem=problem)
    if preview is None:
        reason = (
            f"The rows were not read in {seconds:.3g} s."
            if result.state is State.SLOW
            else "Other reads of this storage come first."
        )
        return replace(view, problem=f"{reason} Reload the page, or add a condition.")
    return replace(view, note=_note(preview, view.noun), rows=preview)


def _note(preview: RowPreview, noun: str) -> str:
    match preview.limit:
        case Limit.ROWS:
            return f"These are the first {MAX_ROWS} {noun}."
        case Limit.BYTES:
            return (
                f"The version may have more {noun}: a preview ends after {format_bytes(MAX_BYTES)} of text, or after "
                f"{format_bytes(MAX_READ_BYTES)} of columns were read."
            )
        case Limit.SECONDS:
            return f"The version may have more {noun}: the time for the preview ended."
        case Limit.NONE:
            return ""

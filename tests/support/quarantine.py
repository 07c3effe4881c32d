"""Functions for tests of the quarantine of rejected rows and bad records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltalite import DeltaTable
from deltalite.errors import SourceError
from deltalite.requests import Audit
from tests.support.racing import run_before_commits

if TYPE_CHECKING:
    import pytest


def quarantine_options(quarantine: Path | str, *audits: dict[str, Any]) -> dict[str, Any]:
    """The options of a request with these audits, by default of level `quarantine`."""
    levelled_audits = tuple(Audit(**{"level": "quarantine", **audit}) for audit in audits)
    return {"audits": levelled_audits, "quarantine": str(quarantine)}


def rejected_rows(quarantine: Path | str, run: str | None = None) -> list[dict[str, Any]]:
    """The rows of a quarantine as dictionaries with the decoded record, in the order of the records.

    `run` selects the rows of a run; by default, the result has all rows.
    """
    table_rows = sorted(DeltaTable(str(quarantine)).to_arrow().to_pylist(), key=lambda row: row["record"])
    return [{**row, "record": json.loads(row["record"])} for row in table_rows if run is None or row["run"] == run]


def fail_at_target_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the next operation commit to its quarantine, and fail with a `SourceError` at its commit to the target."""

    def fail() -> None:
        raise SourceError("killed", remedy="")

    run_before_commits(monkeypatch, lambda: None, fail)

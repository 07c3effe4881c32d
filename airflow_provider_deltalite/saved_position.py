"""Log positions as Airflow stores them, in the state of tasks and of assets.

The JSON has the keys `version`, `mark` (the digest of the commit) and `remade` (whether the table was recreated). Keep
these names, because running deployments have stored positions with them.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_deltalite.rendered import parse_record
from deltalite.conditions import LogPosition


@dataclass(frozen=True, slots=True, kw_only=True)
class _SavedPosition:
    """The JSON values of a log position."""

    version: int
    mark: str | None = None
    remade: bool = False


def saved_log_position(name: str, values: object) -> LogPosition:
    """Return the log position that Airflow has stored.

    Args:
        name: The name of the values in an error message.
        values: The stored values.

    Raises:
        InvalidRequestError: the values are not a log position of this release.
    """
    saved_values = parse_record(name, values, _SavedPosition)
    return LogPosition(version=saved_values.version, commit_digest=saved_values.mark, recreated=saved_values.remade)

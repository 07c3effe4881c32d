"""Which commits count and how far a log was looked at: what sensors and triggers keep, as values.

A condition looks at one commit alone, never at the table. Both travel through Airflow's metadata as plain JSON, so they
hold only strings, numbers and lists. Standard library only; `watch.py` reads the commits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Self

from deltalite.errors import InvalidRequestError


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitSummary:
    """What a condition may ask of a commit, gathered in one pass over its actions.

    `table_id` is there where the commit makes the table, or changes its metadata.
    """

    version: int
    timestamp_ms: int
    operation: str | None
    data_changed: bool
    app_ids: frozenset[str]
    partitions: tuple[Mapping[str, str | None], ...]
    table_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """How far a log has been looked at: the last version, -1 for none.

    `mark` tells that version's commit from another one of the same version; it is empty where the log does not hold
    the commit, and None where it was not looked for.
    `remade` says that the table was made again since it is looked at, so that its versions began anew.
    """

    version: int
    mark: str | None = None
    remade: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values, for what is kept between two looks."""
        return {"version": self.version, "mark": self.mark, "remade": self.remade}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of `as_dict`."""
        return cls(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitCondition:
    """All that is given must hold.

    `data_change_only`: the commit added or removed rows (not OPTIMIZE, not a property change); None is True unless
    `operations` or `app_id` is given, because these name commits that may have no rows. `operations`: its operation is
    one of these, as `commitInfo.operation` spells them, in any case. `partition`: it added or removed a file whose
    partition values equal these (as Delta serializes them), with column names in any case. `app_id`: it carries this
    transaction identifier. `exclude_app_ids`: it carries none of these, which may hold `*` and `?`.
    """

    data_change_only: bool | None = None
    operations: Sequence[str] | None = None
    partition: Mapping[str, str | None] | None = None
    app_id: str | None = None
    exclude_app_ids: Sequence[str] | None = None

    def __post_init__(self) -> None:
        for name, example in (("operations", "['WRITE', 'MERGE']"), ("exclude_app_ids", "['airflow/orders_clean/*']")):
            if isinstance(given := getattr(self, name), str):
                raise InvalidRequestError(
                    f"{name} is the text {given!r}, not a list.", remedy=f"Give a list, such as {example}."
                )

    def holds_for(self, commit: CommitSummary) -> bool:
        """Whether `commit` is one that is waited for."""
        if self._needs_changed_data and not commit.data_changed:
            return False
        if self.app_id is not None and self.app_id not in commit.app_ids:
            return False
        if any(fnmatchcase(given, pattern) for given in commit.app_ids for pattern in self.exclude_app_ids or ()):
            return False
        if self.operations is not None:
            wanted = {name.upper() for name in self.operations}
            if (commit.operation or "").upper() not in wanted:
                return False
        if self.partition is not None:
            wanted_values = _by_lower_name(self.partition).items()
            return any(wanted_values <= _by_lower_name(touched).items() for touched in commit.partitions)
        return True

    @property
    def _needs_changed_data(self) -> bool:
        if self.data_change_only is None:
            return self.operations is None and self.app_id is None
        return self.data_change_only

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values, for a trigger's arguments."""
        return {
            "data_change_only": self.data_change_only,
            "operations": list(self.operations) if self.operations is not None else None,
            "partition": dict(self.partition) if self.partition is not None else None,
            "app_id": self.app_id,
            "exclude_app_ids": list(self.exclude_app_ids) if self.exclude_app_ids is not None else None,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of `as_dict`."""
        return cls(**values)


def _by_lower_name(values: Mapping[str, str | None]) -> dict[str, str | None]:
    """Partition values by column name; Delta's column names differ in more than case."""
    return {name.lower(): value for name, value in values.items()}

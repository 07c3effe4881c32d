"""Which commits count and how far a log was looked at: what sensors and triggers keep, as values.

A condition looks at one commit alone, never at the table. Both travel through Airflow's metadata as plain JSON, so they
hold only strings, numbers and lists. Standard library only; `watch.py` reads the commits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Self

from deltalite.errors import InvalidRequestError

MADE_BY_TIMES = ("logical_date", "data_interval_start", "data_interval_end")
"""The times of a DAG run that a commit can be found by."""
MADE_BY = ("dag_id", "task_id", "run_id", "map_index", "idempotency_key", *MADE_BY_TIMES)
"""What a commit of an Airflow task says about its run, and can be found by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitSummary:
    """What a condition may ask of a commit, gathered in one pass over its actions.

    `table_id` is there where the commit makes the table, or changes its metadata. `is_complete` is False if the commit
    has more app ids or partitions than a summary holds: then only a summary that was made for a condition answers it.
    `run` is what the commit says about the Airflow run that made it, by the names of `MADE_BY`; times are ISO 8601 in
    UTC.
    """

    version: int
    timestamp_ms: int
    operation: str | None
    data_changed: bool
    app_ids: frozenset[str]
    partitions: tuple[Mapping[str, str | None], ...]
    table_id: str | None = None
    is_complete: bool = True
    run: Mapping[str, str] = field(default_factory=dict)


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
    `operations`, `app_id` or `made_by` is given, because these name commits that may have no rows. `operations`: its
    operation is one of these, as `commitInfo.operation` spells them, in any case. `partition`: it added or removed a
    file whose partition values equal these (as Delta serializes them), with column names in any case. `app_id`: it
    carries this transaction identifier. `exclude_app_ids`: it carries none of these, which may hold `*` and `?`.
    `made_by`: it says all of this about the Airflow run that made it, by the names of `MADE_BY`.
    """

    data_change_only: bool | None = None
    operations: Sequence[str] | None = None
    partition: Mapping[str, str | None] | None = None
    app_id: str | None = None
    exclude_app_ids: Sequence[str] | None = None
    made_by: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        unknown = sorted(set(self.made_by or ()) - set(MADE_BY))
        if unknown or (self.made_by is not None and not self.made_by):
            raise InvalidRequestError(
                f"made_by has the unknown name '{unknown[0]}'." if unknown else "made_by is empty.",
                remedy=f"Give one or several of {', '.join(MADE_BY)}.",
            )
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
        if self.made_by is not None and not self.made_by.items() <= commit.run.items():
            return False
        if any(self._excludes(app_id) for app_id in commit.app_ids):
            return False
        if self.operations is not None:
            wanted = {name.upper() for name in self.operations}
            if (commit.operation or "").upper() not in wanted:
                return False
        return self.partition is None or any(self.names_partition(touched) for touched in commit.partitions)

    def __str__(self) -> str:
        """The condition in words, for a log line: `that changes rows, of operation WRITE or MERGE`."""
        parts = ["that changes rows"] if self._needs_changed_data else []
        if self.operations is not None:
            parts.append(f"of operation {' or '.join(self.operations)}")
        if self.partition is not None:
            parts.append(f"in partition {', '.join(f'{name}={value}' for name, value in self.partition.items())}")
        if self.app_id is not None:
            parts.append(f"with app id {self.app_id}")
        if self.made_by:
            parts.append(f"made by {', '.join(f'{name}={value}' for name, value in self.made_by.items())}")
        if self.exclude_app_ids:
            parts.append(f"without app id {' or '.join(self.exclude_app_ids)}")
        return ", ".join(parts) or "of any kind"

    def names_app_id(self, app_id: str) -> bool:
        """Whether the outcome may depend on a transaction identifier of a commit."""
        return app_id == self.app_id or self._excludes(app_id)

    def names_partition(self, touched: Mapping[str, str | None]) -> bool:
        """Whether the condition is about a partition, and a file with these partition values meets it."""
        if self.partition is None:
            return False
        return _by_lower_name(self.partition).items() <= _by_lower_name(touched).items()

    @property
    def needs_complete_summary(self) -> bool:
        """Whether a summary that is not complete cannot answer the condition."""
        return self.app_id is not None or bool(self.exclude_app_ids) or self.partition is not None

    def _excludes(self, app_id: str) -> bool:
        return any(fnmatchcase(app_id, pattern) for pattern in self.exclude_app_ids or ())

    @property
    def _needs_changed_data(self) -> bool:
        if self.data_change_only is None:
            return self.operations is None and self.app_id is None and self.made_by is None
        return self.data_change_only

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values, for a trigger's arguments."""
        values: dict[str, Any] = {
            "data_change_only": self.data_change_only,
            "operations": list(self.operations) if self.operations is not None else None,
            "partition": dict(self.partition) if self.partition is not None else None,
            "app_id": self.app_id,
            "exclude_app_ids": list(self.exclude_app_ids) if self.exclude_app_ids is not None else None,
        }
        return values if self.made_by is None else {**values, "made_by": dict(self.made_by)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of `as_dict`."""
        return cls(**values)


def _by_lower_name(values: Mapping[str, str | None]) -> dict[str, str | None]:
    """Partition values by column name; Delta's column names differ in more than case."""
    return {name.lower(): value for name, value in values.items()}

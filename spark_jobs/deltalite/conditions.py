"""Conditions on a commit, and positions in a log: values that sensors and triggers keep.

A condition depends on one commit, never on the table. Airflow's metadata database stores conditions and positions as
plain JSON, so they hold only strings, numbers, lists and dictionaries. Standard library only; `watch.py` reads the
commits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Self

from deltalite.errors import InvalidRequestError

MADE_BY_TIMES = ("logical_date", "data_interval_start", "data_interval_end")
"""The times of a DAG run in the provenance of a commit."""
MADE_BY = ("dag_id", "task_id", "run_id", "map_index", "idempotency_key", *MADE_BY_TIMES)
"""The properties of a DAG run in the provenance of a commit, for the condition `made_by`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitSummary:
    """The facts of a commit that a condition uses, collected in one pass over its actions.

    - `table_id`: set if the commit creates the table or changes its metadata.
    - `knows_partitions`: False if the commit removes rows of a file without naming the partition values of the file.
    - `is_complete`: False if the commit has more app ids or partitions than a summary holds. A summary that was made
      for a condition is always complete, but serves only that condition.
    - `run`: the properties of the DAG run that made the commit, by the names in `MADE_BY`; times are ISO 8601 in UTC.
    """

    version: int
    timestamp_ms: int
    operation: str | None
    data_changed: bool
    app_ids: frozenset[str]
    partitions: tuple[Mapping[str, str | None], ...]
    table_id: str | None = None
    knows_partitions: bool = True
    is_complete: bool = True
    run: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPosition:
    """A position in a table's log: the last version that was read, or -1.

    `commit_digest` identifies the commit of this version, so the same version of a recreated table has another digest.
    It is empty if the log does not hold the commit, and None if the commit was never read. `recreated` is True if the
    table was dropped and created again since the wait began, so its version numbers started again.
    """

    version: int
    commit_digest: str | None = None
    recreated: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values. Running deployments have stored them, so the keys must not change."""
        return {"version": self.version, "mark": self.commit_digest, "remade": self.recreated}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the position from the values that `as_dict` returned."""
        return cls(version=values["version"], commit_digest=values.get("mark"), recreated=values.get("remade", False))


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitCondition:
    """A condition on a commit. It holds if each part that is not None holds.

    - `data_change_only`: the commit adds or removes rows. None means True, unless `operations`, `app_id` or `made_by`
      is given, because these may select commits without rows.
    - `operations`: the commit's `commitInfo.operation` is one of these (case-insensitive).
    - `partition`: the commit adds or removes a file with these partition values, as Delta serializes them. Column
      names are case-insensitive.
    - `app_id`: the commit has this transaction identifier.
    - `exclude_app_ids`: the commit has none of these transaction identifiers, which may contain `*` and `?`.
    - `made_by`: the commit's provenance has all of these properties; their names are in `MADE_BY`.
    """

    data_change_only: bool | None = None
    operations: Sequence[str] | None = None
    partition: Mapping[str, str | None] | None = None
    app_id: str | None = None
    exclude_app_ids: Sequence[str] | None = None
    made_by: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        unknown_names = sorted(set(self.made_by or ()) - set(MADE_BY))
        if unknown_names or (self.made_by is not None and not self.made_by):
            raise InvalidRequestError(
                f"made_by contains the unknown name '{unknown_names[0]}'." if unknown_names else "made_by is empty.",
                remedy=f"Give one or several of {', '.join(MADE_BY)}.",
            )
        for name, example in (("operations", "['WRITE', 'MERGE']"), ("exclude_app_ids", "['airflow/orders_clean/*']")):
            if isinstance(value := getattr(self, name), str):
                raise InvalidRequestError(
                    f"{name} is the text {value!r}, not a list.", remedy=f"Give a list, such as {example}."
                )

    def holds_for(self, commit: CommitSummary) -> bool:
        """Whether the commit satisfies the condition."""
        if self._needs_changed_data and not commit.data_changed:
            return False
        if self.app_id is not None and self.app_id not in commit.app_ids:
            return False
        if self.made_by is not None and not self.made_by.items() <= commit.run.items():
            return False
        if any(self._excludes(app_id) for app_id in commit.app_ids):
            return False
        if self.operations is not None:
            operations = {name.upper() for name in self.operations}
            if (commit.operation or "").upper() not in operations:
                return False
        return self.partition is None or any(self.names_partition(values) for values in commit.partitions)

    def __str__(self) -> str:
        """Return the condition in words, for a log line: `that changes rows, of operation WRITE or MERGE`."""
        phrases = ["that changes rows"] if self._needs_changed_data else []
        if self.operations is not None:
            phrases.append(f"of operation {' or '.join(self.operations)}")
        if self.partition is not None:
            phrases.append(f"in partition {', '.join(f'{name}={value}' for name, value in self.partition.items())}")
        if self.app_id is not None:
            phrases.append(f"with app id {self.app_id}")
        if self.made_by:
            phrases.append(f"made by {', '.join(f'{name}={value}' for name, value in self.made_by.items())}")
        if self.exclude_app_ids:
            phrases.append(f"without app id {' or '.join(self.exclude_app_ids)}")
        return ", ".join(phrases) or "of any kind"

    def names_app_id(self, app_id: str) -> bool:
        """Whether the condition includes or excludes a transaction identifier."""
        return app_id == self.app_id or self._excludes(app_id)

    def names_partition(self, partition_values: Mapping[str, str | None]) -> bool:
        """Whether a file with these partition values is in the partition of the condition.

        False if the condition has no partition.
        """
        if self.partition is None:
            return False
        return _by_lower_name(self.partition).items() <= _by_lower_name(partition_values).items()

    @property
    def needs_complete_summary(self) -> bool:
        """Whether the condition needs all app ids or all partitions of a commit."""
        return self.app_id is not None or bool(self.exclude_app_ids) or self.partition is not None

    def _excludes(self, app_id: str) -> bool:
        return any(fnmatchcase(app_id, pattern) for pattern in self.exclude_app_ids or ())

    @property
    def _needs_changed_data(self) -> bool:
        if self.data_change_only is None:
            return self.operations is None and self.app_id is None and self.made_by is None
        return self.data_change_only

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values, for a trigger's arguments."""
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
        """Return the condition from the values that `as_dict` returned."""
        return cls(**values)


def _by_lower_name(values: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return partition values by lower-case names. Delta column names never differ in case alone."""
    return {name.lower(): value for name, value in values.items()}

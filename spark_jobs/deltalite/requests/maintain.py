"""The request of a maintenance task: the tables of a lake, the thresholds of each step, and the budget of the job.

The thresholds say when a step is due for one table. `deltalite health` uses the same thresholds with their defaults.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, ClassVar

from deltalite.errors import InvalidRequestError
from deltalite.requests.base import CommitRequest, Fault, convert_to_enum, faults_of_rerun_replace
from deltalite.requests.catalog_names import name_parts
from deltalite.requests.vacuum import VacuumMode

MAX_PARALLELISM = 64
_MAX_NUMBER = 2**62


class Step(StrEnum):
    """A step of the maintenance of one table, in the order of the steps."""

    OPTIMIZE = "optimize"
    CHECKPOINT = "checkpoint"
    VACUUM = "vacuum"


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """The thresholds that decide whether a step is due for a table.

    - `optimize`, `checkpoint`, `vacuum`: whether the step may run at all.
    - `target_file_size`: the target file size of the optimize in bytes; None means that of the table.
    - `min_small_files`: an optimize is due if it rewrites at least this number of files.
    - `max_deleted_rows_ratio`: an optimize is due if a larger share of the table's rows is soft-deleted. It rewrites
      the files with a larger share.
    - `checkpoint_after_commits`: a checkpoint is due if readers read at least this number of commits after the last
      checkpoint; None means `delta.checkpointInterval` of the table.
    - `min_dead_bytes`: a vacuum is due if it deletes at least this number of bytes of files that the log names.
    - `vacuum_after_days`: a vacuum is also due this number of days after the last one, or else after the creation of
      the table, to find files that no version names. It is not due if there is no commit since the last vacuum, and no
      file to delete.
    """

    optimize: bool = True
    checkpoint: bool = True
    vacuum: bool = True
    target_file_size: int | None = None
    min_small_files: int = 10
    max_deleted_rows_ratio: float = 0.05
    checkpoint_after_commits: int | None = None
    min_dead_bytes: int = 1024**3
    vacuum_after_days: int = 7

    def allows(self, step: Step) -> bool:
        """Whether the step may run."""
        return bool(getattr(self, step.value))


DEFAULT_THRESHOLDS = Thresholds()


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintainRequest(CommitRequest):
    """A request to maintain many tables in one job: `tables`, the matches of `pattern`, or a schema of the catalog.

    `table` stands for these tables in messages: by default the pattern, the schema or the first table. The job starts
    no step after `max_seconds`, and starts no optimize whose files exceed the rest of `max_bytes`. It maintains
    `parallelism` tables at the same time. With `dry_run`, the job only reports. See `DeltaLakeMaintenanceOperator`
    for the meaning of each parameter, and `Thresholds` for the thresholds.
    """

    kind: ClassVar[str] = "maintain"

    table: str = ""
    tables: tuple[str, ...] = ()
    pattern: str | None = None
    catalog_schema: str | None = None
    optimize: bool = DEFAULT_THRESHOLDS.optimize
    checkpoint: bool = DEFAULT_THRESHOLDS.checkpoint
    vacuum: bool = DEFAULT_THRESHOLDS.vacuum
    target_file_size: int | None = DEFAULT_THRESHOLDS.target_file_size
    min_small_files: int = DEFAULT_THRESHOLDS.min_small_files
    max_deleted_rows_ratio: float = DEFAULT_THRESHOLDS.max_deleted_rows_ratio
    checkpoint_after_commits: int | None = DEFAULT_THRESHOLDS.checkpoint_after_commits
    min_dead_bytes: int = DEFAULT_THRESHOLDS.min_dead_bytes
    vacuum_after_days: int = DEFAULT_THRESHOLDS.vacuum_after_days
    vacuum_mode: VacuumMode = VacuumMode.FULL
    parallelism: int = 4
    max_seconds: int | None = None
    max_bytes: int | None = None
    dry_run: bool = False

    def __post_init__(self) -> None:
        tables: Any = self.tables
        if isinstance(tables, str):
            raise InvalidRequestError(
                f"tables is the text {tables!r}, not a list.", remedy=f"Give a list: [{tables!r}]."
            )
        object.__setattr__(self, "tables", tuple(tables or ()))
        if not self.table:
            object.__setattr__(self, "table", self.pattern or self.catalog_schema or next(iter(self.tables), "a lake"))
        convert_to_enum(self, "vacuum_mode", VacuumMode)
        CommitRequest.__post_init__(self)

    @property
    def operation(self) -> str:
        """The name of the operation in the result."""
        return "MAINTAIN DRY RUN" if self.dry_run else "MAINTAIN"

    @property
    def thresholds(self) -> Thresholds:
        """The thresholds of the request."""
        return Thresholds(**{field.name: getattr(self, field.name) for field in fields(Thresholds)})

    def faults(self) -> Iterator[Fault]:
        """Yield the faults of the request, each with its remedy, the most important first."""
        yield from CommitRequest.faults(self)
        choices = {"tables": self.tables or None, "pattern": self.pattern, "catalog_schema": self.catalog_schema}
        chosen = [name for name, value in choices.items() if value is not None]
        if len(chosen) != 1:
            yield (
                f"The task needs one of tables, pattern and catalog_schema, but has {' and '.join(chosen) or 'none'}.",
                "Give the addresses of the tables, a pattern such as '/lake/*', or a schema such as 'sales'.",
            )
        for address in self.tables:
            if not address.strip():
                yield f"tables contains the empty address {address!r}.", "Give addresses of tables."
        if self.pattern is not None and not self.pattern.strip():
            yield "pattern is empty.", "Give a pattern such as '/lake/*'."
        if self.catalog_schema is not None:
            yield from _faults_of_schema(self.catalog_schema)
        if not any(self.thresholds.allows(step) for step in Step):
            yield "optimize, checkpoint and vacuum are all False.", "Set at least one of them to True."
        yield from self._faults_of_numbers()
        yield from faults_of_rerun_replace(
            self.identity,
            f"the operation is '{self.kind}'",
            "Use on_rerun='write' to maintain the tables again, or 'skip'.",
        )

    def _faults_of_numbers(self) -> Iterator[Fault]:
        ranges = {
            "target_file_size": (1, _MAX_NUMBER),
            "min_small_files": (1, _MAX_NUMBER),
            "checkpoint_after_commits": (1, _MAX_NUMBER),
            "min_dead_bytes": (0, _MAX_NUMBER),
            "vacuum_after_days": (0, _MAX_NUMBER),
            "parallelism": (1, MAX_PARALLELISM),
            "max_seconds": (0, _MAX_NUMBER),
            "max_bytes": (0, _MAX_NUMBER),
            "max_deleted_rows_ratio": (0, 1),
        }
        for name, (smallest, largest) in ranges.items():
            number = getattr(self, name)
            if number is not None and not smallest <= number <= largest:
                yield f"{name} is {number}, which is out of range.", f"Give a number from {smallest} to {largest}."

    @classmethod
    def _convert_values(cls, body: dict[str, Any]) -> dict[str, Any]:
        body = super(MaintainRequest, cls)._convert_values(body)  # slots=True makes a new class, so plain super() fails
        body["tables"] = tuple(body.get("tables", ()))
        return body


def _faults_of_schema(schema: str) -> Iterator[Fault]:
    try:
        name_parts("catalog_schema", schema)
    except InvalidRequestError as error:
        yield error.problem, error.remedy

"""The report of a job to the worker: its Spark application, its result, or its error.

`markers.py` has the lines that carry these values. Standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol, Self

from deltalite.sizes import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRange:
    """The versions of an incremental source that one commit of a flow loads.

    - `flow`: the name of the flow.
    - `source_table_id`: the id of the source table.
    - `after_version`: the last version that earlier commits have loaded; this commit loads the versions after it. None
      if this commit loads the complete snapshot of `to_version`.
    - `to_version`: the last loaded version. It equals `after_version` if there is nothing new.
    """

    flow: str
    source_table_id: str
    after_version: int | None
    to_version: int

    @property
    def is_empty(self) -> bool:
        """Whether the range has no version."""
        return self.after_version == self.to_version

    def __str__(self) -> str:
        if self.after_version is None:
            return f"the snapshot of version {self.to_version}"
        if self.is_empty:
            return f"no version after {self.to_version}"
        first = self.after_version + 1
        return f"version {first}" if first == self.to_version else f"versions {first} to {self.to_version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditResult:
    """The result of one audit.

    - `kind`, `on`, `level`: the kind, the scope and the level, as in the request.
    - `measured`: the number of bad rows, the number of rows, the value of the aggregate, or the age in hours. None if
      there is no value, for example in an empty column.
    - `threshold`: the limits as a text, such as `max_rows=0`.
    - `rows`: the number of rows in the scope, if it was counted.
    - `before`: the number of rows of the previous version, if it was counted.
    - `version`: the version of the other table that the audit read, if any.
    - `error`: the reason why the SQL of the audit fails for a row, if it fails.
    - `accepted_by`, `accepted_at`: who has accepted the measured value of an audit of level `ask`, and when.
    """

    name: str
    kind: str
    on: str
    level: str
    passed: bool
    measured: bool | int | float | str | None
    threshold: str
    rows: int | None = None
    before: int | None = None
    version: int | None = None
    error: str | None = None
    accepted_by: str | None = None
    accepted_at: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values. Optional fields without a value are left out."""
        optional_fields = ("rows", "before", "version", "error", "accepted_by", "accepted_at")
        return {name: value for name, value in asdict(self).items() if value is not None or name not in optional_fields}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the result from the values that `as_dict` returned.

        Raises:
            TypeError: the values have another shape.
        """
        result = cls(**values)
        for text in (result.name, result.kind, result.on, result.level, result.threshold):
            check_type(text, str)
        check_type(result.passed, bool)
        check_type(result.measured, bool, int, float, str, None)
        for optional_text in (result.error, result.accepted_by, result.accepted_at):
            check_type(optional_text, str, None)
        for number in (result.rows, result.before, result.version):
            check_type(number, int, None)
        return result

    def __str__(self) -> str:
        acceptance = "" if self.accepted_by is None else f", accepted by {self.accepted_by} at {self.accepted_at}"
        return f"'{self.name}' ({self.kind} on {self.on}): {self._measured_text}, allowed {self.threshold}{acceptance}"

    @property
    def _measured_text(self) -> str:
        if self.error is not None:
            return f"no value, because the SQL fails for a row ({self.error})"
        if self.measured is None:
            return "no value (no rows, or only NULL)"
        if self.kind == "freshness":
            return f"measured {counted(self.measured, 'hour')}"
        if self.kind == "row_count":
            before = "" if self.before is None else f" ({counted(self.before, 'row')} before)"
            return f"measured {counted(self.measured, 'row')}{before}"
        of_rows = "" if self.rows is None or self.kind == "aggregate" else f" of {counted(self.rows, 'row')}"
        return f"measured {self.measured}{of_rows}"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineResult:
    """The rows that a run put into its quarantine table.

    - `table`: the address of the quarantine table.
    - `version`: the version that has the rows of the run, None if the run committed nothing there.
    - `rows`: the number of rows of the run.
    """

    table: str
    version: int | None
    rows: int

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the result from its fields as JSON values.

        Raises:
            TypeError: the values have another shape.
        """
        result = cls(**values)
        check_type(result.table, str)
        check_type(result.version, int, None)
        check_type(result.rows, int)
        return result


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationResult:
    """The result of an operation; its dictionary is the task's XCom.

    - `version`: the version of this run's commit, which an earlier task attempt may have made. Without a commit, it is
      the version that the run read. None if the log no longer holds the commit, or if the run read no version.
    - `skipped`: whether this attempt had nothing to do, because an earlier attempt has committed or nothing is new.
    - `timestamp`: the time in the commit's provenance, in milliseconds UTC. Use the version for time travel. Without a
      commit it is None, or the end of a maintenance of many tables.
    - `metrics`: the operation metrics, under Spark's names.
    - `source_versions`: the versions of the Delta tables that the operation read, by the names of their views.
    - `out_of_order`: whether runs of later data intervals had changed rows that the operation may have touched.
    - `partitions`: the partitions in which the commit changed rows, in Hive's spelling (`day=2026-03-01/country=DE`).
      None if there are too many, or if they are unknown.
    - `flows`: the versions that the commit loaded from incremental sources, by the names of their views.
    - `skip_reason`: why the operation made no commit, if its sources have nothing new. `skipped` is then true.
    - `tables`: the rows of a maintenance of many tables, as JSON values. `version` is then None.
    - `audits`: the results of the audits, in the order of the request. None if they are unknown, because they did not
      fit into the marker line.
    - `quarantine`: the rows that the run put into quarantine; None for an operation without a quarantine.
    - `phases`: the seconds that the job spent in each phase (`deltalite.phases`). Empty if no job reported them.
    """

    table: str
    operation: str
    version: int | None
    read_version: int | None
    committed: bool
    skipped: bool
    app_id: str | None
    txn_version: int | None
    timestamp: int | None
    metrics: Mapping[str, int] = field(default_factory=dict)
    source_versions: Mapping[str, int] = field(default_factory=dict)
    out_of_order: bool = False
    partitions: tuple[str, ...] | None = ()
    flows: Mapping[str, FlowRange] = field(default_factory=dict)
    skip_reason: str | None = None
    tables: tuple[Mapping[str, Any], ...] = ()
    audits: tuple[AuditResult, ...] | None = ()
    quarantine: QuarantineResult | None = None
    phases: Mapping[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values. Optional fields without a value are left out."""
        values = asdict(self)
        for name in ("source_versions", "out_of_order", "flows", "skip_reason", "tables", "quarantine", "phases"):
            if not values[name]:
                del values[name]
        if self.tables:
            values["tables"] = list(values["tables"])
        if self.audits:
            values["audits"] = [audit.as_dict() for audit in self.audits]
        elif self.audits is not None:
            del values["audits"]
        if self.partitions is None:
            values["partitions"] = None
        elif self.partitions:
            values["partitions"] = list(self.partitions)
        else:
            del values["partitions"]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the result from the values that `as_dict` returned. `check_field_types` checks its fields.

        Raises:
            ValueError, TypeError, AttributeError: the values have another shape.
        """
        partitions = values.get("partitions", ())
        flows = {name: FlowRange(**flow_range) for name, flow_range in dict(values.get("flows", {})).items()}
        audits, quarantine = values.get("audits", ()), values.get("quarantine")
        return cls(
            **{
                **values,
                "partitions": None if partitions is None else tuple(partitions),
                "flows": flows,
                "tables": tuple(values.get("tables", ())),
                "audits": None if audits is None else tuple(map(AuditResult.from_dict, audits)),
                "quarantine": None if quarantine is None else QuarantineResult.from_dict(quarantine),
            }
        )


class Run(Protocol):
    """The parts of a run identity that a result names."""

    @property
    def app_id(self) -> str:
        """The app id of the run."""

    @property
    def txn_version(self) -> int:
        """The transaction version of the run."""


def result_without_commit(
    operation: str,
    table: str,
    version: int | None,
    *,
    run: Run | None = None,
    skipped: bool = False,
    metrics: Mapping[str, int] | None = None,
) -> OperationResult:
    """Return the result of a task that commits nothing.

    Args:
        operation: the name of the operation.
        table: the address of the table.
        version: the version of the table that the task has read; None if it has read none.
        run: the run identity of the request; None for a task that never commits.
        skipped: whether the task had nothing to do.
        metrics: the metrics of the operation.
    """
    return OperationResult(
        table=table,
        operation=operation,
        version=version,
        read_version=version,
        committed=False,
        skipped=skipped,
        app_id=None if run is None else run.app_id,
        txn_version=None if run is None else run.txn_version,
        timestamp=None,
        metrics=metrics or {},
    )


def checkpoint_result(table: str, version: int, *, existed: bool, metrics: Mapping[str, int]) -> OperationResult:
    """Return the result of a checkpoint task.

    `existed` is True if the version already had a checkpoint; the result is then `skipped`.
    """
    return result_without_commit("CHECKPOINT", table, version, skipped=existed, metrics=metrics)


def manifest_result(table: str, version: int, *, metrics: Mapping[str, int]) -> OperationResult:
    """Return the result of a manifest generation."""
    return result_without_commit("GENERATE", table, version, metrics=metrics)


def check_result(table: str, version: int | None, audits: tuple[AuditResult, ...] | None) -> OperationResult:
    """Return the result of a check.

    `audits` is None if the results of the audits are unknown.
    """
    metrics = {} if audits is None else {"numAudits": len(audits), "numAuditsNotPassed": _count_not_passed(audits)}
    result = result_without_commit("CHECK", table, version, metrics=metrics)
    return replace(result, audits=audits)


def _count_not_passed(audits: Iterable[AuditResult]) -> int:
    """Return the number of audits that did not pass."""
    return sum(not audit.passed for audit in audits)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobError:
    """The error that ended a job: its class name, and as much of its message as fits into a marker line.

    `remedy` is the end of the message, which states what to do; it is empty if the error has none.
    """

    kind: str
    message: str
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStarted:
    """The Spark application of a job, and the address of its UI while it runs; None if it has no UI."""

    application_id: str
    ui_url: str | None


def check_field_types(result: OperationResult) -> None:
    """Check the types of the fields, which another process has written.

    Raises:
        TypeError, KeyError: a field has another type, or is missing.
        ValueError: the seconds of a phase are negative or not finite.
    """
    for text in (result.table, result.operation):
        check_type(text, str)
    for number in (result.version, result.read_version, result.txn_version, result.timestamp):
        check_type(number, int, None)
    for flag in (result.committed, result.skipped, result.out_of_order):
        check_type(flag, bool)
    check_type(result.app_id, str, None)
    for name in result.partitions or ():
        check_type(name, str)
    for flow_range in result.flows.values():
        for text in (flow_range.flow, flow_range.source_table_id):
            check_type(text, str)
        check_type(flow_range.after_version, int, None)
        check_type(flow_range.to_version, int)
    check_type(result.skip_reason, str, None)
    for row in result.tables:
        check_type(row, dict)
        check_type(row["table"], str)
        check_type(row["status"], str)
    for counts in (result.metrics, result.source_versions):
        check_type(counts, dict)
        for count in counts.values():
            check_type(count, int)
    _check_phases(result.phases)


def _check_phases(phases: Mapping[str, float]) -> None:
    """Check the seconds of the phases. Raises `TypeError`, or `ValueError` for a negative or non-finite number."""
    check_type(phases, dict)
    for seconds in phases.values():
        check_type(seconds, int, float)
        if not 0 <= seconds < math.inf:
            raise ValueError(seconds)


def check_type(value: object, *types: type | None) -> None:
    """Raise `TypeError` if the value has none of these types. A boolean does not count as an integer."""
    if type(value) not in types and not (value is None and None in types):
        raise TypeError(f"{value!r} is a {type(value).__name__}")

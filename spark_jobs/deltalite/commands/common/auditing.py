"""The audits of an operation: they examine the files of a proposal before its commit.

The audits run on the staged files, so the examined rows are the rows that the commit publishes. Audits of the complete
table examine the base snapshot with the changes of the proposal. A proposal with such an audit conflicts with every
winning commit that changes rows, and the next attempt audits again. So these audits examine the table that the commit
produces.

If an audit of level `fail` does not pass, nothing is committed. The same holds for an audit of level `ask` that nobody
has accepted. In both cases the staged files stay, so that a person can read them. A full vacuum after the retention
removes them; a lite vacuum does not find them. The log of the job and the error show sample rows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa

from deltalite.commands.common.committing import now_ms
from deltalite.commands.common.written_files import live_row_count
from deltalite.errors import ApprovalNeededError, AuditFailedError, InvalidRequestError
from deltalite.log.file_table import ADD_TYPES, LISTED_COLUMNS, file_key, table_of, without_keys
from deltalite.phases import PHASES, Phase
from deltalite.protocol.actions import AddFile, to_json
from deltalite.protocol.column_mapping import TableSchema
from deltalite.protocol.paths import decode_path
from deltalite.protocol.schema import StructType
from deltalite.requests import (
    Approval,
    Audit,
    AuditLevel,
    AuditQuestion,
    AuditScope,
    RestoreRequest,
    RowsRequest,
    WriteRequest,
)
from deltalite.requests.approvals import request_parts
from deltalite.results import AuditResult
from deltalite.sizes import counted
from deltalite.snapshot import Snapshot
from deltalite.spark.audits.measuring import AuditedRows, measure_audits
from deltalite.spark.audits.resolving import ResolvedAudit, resolve_audits
from deltalite.spark.audits.sampling import sample_rows
from deltalite.spark.scan.frame import scan_rows
from deltalite.spark.scan.row_selection import live_rows
from deltalite.spark.write.staging import StagedWrite
from deltalite.storage.log_store import LogStore
from deltalite.txn.approvals import is_undecided, question_of, with_acceptance
from deltalite.txn.audits import AUDITS, audit_result, audits_parameter, failed_audits
from deltalite.txn.proposal import Proposal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger(__name__)
_SHOWN_FILES = 3
_LISTED_TYPES = {name: ADD_TYPES[name] for name in LISTED_COLUMNS}


class Auditor:
    """Audits the proposals of one command, one attempt after the other.

    The next attempt keeps the results on the new rows if it commits the same files.

    - `has_new_rows`: whether the operation can add or update rows, which audits examine by default.
    - `approval`: the decision of a person on audits of level `ask`, None without a decision.
    - `request_parts`: the parts of the request that the question contains.
    """

    def __init__(
        self,
        spark: SparkSession,
        audits: Sequence[Audit],
        store: LogStore,
        *,
        has_new_rows: bool,
        approval: Approval | None = None,
        request_parts: Mapping[str, str] | None = None,
    ) -> None:
        self._spark = spark
        self._request_parts = request_parts or {}
        self._approval = approval
        self._audits = audits
        self._store = store
        self._has_new_rows = has_new_rows
        self._results: dict[str, AuditResult] = {}  # of the new rows, by name
        self._paths: frozenset[str] = frozenset()  # the files with these rows

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        request: RestoreRequest | RowsRequest | WriteRequest,
        store: LogStore,
        *,
        has_new_rows: bool,
    ) -> Auditor:
        """Return the auditor for the audits of a request."""
        return cls(
            spark,
            request.audits,
            store,
            has_new_rows=has_new_rows,
            approval=request.approval,
            request_parts=request_parts(request.table, request.identity, request.audits),
        )

    @property
    def needs_new_rows(self) -> bool:
        """Whether an audit examines the new rows.

        Audits of level `quarantine` do not count, because the operation itself measures them.
        """
        return any(
            audit.scope(has_new_rows=self._has_new_rows) is AuditScope.NEW_ROWS
            for audit in self._audits
            if audit.level is not AuditLevel.QUARANTINE
        )

    def resolve(self, schema: StructType) -> list[ResolvedAudit]:
        """Resolve the audits of one attempt on the columns of the table after the commit.

        Commands call this method before they write rows, so that wrong SQL costs no write. Each attempt calls it again,
        so that the audits read the newest versions of other tables.

        Raises:
            DeltaLiteError: as `resolve_audits`.
        """
        if not self._audits:
            return []
        return resolve_audits(self._spark, self._audits, schema, self._store.root, has_new_rows=self._has_new_rows)

    def audit(
        self,
        resolved: Sequence[ResolvedAudit],
        base: Snapshot | None,
        proposal: Proposal,
        table: TableSchema,
        new_rows: AuditedRows,
        stagings: Sequence[StagedWrite],
        *,
        measured: Mapping[str, AuditResult] | None = None,
    ) -> Proposal:
        """Run the audits, and return the proposal with their results.

        Args:
            resolved: the audits of this attempt, from `resolve`.
            base: the snapshot that the proposal is based on, None for a new table.
            proposal: the proposal with all its files.
            table: the schema of the table after the commit.
            new_rows: the rows that the operation adds or updates.
            stagings: the writes whose files stay if an audit refuses the commit.
            measured: the results of audits that the operation has measured itself, by name.

        Raises:
            AuditFailedError: an audit of level `fail` or `quarantine` did not pass.
            ApprovalNeededError: no such audit failed, but an audit of level `ask` did not pass, and the approval does
                not cover it.
            InvalidRequestError: SQL of an audit of level `fail` or `ask` cannot be computed for a row.
        """
        if not resolved:
            return proposal
        PHASES.begin(Phase.AUDIT)
        scopes = {AuditScope.NEW_ROWS: new_rows, AuditScope.TABLE: self._rows_after(base, proposal, table)}
        results = self._run(resolved, scopes, base, proposal, table, measured or {})
        time_ms, audits = now_ms(), {item.audit.name: item.audit for item in resolved}
        results = with_acceptance(results, audits, self._approval, now_ms=time_ms)
        if failed_audits(results) or any(map(is_undecided, results)):
            for staging in stagings:
                # Without a table, the staging folder must stay, because it marks leftover files for the next write.
                staging.keep_published() if base is not None else staging.keep_all()
        samples = sample_rows(self._spark, resolved, {r.name: r for r in results}, scopes, table.logical)
        effect = _text_of_files(self._store.root, proposal)
        raise_if_failed(self._store.root, results, effect, samples)
        question = question_of(results, audits, effect=effect, samples=samples, now_ms=time_ms, approval=self._approval)
        raise_if_undecided(self._store.root, replace(question, request=self._request_parts))
        operation = proposal.operation
        operation = replace(operation, parameters={**operation.parameters, AUDITS: audits_parameter(results)})
        proposal = replace(proposal, operation=operation)
        if not any(audit.reads_table for audit in resolved):
            return proposal
        reads = replace(proposal.reads, whole_table=True)
        return replace(proposal, reads=reads, row_level=False, audits_table=True)

    def _run(
        self,
        resolved: Sequence[ResolvedAudit],
        scopes: Mapping[AuditScope, AuditedRows],
        base: Snapshot | None,
        proposal: Proposal,
        table: TableSchema,
        measured: Mapping[str, AuditResult],
    ) -> list[AuditResult]:
        """Return the results of all audits."""
        paths = frozenset(add.path for add in proposal.adds)
        if paths != self._paths or not paths:
            self._results = {}
        self._results |= measured
        unmeasured = [item for item in resolved if item.audit.name not in self._results]
        results = self._results | run_audits(self._spark, self._store, unmeasured, scopes, table.logical, before=base)
        table_audits = {item.audit.name for item in resolved if item.reads_table}
        self._paths = paths
        self._results = {name: result for name, result in results.items() if name not in table_audits}
        return [results[item.audit.name] for item in resolved]

    def _rows_after(self, base: Snapshot | None, proposal: Proposal, table: TableSchema) -> AuditedRows:
        """Return the rows of the table after the commit."""
        return _rows_of(self._spark, self._store, table, cache(lambda: files_after(base, proposal)))


def run_audits(
    spark: SparkSession,
    store: LogStore,
    audits: Sequence[ResolvedAudit],
    scopes: Mapping[AuditScope, AuditedRows],
    schema: StructType,
    *,
    before: Snapshot | None,
) -> dict[str, AuditResult]:
    """Measure audits, and return their results by name.

    `before` is the snapshot with which `max_change` compares, None for a new table.

    Raises:
        DeltaLiteError: as `measure_audits`.
    """
    measurements = measure_audits(
        spark,
        audits,
        scopes,
        schema,
        root=store.root,
        row_count_before=lambda: None if before is None else live_row_count(store, before.files),
    )
    time_ms = now_ms()
    pairs = zip(audits, measurements, strict=True)
    return {item.audit.name: audit_result(item.audit, item.scope, value, now_ms=time_ms) for item, value in pairs}


def raise_if_failed(
    root: str, results: Sequence[AuditResult], effect: str, samples: Mapping[str, Sequence[str]]
) -> None:
    """Log each result, and raise an error if there are `failed_audits`.

    Args:
        root: the address of the table.
        results: the results of all audits.
        effect: a text about the effect of the failure, for the error.
        samples: the sample rows of audits that did not pass, by the names of the audits.

    Raises:
        AuditFailedError: names each failed audit, with the measured value and the threshold.
        InvalidRequestError: SQL of a failed audit cannot be computed for a row. The error names the same values.
    """
    failures = failed_audits(results)
    for result in results:
        level, outcome = (logging.INFO, "passed") if result.passed else (logging.WARNING, "did not pass")
        _log.log(level, "Audit %s in %s: %s", outcome, root, result)
        for sample in samples.get(result.name, ()):
            _log.warning("Sample of the audit '%s': %s", result.name, sample)
    if failures:
        texts = "; ".join(map(str, failures))
        problem = f"{len(failures)} of {counted(len(results), 'audit')} of {root} did not pass: {texts}. {effect}"
        problem += "".join(
            f" Samples of '{failure.name}': {', '.join(samples[failure.name])}."
            for failure in failures
            if failure.name in samples
        )
        if any(failure.error is not None for failure in failures):
            raise InvalidRequestError(
                problem,
                remedy="Correct the SQL of the audits. Functions such as try_cast give NULL instead of an error.",
            )
        raise AuditFailedError(
            problem, remedy="Correct the rows or the audits, then clear the task. A retry would read the same rows."
        )


def raise_if_undecided(root: str, question: AuditQuestion) -> None:
    """Raise an error with the question if a person must decide on an audit.

    Raises:
        ApprovalNeededError: names each such audit, with the measured value and the threshold.
    """
    if not question.audits:
        return
    texts = "; ".join(audit.text for audit in question.audits)
    error = ApprovalNeededError(
        f"A person must decide whether to publish rows in {root}: {texts}. {question.effect}",
        remedy="Answer the question of the task in Airflow. A job without Airflow cannot ask: choose another level.",
    )
    error.question = question
    raise error


def files_after(base: Snapshot | None, proposal: Proposal) -> pa.Table:
    """Return the files of the table after the commit of a proposal, with the columns `LISTED_COLUMNS`."""
    added_files = listed_files(proposal.adds)
    if base is None:
        return added_files
    removed_keys = [file_key(remove.path, remove.deletion_vector) for remove in proposal.removes]
    remaining_files = without_keys(base.files.select(list(LISTED_COLUMNS)), removed_keys)
    return pa.concat_tables([remaining_files, added_files])


def staged_rows(spark: SparkSession, store: LogStore, table: TableSchema, adds: Sequence[AddFile]) -> AuditedRows:
    """Return the rows of files that are not committed yet."""
    return _rows_of(spark, store, table, cache(lambda: listed_files(adds)))


def _rows_of(
    spark: SparkSession, store: LogStore, table: TableSchema, find_files: Callable[[], pa.Table]
) -> AuditedRows:
    """Return the live rows of files. Call `find_files` only when an audit needs the rows."""

    def make_frame() -> DataFrame:
        files = find_files()
        return scan_rows(spark, store.root, table, files, rows=live_rows(store, files))

    return AuditedRows(frame=make_frame, row_count=lambda: live_row_count(store, find_files()))


def listed_files(adds: Iterable[AddFile]) -> pa.Table:
    """Return added files as the log would list them, with the columns `LISTED_COLUMNS`."""
    return table_of([to_json(add) for add in adds], _LISTED_TYPES, AddFile)


def _text_of_files(root: str, proposal: Proposal) -> str:
    """Return a text about the staged files of a proposal that is not committed.

    A restore stages no file: it adds files of older versions. A file with a deletion vector was not staged either.
    """
    names = [decode_path(add.path) for add in proposal.adds if add.deletion_vector is None]
    if not names or proposal.revives_files:
        return "Nothing was committed."
    more = f" and {len(names) - _SHOWN_FILES} more" if len(names) > _SHOWN_FILES else ""
    shown = ", ".join(f"{root}/{name}" for name in names[:_SHOWN_FILES])
    return (
        f"Nothing was committed. The rows stay in {shown}{more} until a full vacuum; read them with "
        f"spark.read.option('basePath', '{root}').parquet(...)."
    )

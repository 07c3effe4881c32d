"""The check command: runs audits on an existing version of a table.

The command writes nothing, so the table has no record of the run, and a retry examines the rows again. `max_change`
compares the row count with that of the previous version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltalite.commands.common.auditing import raise_if_failed, run_audits
from deltalite.commands.common.written_files import live_row_count
from deltalite.phases import PHASES, Phase
from deltalite.requests import AuditScope, CheckRequest
from deltalite.results import OperationResult, check_result
from deltalite.snapshot import Snapshot
from deltalite.spark.audits.measuring import AuditedRows
from deltalite.spark.audits.resolving import resolve_audits
from deltalite.spark.audits.sampling import sample_rows
from deltalite.spark.reader.read import snapshot_at
from deltalite.spark.scan.frame import scan
from deltalite.storage.versioned_path import refuse_version, resolve_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check(spark: SparkSession, request: CheckRequest) -> OperationResult:
    """Run the audits on the version of the request, and return their results.

    Raises:
        AuditFailedError: an audit of level `fail` did not pass.
        InvalidRequestError: the address names a version, the SQL of an audit is wrong, or the SQL of an audit of level
            `fail` cannot be computed for a row.
        TableError: the table, the version, or the previous version (for `max_change`) cannot be read.
        DeltaLiteError: storage failed.
    """
    refuse_version(request.table, operation="check", participle="checked without the parameter `version`")
    snapshot = snapshot_at(spark, resolve_version(request.table, request.version, request.timestamp))
    store = snapshot.store
    audits = resolve_audits(spark, request.audits, snapshot.schema, store.root, has_new_rows=False)
    compares_versions = any(audit.max_change is not None for audit in request.audits)
    previous_snapshot = Snapshot.load(store, snapshot.version - 1) if compares_versions and snapshot.version else None
    rows = AuditedRows(frame=lambda: scan(spark, snapshot), row_count=lambda: live_row_count(store, snapshot.files))
    scopes = {AuditScope.TABLE: rows}
    PHASES.begin(Phase.AUDIT)
    results = run_audits(spark, store, audits, scopes, snapshot.schema, before=previous_snapshot)
    ordered_results = tuple(results[audit.name] for audit in request.audits)
    samples = sample_rows(spark, audits, results, scopes, snapshot.schema)
    raise_if_failed(store.root, ordered_results, f"The check examined version {snapshot.version}.", samples)
    return check_result(store.root, snapshot.version, ordered_results)
